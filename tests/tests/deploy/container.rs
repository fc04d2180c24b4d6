//! One running container: the processes of `deploy/container.sh`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::compose::Service;
use crate::image::Image;
use crate::process::{finish, root};

/// Time for a command in a container.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Where a container is.
pub struct Place<'a> {
    pub name: &'a str,
    /// A process in the namespace of the bridge.
    pub network: u32,
    /// With the length of the network's prefix.
    pub address: String,
    /// `source:target` or `source:target:ro`.
    pub mounts: Vec<String>,
    pub log: &'a Path,
}

/// A container that was started. All its processes end with it.
pub struct Container {
    pub service: Service,
    process: Child,
    identity: Vec<String>,
}

/// A command that is killed when the thread ends that started it: nothing outlives a test.
pub fn bound(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

impl Container {
    /// Starts a service's command.
    pub fn start(service: &Service, image: &Image, place: &Place<'_>) -> Self {
        let mut command = bound("unshare");
        command.args("--net --mount --uts --ipc --propagation private bash".split(' '));
        command.arg(root().join("deploy/container.sh"));
        let mut option = |name: &str, value: &str| {
            command.args([name, value]);
        };
        let user = format!("{0}:{0}", image.uid);
        option("--root", &image.dir.to_string_lossy());
        option("--name", place.name);
        option("--network", &place.network.to_string());
        option("--address", &place.address);
        option("--user", &user);
        option("--workdir", &image.workdir);
        for mount in image.mounts.iter().chain(&place.mounts) {
            option("--mount", mount);
        }
        for target in &service.tmpfs {
            option("--tmpfs", target);
        }
        if let Some(bytes) = service.memory_bytes {
            option("--memory", &bytes.to_string());
        }
        let mut variables = vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()];
        variables.extend(service.environment.iter().map(|(k, v)| format!("{k}={v}")));
        for variable in &variables {
            option("--env", variable);
        }
        if !service.is_read_only {
            command.arg("--writable");
        }
        let log = File::options().create(true).append(true).open(place.log);
        let log = log.unwrap();
        command.arg("--").args(&service.command);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap());
        let process = command.stderr(log).spawn().unwrap();
        let mut identity: Vec<_> = "setpriv --clear-groups"
            .split(' ')
            .map(str::to_owned)
            .collect();
        identity.extend(["reuid", "regid"].map(|id| format!("--{id}={}", image.uid)));
        identity.extend(["env".to_owned(), "-i".to_owned()]);
        identity.extend(variables);
        Self {
            service: service.clone(),
            process,
            identity,
        }
    }

    /// Process 1 of the container, by its number here; none before it runs and after it ended.
    fn first(&self) -> Option<u32> {
        let parent = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        children.ok()?.split_whitespace().find_map(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
            let numbers = status
                .lines()
                .find_map(|line| line.strip_prefix("NSpid:"))?;
            let numbers: Vec<_> = numbers.split_whitespace().collect();
            (numbers.len() > 1 && numbers.last() == Some(&"1")).then(|| child.parse().ok())?
        })
    }

    /// Runs a command with the container's user, files, addresses and variables, as `exec` does.
    pub fn exec(&self, command: &[&str]) -> Option<Output> {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.first()?.to_string()]);
        enter.args("--mount --uts --ipc --net --pid --root --wd".split(' '));
        enter.args(&self.identity).args(command);
        Some(finish(&mut enter, COMMAND_LIMIT))
    }

    /// What the container answers to a request from within its network; empty if it does not.
    pub fn get(&self, url: &str) -> Vec<u8> {
        let Some(first) = self.first() else {
            return Vec::new();
        };
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &first.to_string(),
            "--net",
            "curl",
            "-s",
            "-m",
            "2",
            url,
        ]);
        command.output().unwrap().stdout
    }

    /// The job processes in the container.
    pub fn job_processes(&self) -> usize {
        let Some(first) = self.first() else { return 0 };
        let is_inside = |entry: &std::fs::DirEntry| -> Option<bool> {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?;
            Some(parent == first.to_string())
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|entry| is_inside(entry) == Some(true))
            .count()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().unwrap()
    }

    /// SIGKILL for every process of the container at once.
    pub fn kill(mut self) {
        self.send("-KILL");
        self.process.wait().unwrap();
    }

    fn send(&self, signal: &str) {
        if let Some(first) = self.first() {
            let mut kill = Command::new("/bin/kill");
            kill.args([signal, &first.to_string()]);
            assert!(kill.status().unwrap().success());
        }
    }

    /// SIGTERM for process 1; true if all ended well within the service's time.
    pub fn stop(mut self) -> bool {
        self.send("-TERM");
        let begun = Instant::now();
        while begun.elapsed() < self.service.grace {
            if let Some(status) = self.ended() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The command behind the process takes the container with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The network of a project: a bridge in a namespace that nothing else is in.
pub struct Network {
    process: Child,
}

impl Network {
    /// Makes it, or says what this machine refuses.
    pub fn make(scratch: &Path) -> Self {
        let (out, err): (PathBuf, PathBuf) = (scratch.join("bridge"), scratch.join("bridge.err"));
        let script = "ip link add br0 type bridge && ip link set br0 up && echo up && \
                      exec sleep infinity";
        let mut command = bound("unshare");
        command.args("--net --mount --pid --uts --ipc --fork --kill-child sh -c".split(' '));
        command.arg(script).stdin(Stdio::null());
        command.stdout(File::create(&out).unwrap());
        command.stderr(File::create(&err).unwrap());
        let mut network = Self {
            process: command.spawn().unwrap(),
        };
        while std::fs::read_to_string(&out).unwrap() != "up\n" {
            if network.process.try_wait().unwrap().is_some() {
                panic!(
                    "this test needs root, and may make namespaces, bridges and mounts; here: {}",
                    std::fs::read_to_string(&err).unwrap()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        network
    }

    /// A process in it. With `--fork` the namespaces of network and mounts are the parent's too.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
