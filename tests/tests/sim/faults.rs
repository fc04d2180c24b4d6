//! What happens to the machines and the network between them, and when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use millstream_env::Rng;
use millstream_env::fail_points::{
    ALIGNMENT, CHAIN_ENTRY_STORED, COMMIT, DEPLOY, METADATA_STORED, RESTORE, SNAPSHOT, UPLOAD,
};

use crate::options::Options;

/// A kind of fault; a seed enables a part of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A taskmanager's process ends at once, and is started again later.
    CrashTaskmanager,
    /// The jobmanager's.
    CrashJobmanager,
    /// All processes at once, and the shared disk forgets what was not synced.
    PowerCut,
    /// A taskmanager is asked to leave.
    Leave,
    /// Two machines do not reach each other; what is on its way is lost.
    Partition,
    /// One does not reach the other, which reaches it.
    OneWay,
    /// A machine stands still, and goes on as if nothing had been: what it says comes late.
    Pause,
    /// A machine does not reach the object store.
    StoreAway,
    /// A process ends at one of the places that code offers for it.
    FailPoint,
    /// A second jobmanager is started, and found under the name, while the first still runs.
    Takeover,
    /// The object store has its trouble all the time.
    Store,
    /// The shared disk has.
    Disk,
    /// A taskmanager loses its jobmanager and goes to the other one; both run on.
    Wander,
    /// The jobmanager stands still, another takes over, and the first one goes on.
    Depose,
    /// A sender of an epoch that is over calls all the time.
    Stray,
}

/// Fail points that a jobmanager comes to.
const OF_JOBMANAGER: [&str; 3] = [METADATA_STORED, CHAIN_ENTRY_STORED, DEPLOY];
/// Fail points that a taskmanager comes to.
const OF_TASKMANAGER: [&str; 5] = [ALIGNMENT, SNAPSHOT, UPLOAD, COMMIT, RESTORE];

const KINDS: [Kind; 15] = [
    Kind::CrashTaskmanager,
    Kind::CrashJobmanager,
    Kind::PowerCut,
    Kind::Leave,
    Kind::Partition,
    Kind::OneWay,
    Kind::Pause,
    Kind::StoreAway,
    Kind::FailPoint,
    Kind::Takeover,
    Kind::Store,
    Kind::Disk,
    Kind::Wander,
    Kind::Depose,
    Kind::Stray,
];

impl Kind {
    /// A part of all kinds, seldom none.
    pub fn swarm(rng: &Rng) -> Vec<Self> {
        let share = rng.range(1..6) as f64 / 8.0;
        KINDS.into_iter().filter(|_| rng.chance(share)).collect()
    }
}

/// Something that is done to the simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Ends a process.
    Crash(String),
    /// Starts it, where it does not run.
    Start(String),
    /// Ends all processes; the shared disk forgets.
    PowerCut,
    /// SIGTERM.
    Terminate(String),
    /// Cuts two machines off from each other.
    Partition(String, String),
    /// Cuts the way from one machine to another.
    OneWay(String, String),
    /// Mends the way between two machines.
    Repair(String, String),
    /// A machine stands still.
    Hold(String),
    /// It goes on.
    Release(String),
    /// Closes a machine's way to the object store.
    CloseStore(String),
    /// Opens it.
    OpenStore(String),
    /// Ends a process and lets it end again, at a fail point: `name:kill:nth`.
    Arm(String, String),
    /// The other jobmanager is started and found under the name; the first one runs on.
    Takeover,
    /// Ends the jobmanager that is not found under the name.
    EndOther,
    /// A taskmanager loses its jobmanager; under the name the other one is found, which runs too.
    Wander(String),
    /// It reaches both again.
    Settle(String),
    /// The jobmanager stands still, and the other one is started and found under the name.
    Depose,
    /// The one that stood still goes on.
    Awake,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(host) => write!(f, "crash {host}"),
            Self::Start(host) => write!(f, "start {host}"),
            Self::PowerCut => write!(f, "power-cut"),
            Self::Terminate(host) => write!(f, "terminate {host}"),
            Self::Partition(a, b) => write!(f, "partition {a} {b}"),
            Self::OneWay(a, b) => write!(f, "one-way {a} {b}"),
            Self::Repair(a, b) => write!(f, "repair {a} {b}"),
            Self::Hold(host) => write!(f, "hold {host}"),
            Self::Release(host) => write!(f, "release {host}"),
            Self::CloseStore(host) => write!(f, "close-store {host}"),
            Self::OpenStore(host) => write!(f, "open-store {host}"),
            Self::Arm(host, point) => write!(f, "arm {host} {point}"),
            Self::Takeover => write!(f, "takeover"),
            Self::EndOther => write!(f, "end-other"),
            Self::Wander(host) => write!(f, "wander {host}"),
            Self::Settle(host) => write!(f, "settle {host}"),
            Self::Depose => write!(f, "depose"),
            Self::Awake => write!(f, "awake"),
        }
    }
}

/// What is no act.
#[derive(Debug)]
pub struct NoAct(String);

impl fmt::Display for NoAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not done to a simulation", self.0)
    }
}

impl std::str::FromStr for Act {
    type Err = NoAct;

    /// The form in which acts are printed.
    fn from_str(text: &str) -> Result<Self, NoAct> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let s = |text: &&str| (*text).to_owned();
        Ok(match &words[..] {
            ["crash", host] => Self::Crash(s(host)),
            ["start", host] => Self::Start(s(host)),
            ["power-cut"] => Self::PowerCut,
            ["terminate", host] => Self::Terminate(s(host)),
            ["partition", a, b] => Self::Partition(s(a), s(b)),
            ["one-way", a, b] => Self::OneWay(s(a), s(b)),
            ["repair", a, b] => Self::Repair(s(a), s(b)),
            ["hold", host] => Self::Hold(s(host)),
            ["release", host] => Self::Release(s(host)),
            ["close-store", host] => Self::CloseStore(s(host)),
            ["open-store", host] => Self::OpenStore(s(host)),
            ["arm", host, point] => Self::Arm(s(host), s(point)),
            ["takeover"] => Self::Takeover,
            ["end-other"] => Self::EndOther,
            ["wander", host] => Self::Wander(s(host)),
            ["settle", host] => Self::Settle(s(host)),
            ["depose"] => Self::Depose,
            ["awake"] => Self::Awake,
            _ => return Err(NoAct(text.to_owned())),
        })
    }
}

/// Acts by time, and then in the order in which they were planned.
#[derive(Clone, Default, Debug)]
pub struct Timeline {
    acts: BTreeMap<(Duration, u64), Act>,
    next: u64,
}

impl Timeline {
    /// Plans an act.
    pub fn at(&mut self, at: Duration, act: Act) {
        self.acts.insert((at, self.next), act);
        self.next += 1;
    }

    /// The next act that is due.
    pub fn due(&mut self, now: Duration) -> Option<Act> {
        let (&(at, _), _) = self.acts.first_key_value()?;
        (at <= now)
            .then(|| self.acts.pop_first())
            .flatten()
            .map(|(_, act)| act)
    }

    /// Nothing is planned any more.
    pub fn clear(&mut self) {
        self.acts.clear();
    }

    /// What a seed plans.
    pub fn of(options: &Options) -> Self {
        let mut plan = Plan {
            rng: Rng::from_seed(options.seed).fork("timeline"),
            hosts: options.taskmanager_names().collect(),
            timeline: Self::default(),
        };
        let of_the_moment = |kind: &&Kind| !matches!(kind, Kind::Store | Kind::Disk | Kind::Stray);
        let kinds: Vec<Kind> = options
            .kinds
            .iter()
            .filter(of_the_moment)
            .copied()
            .collect();
        let mut at = Duration::from_secs(1);
        while !kinds.is_empty() {
            at += plan.between(options.pause.as_millis() as u64);
            if at >= options.chaos {
                break;
            }
            let kind = kinds[plan.rng.range(0..kinds.len() as u64) as usize];
            plan.add(at, kind);
        }
        plan.timeline
    }
}

struct Plan {
    rng: Rng,
    /// Taskmanagers.
    hosts: Vec<String>,
    timeline: Timeline,
}

impl Plan {
    /// Around this many milliseconds.
    fn between(&self, mean: u64) -> Duration {
        Duration::from_millis(self.rng.range(mean / 4..mean * 7 / 4))
    }

    fn taskmanager(&self) -> String {
        self.hosts[self.rng.range(0..self.hosts.len() as u64) as usize].clone()
    }

    /// A jobmanager stands for whichever is found under the name.
    fn any(&self) -> String {
        match self.rng.chance(0.3) {
            true => "jm".to_owned(),
            false => self.taskmanager(),
        }
    }

    fn pair(&self) -> (String, String) {
        let a = self.taskmanager();
        loop {
            let b = self.any();
            if a != b {
                return (a, b);
            }
        }
    }

    fn fail_point(&self) -> Act {
        let host = self.any();
        let points = match host.as_str() {
            "jm" => &OF_JOBMANAGER[..],
            _ => &OF_TASKMANAGER[..],
        };
        let point = points[self.rng.range(0..points.len() as u64) as usize];
        Act::Arm(host, format!("{point}:kill:{}", self.rng.range(1..8)))
    }

    /// Plans a fault and its end.
    fn both(&mut self, at: Duration, begin: Act, end: Act) {
        let until = at + self.between(4_000);
        self.timeline.at(at, begin);
        self.timeline.at(until, end);
    }

    fn add(&mut self, at: Duration, kind: Kind) {
        match kind {
            Kind::CrashTaskmanager => {
                let host = self.taskmanager();
                self.both(at, Act::Crash(host.clone()), Act::Start(host));
            }
            Kind::CrashJobmanager => {
                let host = || "jm".to_owned();
                self.both(at, Act::Crash(host()), Act::Start(host()));
            }
            Kind::PowerCut => self.timeline.at(at, Act::PowerCut),
            Kind::Leave => self.timeline.at(at, Act::Terminate(self.taskmanager())),
            Kind::Partition => {
                let (a, b) = self.pair();
                let end = Act::Repair(a.clone(), b.clone());
                self.both(at, Act::Partition(a, b), end);
            }
            Kind::OneWay => {
                let (mut from, mut to) = self.pair();
                if self.rng.chance(0.5) {
                    std::mem::swap(&mut from, &mut to);
                }
                let end = Act::Repair(from.clone(), to.clone());
                self.both(at, Act::OneWay(from, to), end);
            }
            Kind::Pause => {
                let host = self.any();
                self.both(at, Act::Hold(host.clone()), Act::Release(host));
            }
            Kind::StoreAway => {
                let host = self.any();
                self.both(at, Act::CloseStore(host.clone()), Act::OpenStore(host));
            }
            Kind::FailPoint => self.timeline.at(at, self.fail_point()),
            Kind::Takeover => self.both(at, Act::Takeover, Act::EndOther),
            Kind::Wander => {
                let host = self.taskmanager();
                self.both(at, Act::Wander(host.clone()), Act::Settle(host));
            }
            Kind::Depose => {
                let until = at + self.between(8_000);
                self.timeline.at(at, Act::Depose);
                self.timeline.at(until, Act::Awake);
            }
            Kind::Store | Kind::Disk | Kind::Stray => {}
        }
    }
}
