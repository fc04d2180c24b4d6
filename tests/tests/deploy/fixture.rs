//! The services of the compose file, up and down, as Compose would have them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compose::{self, Service, Variables};
use crate::container::{Container, Network, Place};
use crate::image::Image;
use crate::process::text;

/// How long anything in these tests may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The first bytes of all addresses of a project.
#[derive(Clone, Copy)]
pub enum Addresses {
    V4,
    V6,
}

impl Addresses {
    fn host(self, number: u32) -> String {
        match self {
            Self::V4 => format!("10.91.0.{number}"),
            Self::V6 => format!("fd91::{number}"),
        }
    }

    fn with_prefix(self, host: &str) -> String {
        match self {
            Self::V4 => format!("{host}/24"),
            Self::V6 => format!("{host}/64"),
        }
    }
}

/// A project: `docker compose up` of it, and what follows.
pub struct Stack {
    containers: BTreeMap<String, Container>,
    services: Vec<Service>,
    image: Image,
    network: Network,
    addresses: Addresses,
    /// No address is given twice.
    next_host: u32,
    names: BTreeMap<String, String>,
    dir: tempfile::TempDir,
}

impl Stack {
    /// Prepares everything; nothing runs yet. `programs` are in the image beside our own.
    pub fn new(
        addresses: Addresses,
        variables: &Variables,
        profiles: &[&str],
        programs: &[PathBuf],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let network = Network::make(dir.path());
        let mut image = Image::make(dir.path().join("image"));
        for program in programs {
            image.program(program);
        }
        let stack = Self {
            containers: BTreeMap::new(),
            services: compose::services(variables, profiles),
            image,
            network,
            addresses,
            next_host: 2,
            names: BTreeMap::new(),
            dir,
        };
        stack.write_names();
        stack
    }

    /// Starts every service, the taskmanager `scale` times.
    pub fn up(&mut self, scale: u32) {
        for service in self.services.clone() {
            let n = if service.name == "taskmanager" {
                scale
            } else {
                1
            };
            for number in 1..=n {
                self.start(&format!("{}-{number}", service.name));
            }
        }
    }

    /// Starts a container, with an address that nobody had before.
    pub fn start(&mut self, name: &str) {
        let (service, _) = name.split_once('-').unwrap();
        let service = self.services.iter().find(|s| s.name == service).unwrap();
        let service = service.clone();
        let host = self.addresses.host(self.next_host);
        self.next_host += 1;
        if !name.starts_with("taskmanager") {
            self.names.insert(service.name.clone(), host.clone());
            self.write_names();
        }
        let mut mounts = vec![format!("{}:/etc/hosts:ro", self.hosts().display())];
        for volume in &service.volumes {
            mounts.push(self.volume(name, volume));
        }
        let place = Place {
            // Host names are as new as addresses.
            name: &format!("host-{}", self.next_host),
            network: self.network.id(),
            address: self.addresses.with_prefix(&host),
            mounts,
            log: &self.dir.path().join(format!("{name}.log")),
        };
        let container = Container::start(&service, &self.image, &place);
        self.containers.insert(name.to_owned(), container);
    }

    fn hosts(&self) -> PathBuf {
        self.dir.path().join("hosts")
    }

    /// What the engine's name server knows. Written in place, so that all containers see it.
    fn write_names(&self) {
        let mut hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for (name, host) in &self.names {
            hosts.push_str(&format!("{host} {name}\n"));
        }
        std::fs::write(self.hosts(), hosts).unwrap();
    }

    /// A named volume is shared; another one is the container's, and new with each container.
    fn volume(&self, container: &str, volume: &str) -> String {
        let (dir, target) = match volume.split_once(':') {
            Some((name, target)) => (format!("volume-{name}"), target),
            None => (format!("own-{container}-{}", self.next_host), volume),
        };
        let dir = self.dir.path().join(dir);
        if !dir.exists() {
            std::fs::create_dir(&dir).unwrap();
            self.image.give(&dir);
        }
        format!("{}:{target}", dir.display())
    }

    /// The volume at `/var/lib/millstream`.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("volume-data")
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a directory or file the image's user's.
    pub fn give(&self, path: &Path) {
        self.image.give(path);
    }

    pub fn container(&self, name: &str) -> &Container {
        &self.containers[name]
    }

    pub fn names(&self) -> Vec<String> {
        self.containers.keys().cloned().collect()
    }

    /// Kills all processes of a container.
    pub fn kill(&mut self, name: &str) {
        self.containers.remove(name).unwrap().kill();
    }

    /// Stops all containers of ours at the same time; each must end well within its time.
    pub fn stop(&mut self) {
        let stopping: Vec<_> = self
            .containers
            .extract_if(.., |_, container| container.service.health.is_some())
            .map(|(name, container)| (name, std::thread::spawn(move || container.stop())))
            .collect();
        for (name, stopped) in stopping {
            assert!(stopped.join().unwrap(), "{name}\n{}", self.logs());
        }
    }

    /// Starts again what ended by itself, where the file says so.
    fn tend(&mut self) {
        let ended = self
            .containers
            .iter_mut()
            .filter_map(|(name, c)| (c.service.restarts && c.ended().is_some()).then_some(name));
        for name in ended.cloned().collect::<Vec<_>>() {
            self.containers.remove(&name);
            self.start(&name);
        }
    }

    /// Asks the jobmanager's REST; null while it does not answer.
    pub fn rest(&self, path: &str) -> Value {
        let url = match self.addresses {
            Addresses::V4 => format!("http://127.0.0.1:8081{path}"),
            Addresses::V6 => format!("http://[::1]:8081{path}"),
        };
        let answer = self.container("jobmanager-1").get(&url);
        serde_json::from_slice(&answer).unwrap_or(Value::Null)
    }

    /// Waits until REST shows at `path` what is wanted.
    pub fn until(
        &mut self,
        what: &str,
        limit: Duration,
        path: &str,
        wanted: impl Fn(&Value) -> bool,
    ) {
        let begun = Instant::now();
        loop {
            self.tend();
            let found = self.rest(path);
            if found.is_object() && wanted(&found) {
                return;
            }
            assert!(
                begun.elapsed() < limit,
                "not true after {limit:?}: {what}: {found}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a job runs.
    pub fn until_running(&mut self, job: &str, limit: Duration) {
        let path = format!("/jobs/{job}");
        self.until("the job runs", limit, &path, |job| {
            job["state"] == "RUNNING"
        });
    }

    /// `docker compose exec jobmanager COMMAND`.
    pub fn exec(&self, command: &[&str]) -> Output {
        let output = self.container("jobmanager-1").exec(command);
        let output = output.expect("the jobmanager runs");
        assert!(
            output.status.success(),
            "{command:?}: {}\n{}",
            text(&output.stderr),
            self.logs()
        );
        output
    }

    /// What a container has written.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap()
    }

    /// The end of every log.
    pub fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in std::fs::read_dir(self.dir()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".log") {
                let log = self.log(name);
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(25)..].join("\n");
                logs.push_str(&format!("== {name}\n{tail}\n"));
            }
        }
        logs
    }
}
