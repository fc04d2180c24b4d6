//! Millstream's side: the daemons as they are deployed, and one job on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::case::Case;
use super::outcome::{Checkpoints, Outcome};
use super::proc;
use super::tools::rest;
use crate::program::run;
use crate::report::Failure;

/// How often memory is read and the job's state asked.
const PERIOD: Duration = Duration::from_millis(250);
/// No run takes longer.
const PATIENCE: Duration = Duration::from_secs(600);

/// A jobmanager and a taskmanager with two slots.
pub struct Cluster {
    dir: PathBuf,
    binaries: PathBuf,
    grpc: u16,
    rest: u16,
    daemons: Vec<Child>,
    started_in: Duration,
}

/// Where a job's rows go.
pub enum Sink<'a> {
    /// Nowhere: the rows are measured.
    Blackhole,
    /// Into files of this directory: the rows are checked.
    Files(&'a Path),
}

impl Cluster {
    /// Starts it on an empty directory and waits for its slots.
    pub fn start(binaries: &Path, dir: &Path) -> Result<Self, Failure> {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir).map_err(Failure::io(format!("create {}", dir.display())))?;
        let begun = proc::now();
        let mut cluster = Self {
            dir: dir.to_owned(),
            binaries: binaries.to_owned(),
            grpc: free_port()?,
            rest: free_port()?,
            daemons: Vec::new(),
            started_in: Duration::ZERO,
        };
        let rest_port = format!("rest.port={}", cluster.rest);
        cluster.daemon("jobmanager", &[rest_port])?;
        let local = format!(
            "state.backend.rocksdb.localdir={}",
            dir.join("state").display()
        );
        let slots = "taskmanager.numberOfTaskSlots=2".to_owned();
        cluster.daemon("taskmanager", &[local, slots])?;
        cluster.until("two slots are free", |cluster| {
            rest(cluster.rest, "/overview")["slots-available"] == 2
        })?;
        cluster.started_in = begun.elapsed();
        Ok(cluster)
    }

    fn daemon(&mut self, name: &str, own: &[String]) -> Result<(), Failure> {
        let log = self.dir.join(format!("{name}.log"));
        let log =
            fs::File::create(&log).map_err(Failure::io(format!("create {}", log.display())))?;
        let errors = log.try_clone().map_err(Failure::io("share a log file"))?;
        let mut command = Command::new(self.binaries.join(name));
        let checkpoints = self.dir.join("checkpoints");
        command
            .arg("-D")
            .arg(format!("jobmanager.rpc.port={}", self.grpc));
        command
            .arg("-D")
            .arg(format!("checkpointing.dir={}", checkpoints.display()));
        for setting in own {
            command.arg("-D").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command
            .spawn()
            .map_err(Failure::io(format!("start {name}")))?;
        self.daemons.push(child);
        Ok(())
    }

    /// From starting the first process until both slots were registered.
    pub fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Waits until something is so, as long as the daemons live.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        let begun = proc::now();
        while !is_so(self) {
            for daemon in &mut self.daemons {
                let ended = daemon.try_wait().map_err(Failure::io("look at a daemon"))?;
                if let Some(status) = ended {
                    let text = format!("a daemon ended with {status}: see {}", self.dir.display());
                    return Err(Failure::Unexpected(text));
                }
            }
            if begun.elapsed() > PATIENCE {
                let text = format!("waited too long until {what}: see {}", self.dir.display());
                return Err(Failure::Unexpected(text));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The jobmanager's REST port.
    pub fn rest_port(&self) -> u16 {
        self.rest
    }

    /// The daemons.
    pub fn ids(&self) -> Vec<u32> {
        self.daemons.iter().map(Child::id).collect()
    }

    /// Runs a job to its end.
    pub fn measure(&mut self, case: &Case, job: &Path) -> Result<Outcome, Failure> {
        let mut meter = proc::Meter::start(&self.ids());
        let id = self.submit(job)?;
        let details = loop {
            sleep(PERIOD);
            meter.look(&self.ids());
            let details = rest(self.rest, &format!("/jobs/{id}"));
            match details["state"].as_str() {
                Some("FINISHED") => break details,
                Some("FAILED" | "CANCELED" | "SUSPENDED") => {
                    return Err(self.failed(case, &details));
                }
                _ if meter.elapsed() > PATIENCE => return Err(self.failed(case, &details)),
                _ => {}
            }
        };
        // What a job process used counts when its taskmanager has waited for it.
        let taskmanager = self.ids()[1];
        self.until("the job process is gone", |_| {
            proc::children(taskmanager).is_empty()
        })?;
        let measured = meter.stop(&self.ids());
        let rows = case.rows(case.units().ours);
        require_all_read(case, rows, &details)?;
        Ok(Outcome {
            rows,
            seconds: details["duration"].as_f64().unwrap_or(0.0) / 1e3,
            checkpoints: Some(Checkpoints::of(&rest(
                self.rest,
                &format!("/jobs/{id}/checkpoints"),
            ))),
            ..measured
        })
    }

    /// Runs a job to its end without looking at what it takes.
    pub fn run(&self, job: &Path) -> Result<(), Failure> {
        run(&mut self.client_of(job))?;
        Ok(())
    }

    /// The same, and reads meanwhile what the job prints.
    pub fn run_printing<T>(
        &self,
        job: &Path,
        read: impl FnOnce(ChildStdout) -> T,
    ) -> Result<T, Failure> {
        let mut command = self.client_of(job);
        let started = command.stdout(Stdio::piped()).spawn();
        let mut client = started.map_err(Failure::io("start the client"))?;
        let printed = client.stdout.take();
        let printed = printed.ok_or_else(|| Failure::Unexpected("no output to read".to_owned()))?;
        let read = read(printed);
        let status = client.wait().map_err(Failure::io("wait for the client"))?;
        match status.success() {
            true => Ok(read),
            false => Err(Failure::Unexpected(format!(
                "the client of {} ended with {status}",
                job.display()
            ))),
        }
    }

    fn client_of(&self, job: &Path) -> Command {
        let mut command = self.client();
        command
            .arg("run")
            .arg(job)
            .arg("-m")
            .arg(format!("127.0.0.1:{}", self.grpc));
        command
    }

    /// Ends a job, and waits until it has ended.
    pub fn cancel(&self, id: &str) -> Result<(), Failure> {
        let mut command = self.client();
        run(command
            .args(["cancel", id, "-m"])
            .arg(format!("127.0.0.1:{}", self.grpc)))?;
        Ok(())
    }

    /// Submits a job; returns its id.
    pub fn submit(&self, job: &Path) -> Result<String, Failure> {
        let mut command = self.client();
        command.args(["run", "--detached"]).arg(job);
        let printed = run(command.arg("-m").arg(format!("127.0.0.1:{}", self.grpc)))?;
        let id = printed.split_whitespace().find(is_id);
        id.map(str::to_owned)
            .ok_or_else(|| Failure::Unexpected(format!("no job id in: {printed}")))
    }

    fn client(&self) -> Command {
        Command::new(self.binaries.join("millstream"))
    }

    fn failed(&self, case: &Case, details: &Value) -> Failure {
        let state = &details["state"];
        Failure::Unexpected(format!(
            "{} is {state}: see {}",
            case.name,
            self.dir.display()
        ))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Every row arrived at the keyed operator, by the counts of the job itself. A job of one task has no
/// such counts in the field's meaning of them.
fn require_all_read(case: &Case, rows: u64, details: &Value) -> Result<(), Failure> {
    let vertices = details["vertices"].as_array();
    let Some(keyed) = vertices.and_then(|vertices| vertices.last()) else {
        return Err(Failure::Unexpected(format!("{}: no vertices", case.name)));
    };
    let read = &keyed["metrics"]["read-records"];
    match !case.is_stateful || read.as_u64() == Some(rows) {
        true => Ok(()),
        false => Err(Failure::Unexpected(format!(
            "{}: {read} rows were read by its keyed operator, not {rows}",
            case.name
        ))),
    }
}

/// Writes the job of a case with what it reads, how much, and where its rows go, in place of the
/// small values that make the job file one that runs by itself.
pub fn write_job(
    root: &Path,
    dir: &Path,
    case: &Case,
    data: &Path,
    units: u64,
    sink: &Sink<'_>,
) -> Result<PathBuf, Failure> {
    let template = root.join(format!("tests/bench/jobs/{}.yaml", case.name));
    let text = fs::read_to_string(&template)
        .map_err(Failure::io(format!("read {}", template.display())))?;
    let sink = match sink {
        Sink::Blackhole => "connector: blackhole".to_owned(),
        Sink::Files(dir) => format!("connector: file, path: {}, format: json", dir.display()),
    };
    let text = text
        .replace("/tmp/millstream/bench", &data.display().to_string())
        .replace("rows: 1000000\n", &format!("rows: {}\n", case.rows(units)))
        .replace("connector: blackhole", &sink);
    let job = dir.join(format!("{}.yaml", case.name));
    fs::write(&job, text).map_err(Failure::io(format!("write {}", job.display())))?;
    Ok(job)
}

fn is_id(word: &&str) -> bool {
    word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn free_port() -> Result<u16, Failure> {
    let listener =
        std::net::TcpListener::bind("127.0.0.1:0").map_err(Failure::io("find a free port"))?;
    Ok(listener
        .local_addr()
        .map_err(Failure::io("find a free port"))?
        .port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::{CASES, Input};

    #[test]
    fn a_job_gets_its_rows_its_data_and_its_sink() {
        let dir = std::env::temp_dir().join(format!("millstream-bench-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for case in &CASES {
            let root = crate::workspace_root();
            let files = Sink::Files(Path::new("/out"));
            let job = write_job(&root, &dir, case, Path::new("/data"), 3, &files).unwrap();
            let text = fs::read_to_string(job).unwrap();
            let input = match case.input {
                Input::Generated { .. } => "rows: 3000000\n",
                Input::Growing => "random-text: 200",
                Input::Bids(_) => "\"/data/bid/*.json\"",
                Input::Words(_) => "\"/data/lines/*.txt\"",
            };
            for part in [
                input,
                "connector: file, path: /out, format: json",
                "checkpointing: { interval: ",
                "type: rocksdb",
            ] {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn rows_that_did_not_arrive_are_noticed() {
        let details =
            |read: u64| serde_json::json!({"vertices": [{}, {"metrics": {"read-records": read}}]});
        assert!(require_all_read(&CASES[3], 10, &details(10)).is_ok());
        let error = require_all_read(&CASES[3], 10, &details(9)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("9 rows were read by its keyed operator, not 10"),
            "{error}"
        );
    }
}
