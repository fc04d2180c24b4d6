//! A job at half speed with a fault a minute: what its processes hold must not grow, and the store
//! must keep nothing that nobody needs.
//!
//! Short by default. An hour, and its figures:
//!
//! ```sh
//! TEST_SOAK=60m cargo nextest run --cargo-profile ci --workspace -E 'test(a_soak)' --no-capture
//! ```
//!
//! The jobmanager and the first taskmanager live through all of it, since what leaks must have time
//! to; the second taskmanager and the job processes are what the faults hit.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::fixture::{Cluster, PATIENCE, send, send_if_there};
use crate::job::Job;
use crate::process::{finish, program, text};

const KEYS: u64 = 1_000;
/// Keys whose rows are written: all of them would fill a disk in an hour.
const KEYS_WRITTEN: u64 = 10;
/// Half of what two cores do on this job, with its tests around it.
const ROWS_PER_SECOND: u64 = 60_000;
const SHORT: Plan = Plan {
    lasts: Duration::from_secs(30),
    fault_every: Duration::from_secs(4),
    warms_up: 1,
};

/// How long, and how often something happens.
struct Plan {
    lasts: Duration,
    fault_every: Duration,
    /// Samples that are left out of the comparison.
    warms_up: usize,
}

/// Something that happens to a process, and is over before the next.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillTaskmanager,
    KillJobProcess,
    PauseTaskmanager,
    PauseJobmanager,
    StopTaskmanager,
}

const FAULTS: [Fault; 5] = [
    Fault::KillJobProcess,
    Fault::KillTaskmanager,
    Fault::PauseJobmanager,
    Fault::StopTaskmanager,
    Fault::PauseTaskmanager,
];

/// What is in use before a fault.
#[derive(Clone, Copy, Debug)]
struct Sample {
    jobmanager: Use,
    taskmanager: Use,
    job_process: Use,
    /// Files of checkpoints.
    objects: u64,
    /// Entries of the claim chain, which are deleted half a minute late.
    chain_entries: u64,
    /// Files of local state.
    local_files: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Use {
    rss_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Use {
    fn of(id: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let open = std::fs::read_dir(format!("/proc/{id}/fd"));
        Self {
            rss_kib: field("VmRSS:").unwrap_or(0),
            descriptors: open.map_or(0, |files| files.count() as u64),
            threads: field("Threads:").unwrap_or(0),
        }
    }
}

struct Soak {
    cluster: Cluster,
    begun: Instant,
    samples: Vec<Sample>,
}

impl Soak {
    fn sample(&mut self) {
        let children = self.cluster.children("taskmanager-1");
        let checkpoints = self.cluster.dir().join("of-the-job");
        let chain_entries = chain_entries(&checkpoints);
        let sample = Sample {
            jobmanager: Use::of(self.cluster.id("jobmanager")),
            taskmanager: Use::of(self.cluster.id("taskmanager-1")),
            job_process: children.first().map_or(Use::default(), |id| Use::of(*id)),
            objects: files_below(&checkpoints).saturating_sub(chain_entries),
            chain_entries,
            local_files: files_below(&self.cluster.state_dir(1))
                + files_below(&self.cluster.state_dir(2)),
        };
        println!(
            "{:6.0} s  {}",
            self.begun.elapsed().as_secs_f64(),
            line(&sample)
        );
        self.samples.push(sample);
    }

    /// Processes may end meanwhile, as a job process does whose job restarts.
    fn pause(&self, ids: &[u32]) {
        for id in ids {
            send_if_there("-STOP", *id);
        }
        std::thread::sleep(Duration::from_secs(2));
        for id in ids {
            send_if_there("-CONT", *id);
        }
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::KillTaskmanager => {
                self.cluster.kill("taskmanager-2");
                self.cluster.start_taskmanager(2, 1, "");
            }
            Fault::KillJobProcess => {
                let children = self.cluster.children("taskmanager-1");
                if let Some(child) = children.first() {
                    send_if_there("-KILL", *child);
                }
            }
            Fault::PauseTaskmanager => {
                let mut ids = self.cluster.children("taskmanager-2");
                ids.push(self.cluster.id("taskmanager-2"));
                self.pause(&ids);
            }
            Fault::PauseJobmanager => self.pause(&[self.cluster.id("jobmanager")]),
            Fault::StopTaskmanager => {
                send("-TERM", self.cluster.id("taskmanager-2"));
                self.cluster
                    .wait("taskmanager-2", PATIENCE)
                    .expect("it leaves when told to");
                self.cluster.start_taskmanager(2, 1, "");
            }
        }
    }
}

fn line(sample: &Sample) -> String {
    let of = |name: &str, used: &Use| {
        let mib = used.rss_kib / 1_024;
        format!(
            "{name} {mib} MiB, {} files, {} threads",
            used.descriptors, used.threads
        )
    };
    format!(
        "{}; {}; {}; objects {}, chain entries {}, local files {}",
        of("jobmanager", &sample.jobmanager),
        of("taskmanager", &sample.taskmanager),
        of("job process", &sample.job_process),
        sample.objects,
        sample.chain_entries,
        sample.local_files,
    )
}

fn files_below(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return 0;
    };
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_below(&entry.path()),
        _ => 1,
    };
    entries.flatten().map(count).sum()
}

/// Entries of the chains in a directory of checkpoints.
fn chain_entries(checkpoints: &Path) -> u64 {
    let jobs = std::fs::read_dir(checkpoints).into_iter().flatten();
    let chains = jobs.flatten().map(|job| job.path().join("chain"));
    chains.map(|chain| files_below(&chain)).sum()
}

/// The mean of a figure over samples.
fn mean(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> f64 {
    let sum: u64 = samples.iter().map(of).sum();
    sum as f64 / samples.len().max(1) as f64
}

/// What is compared: its name, the figure, and how much more of it the end may have.
type Figure = (&'static str, fn(&Sample) -> u64, f64);

const FIGURES: [Figure; 12] = [
    ("jobmanager RSS, KiB", |s| s.jobmanager.rss_kib, 8_192.0),
    ("jobmanager descriptors", |s| s.jobmanager.descriptors, 4.0),
    ("jobmanager threads", |s| s.jobmanager.threads, 2.0),
    ("taskmanager RSS, KiB", |s| s.taskmanager.rss_kib, 8_192.0),
    (
        "taskmanager descriptors",
        |s| s.taskmanager.descriptors,
        4.0,
    ),
    ("taskmanager threads", |s| s.taskmanager.threads, 2.0),
    ("job process RSS, KiB", |s| s.job_process.rss_kib, 32_768.0),
    (
        "job process descriptors",
        |s| s.job_process.descriptors,
        24.0,
    ),
    ("job process threads", |s| s.job_process.threads, 4.0),
    ("objects", |s| s.objects, 12.0),
    (
        "chain entries",
        |s| s.chain_entries,
        CHAIN_ENTRIES_MAX as f64,
    ),
    ("local files", |s| s.local_files, 40.0),
];

/// The figures that grew: the mean of the last third is above that of the second by more than a
/// tenth and the slack.
fn grown(samples: &[Sample]) -> Vec<String> {
    let third = samples.len() / 3;
    let (before, after) = (&samples[third..2 * third], &samples[2 * third..]);
    let report = |(name, of, slack): &Figure| {
        let (was, is) = (mean(before, of), mean(after, of));
        println!("soak: {name}: {was:.0}, then {is:.0}");
        (is > was * 1.1 + slack).then(|| format!("{name}: {was:.0}, then {is:.0}"))
    };
    FIGURES.iter().filter_map(report).collect()
}

/// Running sums of all keys, of which a few are written.
fn job(rows: u64, checkpoints: &Path, out: &Path) -> Job {
    Job::new("soak")
        .parallelism(2)
        .checkpoints(&format!(
            "interval: 1s, tolerable-failed-checkpoints: 100, dir: {}",
            checkpoints.display()
        ))
        .set("state.backend.type", "rocksdb")
        .restarts("type: fixed-delay, attempts: unlimited, delay: 500ms")
        .generator(
            "numbers",
            &format!("rows: {rows}, rate: {ROWS_PER_SECOND}"),
            &format!("key: {{ key: {KEYS} }}, number: {{ sequence-per-key: {KEYS} }}"),
        )
        .aggregate("key", "sums", "n: max(number), sum: sum(number)", "each")
        .step(
            "filter",
            format!("uid: some, where: \"key < {KEYS_WRITTEN}\""),
        )
        .file_sink(out, "json")
}

fn soak(plan: &Plan) {
    let rows = ROWS_PER_SECOND * plan.lasts.as_secs();
    let cluster = Cluster::start(2, 1);
    let out = cluster.dir().join("out");
    std::fs::create_dir_all(&out).unwrap();
    let checkpoints = cluster.dir().join("of-the-job");
    let job = job(rows, &checkpoints, &out).write(cluster.dir(), "soak");
    let done = cluster.dir().join("done");
    let mut watch = Command::new(program("oracle"));
    watch
        .arg("watch")
        .arg(&out)
        .args(["--keys", &KEYS_WRITTEN.to_string()]);
    watch.args(["--rows-per-key", &(rows / KEYS).to_string(), "--final"]);
    watch.args(["--poll", "2s", "--until-done"]).arg(&done);
    let limit = plan.lasts * 2 + PATIENCE;
    let watch: std::thread::JoinHandle<Output> =
        std::thread::spawn(move || finish(&mut watch, limit));
    let id = cluster.submit(&job, "soak");
    cluster.until_job(&id, "RUNNING");
    let mut soak = Soak {
        cluster,
        begun: Instant::now(),
        samples: Vec::new(),
    };
    let mut faults = FAULTS.iter().cycle();
    while soak.begun.elapsed() + plan.fault_every < plan.lasts {
        std::thread::sleep(plan.fault_every);
        soak.cluster.until_job(&id, "RUNNING");
        soak.sample();
        soak.strike(*faults.next().expect("it goes round"));
    }
    let end = soak.cluster.follow(&job, "soak");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        soak.cluster.logs()
    );
    std::fs::write(done, "").unwrap();
    let verdict = watch.join().unwrap();
    assert!(verdict.status.success(), "{}", text(&verdict.stdout));
    let entries = chain_entries(&checkpoints);
    let left = files_below(&checkpoints).saturating_sub(entries);
    let counts = soak.cluster.rest(&format!("/jobs/{id}/checkpoints"))["counts"].clone();
    println!(
        "soak: {rows} rows exact after {} faults in {:.0} s; checkpoints {counts}; files left of \
         the finished job {left}, and {entries} entries of its chain",
        soak.samples.len(),
        soak.begun.elapsed().as_secs_f64()
    );
    let grown = grown(&soak.samples[plan.warms_up..]);
    assert!(grown.is_empty(), "{}", grown.join("\n"));
    assert!(left <= LEFT_MAX, "{left} files are left of a finished job");
    assert!(entries <= CHAIN_ENTRIES_MAX, "its chain has {entries}");
}

/// The last checkpoint of a finished job, and what was never finished.
const LEFT_MAX: u64 = 34;

/// Two or three a second, for half a minute and until the next checkpoint: what only a soak longer
/// than that can go beyond.
const CHAIN_ENTRIES_MAX: u64 = 150;

#[test]
fn a_soak_leaves_memory_descriptors_threads_and_objects_flat() {
    let plan = match std::env::var("TEST_SOAK") {
        Err(_) => SHORT,
        Ok(minutes) => {
            let minutes = minutes
                .strip_suffix('m')
                .and_then(|m| m.parse::<u64>().ok());
            Plan {
                lasts: Duration::from_secs(60) * minutes.expect("minutes, as in 60m") as u32,
                fault_every: Duration::from_secs(60),
                warms_up: 5,
            }
        }
    };
    soak(&plan);
}

#[test]
fn what_grows_is_noticed() {
    let sample = |n: u64| Sample {
        jobmanager: Use {
            rss_kib: 50_000 + n * 2_000,
            descriptors: 30,
            threads: 10,
        },
        taskmanager: Use::default(),
        job_process: Use::default(),
        objects: 20 + n * 3,
        chain_entries: 10,
        local_files: 10,
    };
    let flat: Vec<_> = (0..30).map(|_| sample(1)).collect();
    assert!(grown(&flat).is_empty());
    let growing: Vec<_> = (0..30).map(sample).collect();
    let found = grown(&growing);
    assert!(found[0].starts_with("jobmanager RSS"), "{found:?}");
    assert!(found[1].starts_with("objects"), "{found:?}");
    assert_eq!(found.len(), 2);
}
