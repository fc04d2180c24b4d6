//! `docs/examples/exactly-once.yaml` under a storm: at least ten kills a run, at chosen points and at
//! any moment, of every kind of process.
//!
//! Short by default. The whole example, ten times, each with an order and moments of its own, and
//! once with its checkpoints on S3:
//!
//! ```sh
//! TEST_STORMS=10 cargo nextest run --cargo-profile ci --workspace \
//!     -E 'test(a_storm_of_kills)' --no-capture
//! TEST_STORMS=1 TEST_STORAGE=s3 cargo nextest run …
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::fixture::{Cluster, PATIENCE, kill_process};
use crate::process::{finish, program, root, text};
use crate::seaweed::{BUCKET, Seaweed};

const KEYS: u64 = 1_000;
const SLOTS: u32 = 1;
/// Both are busy: the job needs two slots, and each has one.
const TASKMANAGERS: [u32; 2] = [1, 2];

/// How much of the example runs.
struct Size {
    rows: u64,
    rate: u64,
    interval: &'static str,
}

const WHOLE: Size = Size {
    rows: 7_800_000,
    rate: 60_000,
    interval: "2s",
};
const SHORT: Size = Size {
    rows: 300_000,
    rate: 10_000,
    interval: "300ms",
};

/// One blow.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Taskmanager,
    JobProcess,
    Jobmanager,
    /// A taskmanager dies, and then a job process of its successor, here.
    InJobProcess(&'static str),
    /// The jobmanager dies, and then its successor, here.
    InJobmanager(&'static str),
}

const BLOWS: [Blow; 9] = [
    Blow::Taskmanager,
    Blow::JobProcess,
    Blow::Jobmanager,
    Blow::InJobProcess("alignment"),
    Blow::InJobProcess("upload"),
    Blow::InJobProcess("commit"),
    Blow::InJobProcess("restore"),
    Blow::InJobmanager("metadata-stored"),
    Blow::InJobmanager("chain-entry-stored"),
];

struct Storm {
    cluster: Cluster,
    rng: StdRng,
    job: String,
    kills: u32,
    begun: Instant,
}

impl Storm {
    fn say(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    fn strike(&mut self, blow: Blow) {
        self.say(&format!("{blow:?}"));
        match blow {
            Blow::Taskmanager => {
                self.replace_taskmanager("");
            }
            Blow::JobProcess => self.kill_a_job_process(),
            Blow::Jobmanager => self.replace_jobmanager(""),
            Blow::InJobProcess(point) => {
                // The first restore is the one; of the others any early one.
                let nth = if point == "restore" {
                    1
                } else {
                    self.rng.random_range(1..=2)
                };
                let name = self.replace_taskmanager(&format!("{point}:kill:{nth}"));
                self.until_hit(&name, point);
            }
            Blow::InJobmanager(point) => {
                self.replace_jobmanager(&format!("{point}:kill:1"));
                let was_killed = self.cluster.wait_for_kill("jobmanager");
                assert!(was_killed, "{point} hit nothing\n{}", self.cluster.logs());
                self.cluster.start_jobmanager("");
            }
        }
        self.kills += match blow {
            Blow::InJobProcess(_) | Blow::InJobmanager(_) => 2,
            _ => 1,
        };
        self.cluster.until_job(&self.job, "RUNNING");
    }

    fn replace_taskmanager(&mut self, fail_points: &str) -> String {
        let number = *TASKMANAGERS.choose(&mut self.rng).unwrap();
        let name = format!("taskmanager-{number}");
        self.cluster.kill(&name);
        self.cluster.start_taskmanager(number, SLOTS, fail_points);
        name
    }

    fn replace_jobmanager(&mut self, fail_points: &str) {
        self.cluster.kill("jobmanager");
        self.cluster.start_jobmanager(fail_points);
    }

    fn kill_a_job_process(&mut self) {
        let children = TASKMANAGERS.map(|n| self.cluster.children(&format!("taskmanager-{n}")));
        let children: Vec<u32> = children.into_iter().flatten().collect();
        let child = children.choose(&mut self.rng);
        kill_process(*child.expect("the job runs somewhere"));
    }

    /// Waits until the fail point ended a job process of this taskmanager.
    fn until_hit(&self, taskmanager: &str, point: &str) {
        let log = self.cluster.dir().join(format!("{taskmanager}.log"));
        let (reached, killed) = (format!("fail point {point} reached"), "signal 9");
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let after = text.rfind(&reached).map(|at| &text[at..]);
            if after.is_some_and(|after| after.contains(killed)) {
                return;
            }
            let state = self.cluster.rest(&format!("/jobs/{}", self.job))["state"].clone();
            assert!(
                state != "FINISHED" && begun.elapsed() < PATIENCE,
                "{point} hit nothing, the job is {state}\n{}",
                self.cluster.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The example with its output below `dir`, which it returns, and its checkpoints in `checkpoints`.
fn example(dir: &Path, checkpoints: &str, size: &Size) -> (PathBuf, PathBuf) {
    let yaml = std::fs::read_to_string(root().join("docs/examples/exactly-once.yaml")).unwrap();
    let mut yaml = yaml.replace("/tmp/millstream/exactly-once/checkpoints", checkpoints);
    for (from, to) in [
        ("/tmp/millstream/exactly-once", dir.display().to_string()),
        ("rows: 7800000", format!("rows: {}", size.rows)),
        ("rate: 60000", format!("rate: {}", size.rate)),
        ("interval: 2s", format!("interval: {}", size.interval)),
    ] {
        assert!(yaml.contains(from), "the example lost {from:?}");
        yaml = yaml.replace(from, &to);
    }
    let (job, out) = (dir.join("exactly-once.yaml"), dir.join("out"));
    std::fs::write(&job, yaml).unwrap();
    (job, out)
}

fn oracle(out: &Path, size: &Size, done: &Path) -> Command {
    let mut command = Command::new(program("oracle"));
    command
        .arg("watch")
        .arg(out)
        .args(["--keys", &KEYS.to_string()]);
    command.args(["--rows-per-key", &(size.rows / KEYS).to_string(), "--final"]);
    command.args(["--poll", "200ms", "--until-done"]).arg(done);
    command
}

fn storm(size: &Size, seed: u64, server: Option<&Seaweed>) {
    let on_s3 = format!("s3://{BUCKET}/storm-{seed}");
    let settings = server.map(Seaweed::settings).unwrap_or_default();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(TASKMANAGERS.len() as u32, SLOTS, &settings);
    let checkpoints = match server {
        Some(_) => on_s3,
        None => cluster.dir().join("of-the-job").display().to_string(),
    };
    let (job, out) = example(cluster.dir(), &checkpoints, size);
    std::fs::create_dir_all(&out).unwrap();
    let done = cluster.dir().join("done");
    let mut watch = oracle(&out, size, &done);
    let watch: std::thread::JoinHandle<Output> =
        std::thread::spawn(move || finish(&mut watch, 3 * PATIENCE));
    let id = cluster.submit(&job, "storm");
    cluster.until_job(&id, "RUNNING");
    let mut storm = Storm {
        cluster,
        rng: StdRng::seed_from_u64(seed),
        job: id,
        kills: 0,
        begun: Instant::now(),
    };
    let mut blows = BLOWS;
    blows.shuffle(&mut storm.rng);
    let pause = 1_000 * size.rows / size.rate / 2 / BLOWS.len() as u64;
    for blow in blows {
        let pause = storm.rng.random_range(pause / 2..pause);
        std::thread::sleep(Duration::from_millis(pause));
        storm.strike(blow);
    }
    storm.say("calm");
    let end = storm.cluster.follow(&job, "storm");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        storm.cluster.logs()
    );
    storm.say("finished");
    std::fs::write(done, "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    let counts = storm
        .cluster
        .rest(&format!("/jobs/{}/checkpoints", storm.job))["counts"]
        .clone();
    println!(
        "seed {seed}: exact after {} kills; checkpoints: {counts}",
        storm.kills
    );
    assert!(storm.kills >= 10);
}

// HND-066: a jobmanager that is started again on its storage brings the job back by itself.
#[test]
fn a_storm_of_kills_loses_and_doubles_nothing() {
    let variable = |name: &str| std::env::var(format!("TEST_{name}")).ok();
    let is_on_s3 = variable("STORAGE").is_some_and(|storage| storage == "s3");
    let server = is_on_s3.then(Seaweed::start);
    match variable("STORMS") {
        None => storm(&SHORT, 1, server.as_ref()),
        Some(storms) => {
            let storms: u64 = storms.parse().expect("a number of storms");
            (1..=storms).for_each(|seed| storm(&WHOLE, seed, server.as_ref()));
        }
    }
}
