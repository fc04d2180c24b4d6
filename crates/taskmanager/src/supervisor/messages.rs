//! What the supervisor is told, and what it asks for.

use std::fmt;
use std::time::Duration;

use millstream_coordination::failure::FailureInfo;
use millstream_coordination::liveness::LostCause;
use millstream_coordination::protocol::{FromTaskmanager, StartJobProcess, ToTaskmanager};
use millstream_coordination::slots::RegistrationRefusal;
use millstream_types::{Epoch, JobId, rounded};

use crate::sight::OtherStorage;

/// One job process in the life of a taskmanager; never given twice, so that what an earlier process
/// of a job says late is not taken for the word of a later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ProcessId(pub u64);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Something the supervisor is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The deadline is due.
    Tick,
    /// Answers [`Action::Connect`]: the jobmanager can be spoken to.
    Connected,
    /// Answers [`Action::Connect`]: it cannot.
    ConnectFailed {
        /// Why.
        reason: String,
    },
    /// Answers [`Action::Connect`]: it can, and its storage could not be looked at from here.
    StorageUnseen {
        /// Why.
        reason: String,
    },
    /// Answers [`Action::Connect`]: it can, and what is here in the place of its storage is
    /// something else.
    OtherStorage(Box<OtherStorage>),
    /// The connection ended, from whichever side; not after [`Action::Disconnect`].
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The jobmanager said something.
    FromJobmanager(ToTaskmanager),
    /// A job process said something, or something was seen of it.
    Process {
        /// Which.
        process: ProcessId,
        /// What.
        event: ProcessEvent,
    },
    /// The taskmanager is to shut down (SIGTERM).
    Leave,
}

/// Something about one job process.
#[derive(Clone, PartialEq, Debug)]
pub enum ProcessEvent {
    /// It said something that is meant for the jobmanager.
    Said(FromTaskmanager),
    /// It holds so much memory.
    Resident {
        /// In bytes.
        bytes: u64,
    },
    /// It is gone, and reaped: none of its tasks can do anything any more. Comes once per process,
    /// also when it could not be started.
    Ended(FailureInfo),
}

/// Something the shell does, in this order.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Find the jobmanager.
    Connect,
    /// Give the connection up.
    Disconnect,
    /// Say who we are, over the connection.
    Register,
    /// Draw another incarnation: the jobmanager declared this one dead.
    RenewIncarnation,
    /// Tell the jobmanager.
    Send(FromTaskmanager),
    /// Start a job process.
    StartProcess {
        /// Its name from now on.
        process: ProcessId,
        /// What it runs.
        start: StartJobProcess,
    },
    /// Tell a job process.
    Tell {
        /// Which.
        process: ProcessId,
        /// What.
        message: ToTaskmanager,
    },
    /// End it at once, whatever it does; [`ProcessEvent::Ended`] answers.
    KillProcess {
        /// Which.
        process: ProcessId,
    },
    /// Write it into the log.
    Note(Notice),
    /// Everything ended after [`Event::Leave`]: the taskmanager may go.
    Drained,
    /// Nobody took this taskmanager in for `taskmanager.registration.timeout`: it ends, so that
    /// whoever started it notices.
    GiveUp {
        /// Why the last attempt did not succeed.
        reason: String,
    },
    /// Tasks here would keep their state where nobody finds it: the taskmanager ends.
    Refuse(Box<OtherStorage>),
}

/// Something worth a line in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The jobmanager took us in.
    Registered,
    /// The jobmanager does not take us in.
    Refused(RegistrationRefusal),
    /// There is no connection to the jobmanager; tasks go on, without checkpoints.
    Unconnected {
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The jobmanager is there, and its storage was not seen; nothing runs here before it is.
    StorageUnseen {
        /// Why.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The jobmanager is lost: all tasks are canceled.
    JobmanagerLost(LostCause),
    /// This process stood still.
    Paused {
        /// For how long.
        lasted: Duration,
    },
    /// A job process is killed.
    Killing {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Why.
        why: KillReason,
    },
    /// A job process ended by itself.
    ProcessFailed {
        /// Of which job.
        job: JobId,
        /// In which epoch.
        epoch: Epoch,
        /// Why.
        failure: FailureInfo,
    },
    /// A message of an epoch that is over (fence F7).
    Stale {
        /// Of which job.
        job: JobId,
        /// The message's epoch.
        epoch: Epoch,
        /// What was asked for.
        what: &'static str,
    },
}

/// Why a job process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillReason {
    /// Its tasks did not stop when they were told.
    Abandoned,
    /// Its tasks were told to stop and had this long.
    NotStopped {
        /// How long.
        after: Duration,
    },
    /// A newer epoch starts and old tasks still run.
    Replaced,
    /// It has nothing to run any more.
    Idle,
    /// It could not be made ready.
    NotStarted,
    /// It holds more memory than 110 % of its budget.
    OverBudget {
        /// What it holds.
        resident_bytes: u64,
        /// What it may hold.
        budget_bytes: u64,
    },
    /// The jobmanager replaced this taskmanager's tasks already.
    DeclaredDead,
}

impl KillReason {
    /// Whether this is how a job process ends when all is well.
    pub const fn is_orderly(self) -> bool {
        matches!(self, Self::Idle)
    }
}

impl fmt::Display for KillReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("its tasks did not stop in time and were given up"),
            Self::NotStopped { after } => {
                let after = rounded(after);
                write!(f, "its tasks were told to stop and did not within {after}")
            }
            Self::Replaced => {
                f.write_str("a newer epoch of the job starts while old tasks still run")
            }
            Self::Idle => f.write_str("it has no tasks any more"),
            Self::NotStarted => f.write_str("it could not be made ready"),
            Self::OverBudget {
                resident_bytes,
                budget_bytes,
            } => write!(
                f,
                "memory budget exceeded: it holds {resident_bytes} bytes of {budget_bytes}"
            ),
            Self::DeclaredDead => {
                f.write_str("this taskmanager was declared dead and its tasks were replaced")
            }
        }
    }
}
