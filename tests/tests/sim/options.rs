//! What a seed stands for, in full: printed, so that a failure can be talked about.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use millstream_env::Rng;
use millstream_testkit::Faults;
use millstream_types::sabotage::Sabotage;

use crate::disk::DiskFaults;
use crate::faults::Kind;
use crate::world::{JOBMANAGER, STORE};

/// Where a job process listens for data; the next ones are for more of them.
pub const FIRST_DATA_PORT: u16 = 7_000;
/// Where the job's output goes.
pub const OUTPUT: &str = "/shared/out";

/// Everything about a run that a seed decides beforehand.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub seed: u64,
    /// What the simulation steps by.
    pub tick: Duration,
    pub taskmanagers: u32,
    pub slots: u32,
    pub parallelism: u32,
    pub keys: u64,
    pub rows: u64,
    /// Rows a second.
    pub rate: u64,
    pub checkpoint_interval: Duration,
    pub checkpoint_timeout: Duration,
    pub inline_bytes: u64,
    pub heartbeat_interval: Duration,
    pub heartbeat_timeout: Duration,
    pub restart_delay: Duration,
    pub window_bytes: u64,
    /// What a message takes on its way.
    pub latency: Range<Duration>,
    /// How long there are faults.
    pub chaos: Duration,
    /// The kinds of them, a part of all: what is always on hides what it does alone.
    pub kinds: Vec<Kind>,
    /// Mean time between two of them.
    pub pause: Duration,
    /// Trouble of the object store.
    pub store: Faults,
    /// Trouble of the shared disk.
    pub disk: DiskFaults,
    /// Rules that do not hold.
    pub sabotage: Sabotage,
}

fn millis(rng: &Rng, range: Range<u64>) -> Duration {
    Duration::from_millis(rng.range(range))
}

fn one_of<T: Copy>(rng: &Rng, of: &[T]) -> T {
    of[rng.range(0..of.len() as u64) as usize]
}

impl Options {
    /// What this seed stands for.
    pub fn of(seed: u64) -> Self {
        let rng = Rng::from_seed(seed).fork("options");
        let taskmanagers = rng.range(2..5) as u32;
        let parallelism = rng.range(2..5) as u32;
        // Room for one taskmanager less, or not.
        let needed = parallelism.div_ceil(taskmanagers);
        let slots = needed + rng.range(0..2) as u32;
        let seconds = rng.range(10..30);
        let rate = rng.range(50..600);
        let heartbeat_interval = millis(&rng, 100..1_000);
        let fastest = rng.range(0..5);
        let faults = rng.fork("faults");
        let kinds = Kind::swarm(&faults);
        let has = |kind| kinds.contains(&kind);
        let latency = Duration::from_millis(rng.range(1..8));
        let store = Faults {
            latency: latency..latency * 4,
            stall_range: Duration::from_secs(1)..Duration::from_secs(15),
            ..match has(Kind::Store) {
                true => Faults {
                    stall: one_of(&faults, &[0.0, 0.01, 0.03]),
                    answer_stall: one_of(&faults, &[0.0, 0.01, 0.03]),
                    ..Faults::swarm(&faults)
                },
                false => Faults::NONE,
            }
        };
        let disk = match has(Kind::Disk) {
            true => DiskFaults {
                error_before: one_of(&faults, &[0.0, 0.005, 0.02]),
                error_after: one_of(&faults, &[0.002, 0.005, 0.02]),
            },
            false => DiskFaults::default(),
        };
        Self {
            seed,
            tick: Duration::from_millis(one_of(&rng, &[2, 5])),
            taskmanagers,
            slots,
            parallelism,
            // All rows of a key are made by one reader, which makes them in their order.
            keys: u64::from(parallelism) * rng.range(1..12),
            rows: rate * seconds,
            rate,
            checkpoint_interval: millis(&rng, 200..2_000),
            checkpoint_timeout: millis(&rng, 2_000..20_000),
            inline_bytes: one_of(&rng, &[0, 100, 20_000]),
            heartbeat_interval,
            heartbeat_timeout: heartbeat_interval * rng.range(2..8) as u32,
            restart_delay: millis(&rng, 1..1_000),
            window_bytes: one_of(&rng, &[4 << 10, 16 << 10, 256 << 10]),
            latency: Duration::from_millis(fastest)
                ..Duration::from_millis(fastest + rng.range(1..30)),
            chaos: Duration::from_secs(seconds + rng.range(0..10)),
            kinds,
            pause: millis(&rng, 800..5_000),
            store,
            disk,
            sabotage: Sabotage::default(),
        }
    }

    /// The same without any fault.
    pub fn without_faults(self) -> Self {
        let latency = self.store.latency.clone();
        Self {
            kinds: Vec::new(),
            store: Faults {
                latency,
                ..Faults::NONE
            },
            disk: DiskFaults::default(),
            ..self
        }
    }

    /// Names of the machines that taskmanagers run on.
    pub fn taskmanager_names(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.taskmanagers).map(|n| format!("tm{n}"))
    }

    fn daemon_settings(&self) -> Vec<String> {
        vec![
            "security.transport=plaintext".to_owned(),
            format!("jobmanager.rpc.address={JOBMANAGER}"),
            format!("checkpointing.dir={STORE}/checkpoints"),
            format!("high-availability.storageDir={STORE}/checkpoints"),
            format!(
                "heartbeat.interval={} ms",
                self.heartbeat_interval.as_millis()
            ),
            format!(
                "heartbeat.timeout={} ms",
                self.heartbeat_timeout.as_millis()
            ),
        ]
    }

    /// Settings of a jobmanager.
    pub fn jobmanager_settings(&self) -> Vec<String> {
        let mut settings = self.daemon_settings();
        settings.push("jobmanager.bind-host=0.0.0.0".to_owned());
        settings.push("rest.bind-host=0.0.0.0".to_owned());
        settings
    }

    /// Settings of the taskmanager of this name.
    pub fn taskmanager_settings(&self, name: &str) -> Vec<String> {
        let mut settings = self.daemon_settings();
        settings.extend([
            format!("taskmanager.resource-id={name}"),
            format!("taskmanager.host={name}"),
            "taskmanager.bind-host=0.0.0.0".to_owned(),
            format!(
                "taskmanager.data.port-range={FIRST_DATA_PORT}-{}",
                FIRST_DATA_PORT + 15
            ),
            "taskmanager.isolation=thread".to_owned(),
            format!("taskmanager.numberOfTaskSlots={}", self.slots),
            format!("taskmanager.network.memory.window={} B", self.window_bytes),
            // Nothing is there: RocksDB is not simulated.
            "state.backend.rocksdb.localdir=/nonexistent/simulated".to_owned(),
        ]);
        settings
    }

    /// The job: numbers rows per key, adds them up, writes every step of it.
    pub fn job_file(&self) -> String {
        let Self {
            parallelism,
            keys,
            rows,
            rate,
            inline_bytes,
            ..
        } = self;
        let ms = |duration: Duration| format!("{} ms", duration.as_millis());
        let (interval, timeout) = (ms(self.checkpoint_interval), ms(self.checkpoint_timeout));
        let delay = ms(self.restart_delay);
        format!(
            "name: ledger
parallelism: {parallelism}
checkpointing:
  interval: {interval}
  timeout: {timeout}
  tolerable-failed-checkpoints: 1000000
  data-inline-threshold: {inline_bytes} b
state.backend.type: hashmap
restart-strategy: {{ type: fixed-delay, attempts: unlimited, delay: {delay} }}
pipeline:
  - source:
      uid: rows
      connector: generator
      rows: {rows}
      rate: {rate}
      columns: {{ key: {{ key: {keys} }}, number: {{ sequence-per-key: {keys} }} }}
  - key-by: [key]
  - aggregate:
      uid: sums
      select: {{ n: \"count(*)\", sum: \"sum(number)\" }}
      emit: each
  - sink: {{ uid: out, connector: file, path: \"{OUTPUT}\", format: csv }}
"
        )
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
