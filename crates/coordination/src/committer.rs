//! The second phase of a sink (B14): what a completed checkpoint promised is committed,
//! once, in order.
//!
//! Invariants: nothing is committed before its checkpoint is complete; one commit at a time; after
//! a restore a writer opens nothing before the promised commits came back (fence F13); what is not
//! confirmed stays part of every snapshot; a commit that can never be made fails the job as
//! `DATA_LOSS`, never in silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{CheckpointId, Disposition, MonoTime};

use crate::failure::{FailureInfo, FailureKind};

#[cfg(test)]
mod tests;

/// What a writer prepared, in the sink's own encoding; it names its transaction (fence F12).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Committable(pub Arc<[u8]>);

/// Committables that are not confirmed, by the checkpoint that promises them.
pub type Promises = BTreeMap<CheckpointId, Vec<Committable>>;

/// How commits are repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitterConfig {
    /// Attempts after the first (`sink.committer.retries`).
    pub retries: u32,
    /// Time to the first of them; doubled from one to the next.
    pub initial_backoff: Duration,
    /// The longest such time.
    pub max_backoff: Duration,
}

impl Default for CommitterConfig {
    fn default() -> Self {
        Self {
            retries: 10,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
        }
    }
}

/// Something the machine is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The subtask starts, new or restored; comes first.
    Start,
    /// The writer prepared these for a checkpoint, before its barrier went on.
    Prepared {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What it prepared.
        committables: Vec<Committable>,
    },
    /// A checkpoint is complete, and everything before it.
    Completed(CheckpointId),
    /// Answers [`Action::Commit`].
    Committed {
        /// Of the action.
        ticket: u64,
        /// What came of it.
        outcome: CommitOutcome,
    },
    /// The deadline is due.
    Tick,
}

/// What came of a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommitOutcome {
    /// It is done, now or by an earlier attempt.
    Done,
    /// It is not known to be done; trying again is safe.
    Retry {
        /// Why.
        message: String,
    },
    /// It can never be done: what was prepared is gone.
    Lost {
        /// Why.
        message: String,
    },
}

/// Something the shell does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Commit this, on the I/O runtime.
    Commit {
        /// To be given back.
        ticket: u64,
        /// The checkpoint that promised it.
        checkpoint: CheckpointId,
        /// What.
        committable: Committable,
    },
    /// The writer may open new transactions.
    AllowWriter,
    /// Everything up to this checkpoint is committed: a finishing task need wait no longer.
    AllCommitted(CheckpointId),
    /// Fail the task, or the job.
    Fail(FailureInfo),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Not started, or failed: nothing moves any more.
    Halted,
    Idle,
    Committing {
        ticket: u64,
        attempt: u32,
    },
    Waiting {
        until: MonoTime,
        attempt: u32,
    },
}

/// Commits what the writer of one sink subtask prepared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committer {
    config: CommitterConfig,
    promises: Promises,
    completed: Option<CheckpointId>,
    reported: Option<CheckpointId>,
    is_writer_allowed: bool,
    phase: Phase,
    next_ticket: u64,
}

impl Committer {
    /// For a new subtask.
    pub fn new(config: CommitterConfig) -> Self {
        Self::with(config, Promises::new(), None)
    }

    /// For a restored one: all that its snapshot holds was promised by the checkpoint restored.
    pub fn restore(config: CommitterConfig, promises: Promises, checkpoint: CheckpointId) -> Self {
        Self::with(config, promises, Some(checkpoint))
    }

    fn with(config: CommitterConfig, promises: Promises, completed: Option<CheckpointId>) -> Self {
        Self {
            config,
            promises: promises
                .into_iter()
                .filter(|(_, c)| !c.is_empty())
                .collect(),
            completed,
            reported: completed,
            is_writer_allowed: false,
            phase: Phase::Halted,
            next_ticket: 0,
        }
    }

    /// What belongs into the next snapshot: all that is not confirmed.
    pub fn promises(&self) -> &Promises {
        &self.promises
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        match self.phase {
            Phase::Waiting { until, .. } => until,
            Phase::Halted | Phase::Idle | Phase::Committing { .. } => MonoTime::NEVER,
        }
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, now: MonoTime, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Start => {
                // Once: a task that failed is replaced, not started again.
                if self.phase == Phase::Halted && !self.is_writer_allowed && self.next_ticket == 0 {
                    self.phase = Phase::Idle;
                }
            }
            Event::Prepared {
                checkpoint,
                committables,
            } => {
                if !committables.is_empty() {
                    let promised = self.promises.entry(checkpoint).or_default();
                    promised.extend(committables);
                }
            }
            Event::Completed(id) => {
                // "Complete n" is "complete everything up to n": notices may be lost.
                self.completed = self.completed.max(Some(id));
            }
            Event::Committed { ticket, outcome } => {
                self.on_committed(now, ticket, outcome, actions)
            }
            Event::Tick => {}
        }
        self.proceed(now, actions);
    }

    fn on_committed(
        &mut self,
        now: MonoTime,
        answered: u64,
        outcome: CommitOutcome,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Committing { ticket, attempt } = self.phase else {
            return;
        };
        if ticket != answered {
            return;
        }
        match outcome {
            CommitOutcome::Done => {
                self.confirm_first();
                self.phase = Phase::Idle;
            }
            CommitOutcome::Retry { message } if attempt >= self.config.retries => {
                // A restart tries again: what was promised is in the checkpoint.
                let text = format!(
                    "commit of checkpoint {} was not possible in {} attempts: {message}",
                    self.first_promised(),
                    u64::from(attempt) + 1
                );
                self.fail(FailureInfo::new(FailureKind::Connector, text), actions);
            }
            CommitOutcome::Retry { .. } => {
                let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
                let backoff = self.config.initial_backoff.saturating_mul(factor);
                self.phase = Phase::Waiting {
                    until: now + backoff.min(self.config.max_backoff),
                    attempt: attempt + 1,
                };
            }
            CommitOutcome::Lost { message } => {
                let message = message.strip_prefix("DATA_LOSS: ").unwrap_or(&message);
                let text = format!(
                    "DATA_LOSS: checkpoint {} promised a commit that can no longer be made: \
                     {message}",
                    self.first_promised()
                );
                let mut failure = FailureInfo::new(FailureKind::DataLoss, text)
                    .with_disposition(Disposition::FailJob);
                failure.remedy = Some(
                    "the rows between the last committed output and this checkpoint are missing \
                     in the sink: restore an older checkpoint, or accept the gap and start the \
                     job anew"
                        .to_owned(),
                );
                self.fail(failure, actions);
            }
        }
    }

    fn fail(&mut self, failure: FailureInfo, actions: &mut Vec<Action>) {
        self.phase = Phase::Halted;
        actions.push(Action::Fail(failure));
    }

    fn first_promised(&self) -> CheckpointId {
        self.promises.keys().next().copied().unwrap_or_default()
    }

    fn confirm_first(&mut self) {
        if let Some(mut first) = self.promises.first_entry() {
            first.get_mut().remove(0);
            if first.get().is_empty() {
                first.remove();
            }
        }
    }

    fn proceed(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        let attempt = match self.phase {
            Phase::Idle => 0,
            Phase::Waiting { until, attempt } if until <= now => attempt,
            Phase::Halted | Phase::Committing { .. } | Phase::Waiting { .. } => return,
        };
        let due = self
            .promises
            .first_key_value()
            .filter(|(checkpoint, _)| Some(**checkpoint) <= self.completed)
            .and_then(|(checkpoint, promised)| Some((*checkpoint, promised.first()?.clone())));
        if let Some((checkpoint, committable)) = due {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.phase = Phase::Committing { ticket, attempt };
            actions.push(Action::Commit {
                ticket,
                checkpoint,
                committable,
            });
            return;
        }
        if !std::mem::replace(&mut self.is_writer_allowed, true) {
            actions.push(Action::AllowWriter);
        }
        if let Some(completed) = self.completed
            && self.reported < self.completed
        {
            self.reported = self.completed;
            actions.push(Action::AllCommitted(completed));
        }
    }
}
