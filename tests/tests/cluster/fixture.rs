//! One jobmanager and some taskmanagers, started, killed and started again by a script.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use crate::ledger::Ledger;
use crate::process::{finish, program, text};

/// How long a job of these tests may take in all.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Processes on ports of their own, below a directory of their own.
pub struct Cluster {
    dir: tempfile::TempDir,
    grpc: u16,
    rest: u16,
    /// What every daemon is told beyond, or instead of, what all tests tell it.
    settings: Vec<String>,
    processes: BTreeMap<String, Child>,
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Cluster {
    /// A jobmanager and this many taskmanagers with `slots` slots each, registered.
    pub fn start(taskmanagers: u32, slots: u32) -> Self {
        Self::start_with(taskmanagers, slots, &[])
    }

    /// The same, and every daemon has these settings, `key=value`.
    pub fn start_with(taskmanagers: u32, slots: u32, settings: &[&str]) -> Self {
        let mut cluster = Self::prepared(settings);
        cluster.start_jobmanager("");
        for number in 1..=taskmanagers {
            cluster.start_taskmanager(number, slots, "");
        }
        cluster.until("every taskmanager is registered", |overview| {
            overview["taskmanagers"] == taskmanagers
                && overview["slots-total"] == taskmanagers * slots
        });
        cluster
    }

    /// Ports, a directory and settings; nothing runs yet.
    pub fn prepared(settings: &[&str]) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            grpc: free_port(),
            rest: free_port(),
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            processes: BTreeMap::new(),
        }
    }

    /// A setting, `key=value`, of every daemon that is started from now on.
    pub fn set(&mut self, setting: &str) {
        let key = setting.split('=').next();
        self.settings.retain(|other| other.split('=').next() != key);
        self.settings.push(setting.to_owned());
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What this cluster has instead replaces what all have.
    fn settings(&self, common: Vec<String>) -> Vec<String> {
        let key = |setting: &String| setting.split('=').next().unwrap_or_default().to_owned();
        let replaced: Vec<_> = self.settings.iter().map(key).collect();
        let kept = common.into_iter().filter(|s| !replaced.contains(&key(s)));
        kept.chain(self.settings.iter().cloned()).collect()
    }

    /// The address that daemons listen on and clients connect to.
    fn host(&self) -> &str {
        let mut settings = self.settings.iter();
        let host = settings.find_map(|s| s.strip_prefix("jobmanager.rpc.address="));
        host.unwrap_or("127.0.0.1")
    }

    /// Starts a program by way of a launcher such as `unshare`, which becomes it.
    fn spawn(&mut self, launcher: &[&str], name: &str, settings: Vec<String>, fail_points: &str) {
        let path = self.dir().join(format!("{name}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        let binary = name.split('-').next().unwrap();
        let binary = program(binary);
        let mut command = match launcher {
            [] => Command::new(binary),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(binary);
                command
            }
        };
        for setting in self.settings(settings) {
            command.arg("-D").arg(setting);
        }
        command
            .env("MILLSTREAM_FAIL_POINTS", fail_points)
            .env("RUST_BACKTRACE", "1");
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.processes
            .insert(name.to_owned(), command.spawn().unwrap());
    }

    fn common(&self) -> Vec<String> {
        vec![
            format!("jobmanager.rpc.port={}", self.grpc),
            format!(
                "checkpointing.dir={}",
                self.dir().join("checkpoints").display()
            ),
            "heartbeat.interval=300ms".to_owned(),
            "heartbeat.timeout=3s".to_owned(),
        ]
    }

    /// Starts the jobmanager, or starts it again on the same storage.
    pub fn start_jobmanager(&mut self, fail_points: &str) {
        self.spawn_jobmanager(fail_points);
        self.until("the jobmanager answers", |_| true);
    }

    /// Starts it and does not wait for it.
    pub fn spawn_jobmanager(&mut self, fail_points: &str) {
        let mut settings = self.common();
        settings.push(format!("rest.port={}", self.rest));
        settings.push("slot.request.timeout=10s".to_owned());
        self.spawn(&[], "jobmanager", settings, fail_points);
    }

    /// Starts taskmanager `number`, or starts it again.
    pub fn start_taskmanager(&mut self, number: u32, slots: u32, fail_points: &str) {
        self.launch_taskmanager(&[], number, slots, fail_points);
    }

    /// The same by way of a launcher.
    pub fn launch_taskmanager(
        &mut self,
        launcher: &[&str],
        number: u32,
        slots: u32,
        fail_points: &str,
    ) {
        let mut settings = self.common();
        settings.push(format!("taskmanager.numberOfTaskSlots={slots}"));
        settings.push(format!("taskmanager.resource-id=tm-{number}"));
        let state = self.state_dir(number);
        settings.push(format!(
            "state.backend.rocksdb.localdir={}",
            state.display()
        ));
        let name = format!("taskmanager-{number}");
        self.spawn(launcher, &name, settings, fail_points);
    }

    /// Where a taskmanager's job processes work.
    pub fn state_dir(&self, number: u32) -> PathBuf {
        self.dir().join(format!("state-{number}"))
    }

    /// The process id of a daemon.
    pub fn id(&self, name: &str) -> u32 {
        self.processes[name].id()
    }

    /// Sends a signal to a process and, if told so, to its children.
    pub fn signal(&self, name: &str, signal: &str, with_children: bool) {
        let mut ids = vec![self.id(name)];
        if with_children {
            ids.extend(self.children(name));
        }
        for id in ids {
            send(signal, id);
        }
    }

    /// The job processes of a taskmanager.
    pub fn children(&self, name: &str) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.id(name));
        let direct = std::fs::read_to_string(path).unwrap_or_default();
        let parent = self.id(name).to_string();
        let mut ids: Vec<u32> = direct
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect();
        // Children belong to the thread that spawned them.
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default().to_owned();
            if after_name.split(' ').nth(1) == Some(&parent) && !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Kills a process at once and waits until it is gone.
    pub fn kill(&mut self, name: &str) {
        let mut child = self.processes.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until a process has ended by itself, and says whether a kill ended it.
    pub fn wait_for_kill(&mut self, name: &str) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let status = self.wait(name, PATIENCE);
        status.is_some_and(|status| status.signal() == Some(9))
    }

    /// Waits until a process has ended by itself.
    pub fn wait(&mut self, name: &str, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.processes.get_mut(name).unwrap().try_wait().unwrap() {
                self.processes.remove(name);
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Asks REST; null while it does not answer.
    pub fn rest(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path)).unwrap_or(Value::Null)
    }

    /// What the web server answers, as it is; nothing while it does not answer.
    pub fn page(&self, path: &str) -> String {
        let mut command = Command::new("curl");
        command.args(["-s", "-m", "2", "-g", "--path-as-is"]);
        command.arg(format!("http://{}{path}", self.address(self.rest)));
        text(&command.output().unwrap().stdout)
    }

    /// The whole log of a daemon.
    pub fn log(&self, name: &str) -> String {
        text(&std::fs::read(self.dir().join(format!("{name}.log"))).unwrap_or_default())
    }

    fn address(&self, port: u16) -> String {
        match self.host() {
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        }
    }

    /// Where clients reach the jobmanager.
    pub fn jobmanager(&self) -> String {
        self.address(self.grpc)
    }

    /// Where browsers reach the jobmanager.
    pub fn rest_address(&self) -> String {
        self.address(self.rest)
    }

    /// Waits until the cluster's overview shows what is wanted.
    pub fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        loop {
            let overview = self.rest("/overview");
            if overview.is_object() && wanted(&overview) {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "not true: {what}: {overview}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The command line on this cluster.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("millstream"));
        command.args(arguments).arg("-m").arg(self.jobmanager());
        finish(&mut command, PATIENCE)
    }

    /// Submits and returns the job's id.
    pub fn submit(&self, job: &Path, client_id: &str) -> String {
        let output = self.cli(&[
            "run",
            "-d",
            &job.to_string_lossy(),
            "--client-id",
            client_id,
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    /// Follows a job that was submitted before to its end.
    pub fn follow(&self, job: &Path, client_id: &str) -> Output {
        self.cli(&["run", &job.to_string_lossy(), "--client-id", client_id])
    }

    /// Waits until a job is in this state.
    pub fn until_job(&self, job: &str, state: &str) {
        let begun = Instant::now();
        loop {
            let found = self.rest(&format!("/jobs/{job}"))["state"].clone();
            if found == state {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "job is {found}, not {state}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The end of every log.
    pub fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in std::fs::read_dir(self.dir()).unwrap().flatten() {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "log")
            {
                let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(25)..].join("\n");
                logs.push_str(&format!("== {}\n{tail}\n", entry.path().display()));
            }
        }
        logs
    }
}

/// Sends a signal to a process.
pub fn send(signal: &str, id: u32) {
    assert!(send_if_there(signal, id), "there is no process {id}");
}

/// Sends a signal to a process that may be gone by now, and says whether it was not.
pub fn send_if_there(signal: &str, id: u32) -> bool {
    let mut command = Command::new("kill");
    command
        .args([signal, &id.to_string()])
        .stderr(Stdio::null());
    command.status().unwrap().success()
}

/// Kills a process that is no daemon of the cluster but a child of one.
pub fn kill_process(id: u32) {
    send("-9", id);
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.processes.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whoever runs the tests may mount, if only in a namespace of its own.
pub fn own_mounts() -> &'static [&'static str] {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if is_root {
        &["unshare", "-m"]
    } else {
        &["unshare", "-r", "-m"]
    }
}
