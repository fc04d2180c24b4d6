//! What happened, line by line, and a hash of it: two runs of a seed are the same if it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_telemetry::{LogConfig, LogFormat, subscriber};
use parking_lot::Mutex;
use tracing::Subscriber;
use xxhash_rust::xxh3::Xxh3;

use crate::clock;

/// What daemons log, and the name of the machine that does: a span of the simulator's.
const FILTER: &str = "warn,millstream=info,turmoil::sim=info";

/// Paths that are counted, and that not every batch of seeds takes.
const SELDOM: &[(&str, &str)] = &[
    ("checkpoint declined", "Decline checkpoint "),
    ("killed: alignment", "Killed(\"alignment\")"),
    ("killed: snapshot", "Killed(\"snapshot\")"),
    ("killed: upload", "Killed(\"upload\")"),
    ("killed: metadata-stored", "Killed(\"metadata-stored\")"),
    (
        "killed: chain-entry-stored",
        "Killed(\"chain-entry-stored\")",
    ),
    ("killed: commit", "Killed(\"commit\")"),
    ("killed: restore", "Killed(\"restore\")"),
    ("killed: deploy", "Killed(\"deploy\")"),
];

/// Rare paths, and the words by which they are known: a batch of seeds that never took one of them
/// proved nothing about it.
pub const PATHS: &[(&str, &str)] = &[
    ("checkpoint completed", "Completed checkpoint "),
    ("checkpoint expired", "expired before completing"),
    ("late message", "Received late message"),
    ("restored", "from Checkpoint "),
    ("nothing to restore", "No checkpoint found during restore"),
    ("tasks restart", "tasks will be restarted"),
    ("task failed", "with failure cause"),
    ("jobmanager lost", "jobmanager lost"),
    ("message of another epoch", "of another epoch is ignored"),
    ("claim lost", "is lost"),
    ("job resumed", "resuming job"),
    ("waits for slots", "job waits for slots"),
    ("taskmanager leaves", "taskmanager is leaving"),
    (
        "deleted what earlier epochs left",
        "deleted what earlier epochs left",
    ),
    ("killed at a fail point", "process ended: Killed"),
];

/// The log of one run. Cloning shares it.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    lines: Vec<String>,
    hash: Xxh3,
    paths: BTreeMap<String, u64>,
    restores: Vec<Restored>,
    /// Checkpoints that jobmanagers said were completed.
    completions: Vec<u64>,
    /// The newest epoch that each taskmanager made ready for, in its life.
    ready: BTreeMap<String, u64>,
    stale: Option<String>,
}

/// What a jobmanager says an epoch begins from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    pub epoch: u64,
    /// None if there was no checkpoint.
    pub checkpoint: Option<u64>,
}

impl Restored {
    /// As the line says it, if it is such a line.
    fn of(line: &str) -> Option<Self> {
        let is_found = line.contains("event_id=RSTR-0002");
        if !is_found && !line.contains("event_id=RSTR-0003") {
            return None;
        }
        Some(Self {
            epoch: number(line, "leader_epoch=")?,
            checkpoint: is_found.then(|| number(line, "from Checkpoint ")).flatten(),
        })
    }
}

/// The number behind these words.
fn number(line: &str, words: &str) -> Option<u64> {
    let rest = line.split_once(words)?.1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The taskmanager and epoch of a line that says that it is ready for it.
fn made_ready(line: &str) -> Option<(&str, u64)> {
    let (before, after) = line.split_once(": job process ready ")?;
    let host = before.rsplit_once("name=")?.1;
    Some((host, number(after, "leader_epoch=")?))
}

impl Inner {
    fn make_ready(&mut self, host: &str, epoch: u64) {
        let newest = self.ready.entry(host.to_owned()).or_default();
        if epoch < *newest {
            let text = format!("F1: {host} makes ready for epoch {epoch} after epoch {newest}");
            self.stale = Some(text);
        }
        *newest = epoch.max(*newest);
    }
}

impl Journal {
    /// A line of the simulation itself.
    pub fn note(&self, now: Duration, text: &str) {
        self.add(&format!("{:>10.3} SIM {text}", now.as_secs_f64()));
    }

    fn add(&self, line: &str) {
        let mut inner = self.0.lock();
        inner.hash.update(line.as_bytes());
        for (path, words) in PATHS.iter().chain(SELDOM) {
            if line.contains(words) {
                *inner.paths.entry((*path).to_owned()).or_default() += 1;
            }
        }
        inner.restores.extend(Restored::of(line));
        if line.contains(": Completed checkpoint ") {
            inner
                .completions
                .extend(number(line, ": Completed checkpoint "));
        }
        if let Some((host, epoch)) = made_ready(line) {
            inner.make_ready(host, epoch);
        }
        inner.lines.push(line.to_owned());
    }

    /// A taskmanager begins another life.
    pub fn forget(&self, host: &str) {
        self.0.lock().ready.remove(host);
    }

    /// Whether a taskmanager obeyed an epoch that it knew to be over.
    pub fn obeyed_stale(&self) -> Option<String> {
        self.0.lock().stale.clone()
    }

    /// Something that was counted elsewhere.
    pub fn count(&self, what: &str, times: u64) {
        *self.0.lock().paths.entry(what.to_owned()).or_default() += times;
    }

    /// How often each path was taken.
    pub fn paths(&self) -> BTreeMap<String, u64> {
        self.0.lock().paths.clone()
    }

    /// What epochs began from, since the last call.
    pub fn take_restores(&self) -> Vec<Restored> {
        std::mem::take(&mut self.0.lock().restores)
    }

    /// Checkpoints that jobmanagers called completed, since the last call.
    pub fn take_completions(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().completions)
    }

    /// Of all lines so far.
    pub fn hash(&self) -> u64 {
        self.0.lock().hash.digest()
    }

    /// The last lines, at most so many.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let inner = self.0.lock();
        inner.lines[inner.lines.len().saturating_sub(lines)..].to_vec()
    }

    /// Writes into the journal what the daemons log.
    pub fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let config = LogConfig {
            format: LogFormat::Text,
            filter: FILTER.to_owned(),
            static_fields: BTreeMap::new(),
            now: Arc::new(|| clock::wall(clock::elapsed())),
        };
        let journal = self.clone();
        let (subscriber, _handle) = subscriber(config, move |line| journal.add(line.trim_end()))
            .unwrap_or_else(|error| panic!("{error}"));
        subscriber
    }
}
