//! What goes wrong once in twenty times: the same again and again, at other moments.
//!
//! A few rounds by default. All of them, with the cases' own times:
//!
//! ```sh
//! TEST_ROUNDS=20 cargo nextest run --cargo-profile ci --workspace -E 'test(rounds::)' --no-capture
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::field_cases::{completed, rows, wait_until};
use crate::fixture::{Cluster, Ledger, free_port};
use crate::job::Job;
use crate::process::text;

/// How often; a few where nobody says.
fn rounds(few: u32) -> u32 {
    let asked = std::env::var("TEST_ROUNDS").ok();
    asked.map_or(few, |rounds| {
        rounds.parse().expect("TEST_ROUNDS is a number")
    })
}

fn endless(name: &str, parallelism: u32) -> Job {
    endless_with(
        name,
        parallelism,
        "type: fixed-delay, attempts: unlimited, delay: 100ms",
    )
}

fn endless_with(name: &str, parallelism: u32, restarts: &str) -> Job {
    Job::new(name)
        .parallelism(parallelism)
        .checkpoints("interval: 200ms, tolerable-failed-checkpoints: 50")
        .restarts(restarts)
        .generator("rows", "rate: 100", "key: { key: 10 }")
        .count("key", "each")
        .sink("blackhole")
}

/// Whether checkpoints of this job are left.
fn has_checkpoints(cluster: &Cluster, id: &str) -> bool {
    let of_job = cluster.dir().join("checkpoints").join(id);
    let entries = std::fs::read_dir(of_job).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("chk-"))
}

// HND-062: a job that ended never comes back, whatever moment its jobmanager dies at, and another
// goes on exactly.
#[test]
fn ended_jobs_stay_ended_when_the_jobmanager_dies_soon_after() {
    let rounds = rounds(2);
    let mut cluster = Cluster::start(1, 4);
    let running = Ledger {
        keys: 40,
        rows: 16_000 * u64::from(rounds),
        rate: 2_000,
    };
    let (job, out) = running.write(cluster.dir());
    let going_on = cluster.submit(&job, "going-on");
    cluster.until_job(&going_on, "RUNNING");
    for round in 0..rounds {
        let moment = Duration::from_millis(u64::from(500 * round / rounds));
        let written = cluster.dir().join(format!("written-{round}"));
        let finite = Job::new("finite")
            .checkpoints("interval: 200ms")
            .generator("rows", "rows: 10", "n: { sequence: {} }")
            .file_sink(&written, "json")
            .write(cluster.dir(), "finite");
        let canceled = endless("endless", 1).write(cluster.dir(), "endless");
        let canceled = cluster.submit(&canceled, &format!("canceled-{round}"));
        cluster.until_job(&canceled, "RUNNING");
        let cancel = |cluster: &Cluster| {
            let end = cluster.cli(&["cancel", &canceled]);
            assert!(end.status.success(), "{}", text(&end.stderr));
        };
        // Which of both was the last to end before the kill.
        let finished = if round % 2 == 0 {
            let finished = cluster.submit(&finite, &format!("finished-{round}"));
            cluster.until_job(&finished, "FINISHED");
            cancel(&cluster);
            finished
        } else {
            cancel(&cluster);
            let finished = cluster.submit(&finite, &format!("finished-{round}"));
            cluster.until_job(&finished, "FINISHED");
            finished
        };
        thread::sleep(moment);
        cluster.kill("jobmanager");
        cluster.start_jobmanager("");
        cluster.until("it is settled", |o| o["recovering"] == false);
        let state = |id: &str| cluster.rest(&format!("/jobs/{id}"))["state"].clone();
        assert_eq!(state(&canceled), "CANCELED", "round {round}, {moment:?}");
        assert_eq!(state(&finished), "FINISHED", "round {round}, {moment:?}");
        wait_until(&cluster, "one job process runs", || {
            cluster.children("taskmanager-1").len() == 1
        });
        let log = cluster.log("taskmanager-1");
        for ended in [&canceled, &finished] {
            wait_until(&cluster, "nothing is left of an ended job", || {
                !has_checkpoints(&cluster, ended)
            });
        }
        assert_eq!(rows(&written).len(), 10, "round {round}: {log}");
        wait_until(&cluster, "the other job goes on", || {
            matches!(state(&going_on).as_str(), Some("RUNNING" | "FINISHED"))
        });
        let before = completed(&cluster, &going_on);
        wait_until(&cluster, "its checkpoints go on", || {
            completed(&cluster, &going_on) > before || state(&going_on) == "FINISHED"
        });
    }
    let end = cluster.follow(&job, "going-on");
    assert!(
        end.status.success(),
        "{}\n{}",
        text(&end.stderr),
        cluster.logs()
    );
    running.judge(&out);
}

/// What a job whose taskmanager dies again and again is told to do, and what is expected of it.
struct Backoff {
    initial: Duration,
    max: Duration,
    reset: Duration,
    kills: u32,
}

// HND-065: eight tasks that die together are one failure, each wave doubles the delay up to its
// maximum, and a quiet time starts anew.
#[test]
fn a_taskmanager_that_dies_again_and_again_is_one_step_of_the_delay_each_time() {
    let whole = rounds(1) > 1;
    let backoff = match whole {
        true => Backoff {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(10),
            reset: Duration::from_secs(60),
            kills: 7,
        },
        false => Backoff {
            initial: Duration::from_millis(300),
            max: Duration::from_millis(1_200),
            reset: Duration::from_secs(5),
            kills: 4,
        },
    };
    let Backoff {
        initial,
        max,
        reset,
        kills,
    } = backoff;
    let strategy = format!(
        "type: exponential-delay, exponential-delay: {{ initial-backoff: {}ms, max-backoff: {}ms, \
         backoff-multiplier: 2.0, jitter-factor: 0.0, reset-backoff-threshold: {}ms }}",
        initial.as_millis(),
        max.as_millis(),
        reset.as_millis()
    );
    let mut cluster = Cluster::start(1, 8);
    let job = endless_with("waves", 8, &strategy);
    let id = cluster.submit(&job.write(cluster.dir(), "waves"), "waves");
    let mut expected = initial;
    for kill in 1..=kills {
        let waited = one_wave(&mut cluster, &id);
        assert_delay(waited, expected, &format!("kill {kill}"), &cluster);
        expected = (expected * 2).min(max);
    }
    cluster.until_job(&id, "RUNNING");
    thread::sleep(reset + reset / 5);
    let waited = one_wave(&mut cluster, &id);
    assert_delay(waited, initial, "after a quiet time", &cluster);
    cluster.until_job(&id, "RUNNING");
    let jobs = cluster.rest("/jobs/overview")["jobs"].clone();
    let restarts = jobs[0]["restarts"].as_u64();
    assert_eq!(restarts, Some(u64::from(kills) + 1), "{jobs}");
}

// HND-065, with a fixed number of attempts.
#[test]
fn two_attempts_survive_two_dead_taskmanagers_and_not_a_third() {
    let mut cluster = Cluster::start(1, 8);
    let strategy = "type: fixed-delay, attempts: 2, delay: 200ms";
    let job = endless_with("waves", 8, strategy);
    let id = cluster.submit(&job.write(cluster.dir(), "waves"), "waves");
    for _ in 0..2 {
        one_wave(&mut cluster, &id);
    }
    cluster.until_job(&id, "RUNNING");
    cluster.kill("taskmanager-1");
    cluster.until_job(&id, "FAILED");
}

/// Kills the taskmanager of a running job, starts another, and says how long the job waited.
fn one_wave(cluster: &mut Cluster, id: &str) -> Duration {
    cluster.until_job(id, "RUNNING");
    cluster.kill("taskmanager-1");
    cluster.until_job(id, "RESTARTING");
    let begun = Instant::now();
    cluster.start_taskmanager(1, 8, "");
    wait_until(cluster, "the delay is over", || {
        cluster.rest(&format!("/jobs/{id}"))["state"] != "RESTARTING"
    });
    begun.elapsed()
}

/// The delay is longer than the one before would be, and shorter than the next.
fn assert_delay(waited: Duration, expected: Duration, when: &str, cluster: &Cluster) {
    let range = expected.mul_f64(0.6)..expected.mul_f64(1.8);
    assert!(
        range.contains(&waited),
        "{when}: waited {waited:?}, expected {expected:?}\n{}",
        cluster.logs()
    );
}

/// Passes on what goes to a port, unless it is cut: then what is on its way stays there.
struct Wire {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    fn to(target: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&target) else {
                    continue;
                };
                let (near_back, far_back) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (there, back) = (Arc::clone(&cut), Arc::clone(&cut));
                thread::spawn(move || pass_on(near, far, &there));
                thread::spawn(move || pass_on(far_back, near_back, &back));
            }
        });
        Self { port, is_cut }
    }

    /// Nothing passes for a while, in either direction.
    fn cut_for(&self, time: Duration) {
        self.is_cut.store(true, Ordering::Relaxed);
        thread::sleep(time);
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        while is_cut.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

// HND-061: no slot is lost to messages that were, whether a job is deployed or canceled meanwhile.
#[test]
fn cut_connections_lose_no_slot() {
    let whole = rounds(1) > 1;
    // Longer than a heartbeat may be away.
    let cut = Duration::from_secs(if whole { 15 } else { 5 });
    let mut cluster = Cluster::prepared(&[]);
    cluster.start_jobmanager("");
    let wire = Wire::to(cluster.jobmanager());
    cluster.set(&format!("jobmanager.rpc.port={}", wire.port));
    for number in 1..=2 {
        cluster.start_taskmanager(number, 4, "");
    }
    cluster.until("both are there", |o| o["slots-available"] == 8);
    let job = endless("small", 3).write(cluster.dir(), "small");
    for round in 0..rounds(1) {
        let id = cluster.submit(&job, &format!("deployed-{round}"));
        thread::sleep(Duration::from_millis(u64::from(round) * 20));
        wire.cut_for(cut);
        cluster.until_job(&id, "RUNNING");
        thread::scope(|scope| {
            let cancel = scope.spawn(|| cluster.cli(&["cancel", &id]));
            thread::sleep(Duration::from_millis(u64::from(round) * 20));
            wire.cut_for(cut);
            let end = cancel.join().unwrap();
            assert!(
                end.status.success(),
                "{}\n{}",
                text(&end.stderr),
                cluster.logs()
            );
        });
        let begun = Instant::now();
        cluster.until("all slots are free", |o| o["slots-available"] == 8);
        assert!(begun.elapsed() < Duration::from_secs(60), "round {round}");
    }
    let taskmanagers = cluster.rest("/taskmanagers")["taskmanagers"].clone();
    for taskmanager in taskmanagers.as_array().unwrap() {
        assert_eq!(taskmanager["freeSlots"], 4, "{taskmanager}");
    }
    for name in ["taskmanager-1", "taskmanager-2"] {
        assert_eq!(
            cluster.children(name),
            Vec::<u32>::new(),
            "{name} runs nothing"
        );
    }
    let wide = endless("wide", 8).write(cluster.dir(), "wide");
    let id = cluster.submit(&wide, "wide");
    cluster.until_job(&id, "RUNNING");
}
