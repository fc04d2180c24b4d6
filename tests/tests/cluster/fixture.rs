//! One jobmanager and some taskmanagers, started, killed and started again by a script.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{finish, program, text};

/// How long a job of these tests may take in all.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Processes on ports of their own, below a directory of their own.
pub struct Cluster {
    dir: tempfile::TempDir,
    grpc: u16,
    rest: u16,
    processes: BTreeMap<String, Child>,
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Cluster {
    /// A jobmanager and this many taskmanagers with `slots` slots each, registered.
    pub fn start(taskmanagers: u32, slots: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            dir,
            grpc: free_port(),
            rest: free_port(),
            processes: BTreeMap::new(),
        };
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

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn spawn(&mut self, name: &str, settings: &[String], fail_points: &str) {
        let path = self.dir().join(format!("{name}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        let binary = name.split('-').next().unwrap();
        let mut command = Command::new(program(binary));
        for setting in settings {
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
        let mut settings = self.common();
        settings.push(format!("rest.port={}", self.rest));
        settings.push("slot.request.timeout=10s".to_owned());
        self.spawn("jobmanager", &settings, fail_points);
        self.until("the jobmanager answers", |_| true);
    }

    /// Starts taskmanager `number`, or starts it again.
    pub fn start_taskmanager(&mut self, number: u32, slots: u32, fail_points: &str) {
        let mut settings = self.common();
        settings.push(format!("taskmanager.numberOfTaskSlots={slots}"));
        settings.push(format!("taskmanager.resource-id=tm-{number}"));
        let state = self.dir().join(format!("state-{number}"));
        settings.push(format!(
            "state.backend.rocksdb.localdir={}",
            state.display()
        ));
        self.spawn(&format!("taskmanager-{number}"), &settings, fail_points);
    }

    fn id(&self, name: &str) -> u32 {
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
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.processes.get_mut(name).unwrap().try_wait().unwrap() {
                self.processes.remove(name);
                return status.signal() == Some(9);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Asks REST; null while it does not answer.
    pub fn rest(&self, path: &str) -> Value {
        let mut command = Command::new("curl");
        command.args([
            "-s",
            "-m",
            "2",
            &format!("http://127.0.0.1:{}{path}", self.rest),
        ]);
        let output = command.output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
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
        command
            .args(arguments)
            .arg("-m")
            .arg(format!("localhost:{}", self.grpc));
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

fn send(signal: &str, id: u32) {
    let mut command = Command::new("kill");
    assert!(
        command
            .args([signal, &id.to_string()])
            .status()
            .unwrap()
            .success()
    );
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

/// A job whose output the oracle can judge.
pub struct Ledger {
    pub keys: u64,
    pub rows: u64,
    pub rate: u64,
}

impl Ledger {
    /// Writes the job file, and where its output goes.
    pub fn write(&self, dir: &Path) -> (PathBuf, PathBuf) {
        let (job, out) = (dir.join("ledger.yaml"), dir.join("out"));
        let Self { keys, rows, rate } = self;
        let yaml = format!(
            "name: ledger\n\
             parallelism: 2\n\
             checkpointing: {{ interval: 250ms, tolerable-failed-checkpoints: 50 }}\n\
             restart-strategy: {{ type: fixed-delay, attempts: unlimited, delay: 100ms }}\n\
             state.backend.type: rocksdb\n\
             pipeline:\n\
             \x20 - source:\n\
             \x20     uid: rows\n\
             \x20     connector: generator\n\
             \x20     rows: {rows}\n\
             \x20     rate: {rate}\n\
             \x20     columns:\n\
             \x20       key: {{ key: {keys} }}\n\
             \x20       number: {{ sequence-per-key: {keys} }}\n\
             \x20 - key-by: [key]\n\
             \x20 - aggregate: {{ uid: sums, emit: each, \
             select: {{ n: \"count(*)\", sum: \"sum(number)\" }} }}\n\
             \x20 - sink: {{ uid: out, connector: file, path: {}, format: csv }}\n",
            out.display()
        );
        std::fs::write(&job, yaml).unwrap();
        (job, out)
    }

    fn oracle(&self, verb: &str, out: &Path) -> Command {
        let mut command = Command::new(program("oracle"));
        command
            .arg(verb)
            .arg(out)
            .args(["--format", "csv", "--value", "n", "--final"]);
        command.args([
            "--keys",
            &self.keys.to_string(),
            "--rows",
            &self.rows.to_string(),
        ]);
        command.args(["--columns", "key,n,sum"]);
        command
    }

    /// Judges what is visible now.
    pub fn judge(&self, out: &Path) {
        let verdict = finish(&mut self.oracle("check", out), PATIENCE);
        assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    }

    /// Looks at the output again and again until the file `done` exists; the last look is final.
    pub fn watch(&self, out: &Path, done: &Path) -> std::thread::JoinHandle<Output> {
        let mut command = self.oracle("watch", out);
        command
            .args(["--poll", "100ms", "--until-done"])
            .arg(done)
            .args(["--seconds", "290"]);
        std::thread::spawn(move || finish(&mut command, PATIENCE))
    }
}
