//! A two-phase sink as an operator: its writer on the task's thread, its commits on the I/O
//! runtime, decided by the committer machine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use millstream_batch::Batch;
use millstream_coordination::committer::{
    self, Action, CommitOutcome, CommitterConfig, Event as CommitEvent, Promises,
};
use millstream_env::{Env, fail_points};
use millstream_operator::{
    CommitFailure, Committable, Committer, Context, ErrorKind, Event, Operator, OperatorError,
    OperatorInfo, OperatorSnapshot, Progress, RestoredState, SinkWriter, TwoPhaseSink,
};
use millstream_types::CheckpointId;
use millstream_types::sabotage::Rule;
use parking_lot::Mutex;

use crate::signal::Signal;

/// How far the commits of one sink are; shared with its task's loop.
#[derive(Clone, Default)]
pub(crate) struct CommitStatus {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    has_news: AtomicBool,
    may_write: AtomicBool,
    committed: AtomicU64,
    results: Mutex<VecDeque<(u64, CommitOutcome)>>,
}

impl CommitStatus {
    pub(crate) fn take_news(&self) -> bool {
        self.inner.has_news.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn may_write(&self) -> bool {
        self.inner.may_write.load(Ordering::Acquire)
    }

    pub(crate) fn has_committed(&self, checkpoint: CheckpointId) -> bool {
        self.inner.committed.load(Ordering::Acquire) >= checkpoint.0
    }
}

/// The operator.
pub(crate) struct TwoPhaseOperator {
    writer: Box<dyn SinkWriter>,
    committer: Arc<dyn Committer>,
    machine: committer::Committer,
    config: CommitterConfig,
    status: CommitStatus,
    env: Env,
    signal: Signal,
    restored: Option<CheckpointId>,
}

impl TwoPhaseOperator {
    /// `restored` is the checkpoint that the task starts from.
    pub(crate) fn new(
        sink: TwoPhaseSink,
        restored: Option<CheckpointId>,
        env: Env,
        signal: Signal,
    ) -> (Self, CommitStatus) {
        let config = CommitterConfig {
            retries: 10,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
        };
        let status = CommitStatus::default();
        let operator = Self {
            writer: sink.writer,
            committer: sink.committer,
            machine: committer::Committer::new(config),
            config,
            status: status.clone(),
            env,
            signal,
            restored,
        };
        (operator, status)
    }

    fn step(&mut self, event: CommitEvent, ctx: &mut Context<'_>) -> Result<(), OperatorError> {
        let mut actions = Vec::new();
        self.machine.step(ctx.now, event, &mut actions);
        for action in actions {
            match action {
                Action::Commit {
                    ticket,
                    committable,
                    ..
                } => self.commit(ticket, &committable)?,
                Action::AllowWriter => self.open_writer(ctx.info)?,
                Action::AllCommitted(checkpoint) => {
                    self.status
                        .inner
                        .committed
                        .fetch_max(checkpoint.0, Ordering::AcqRel);
                }
                Action::Fail(failure) => {
                    let kind = match failure.is_non_recoverable() {
                        true => ErrorKind::DataLoss,
                        false => ErrorKind::External,
                    };
                    let mut error = OperatorError::new(kind, failure.message);
                    if let Some(remedy) = failure.remedy {
                        error = error.with_remedy(remedy);
                    }
                    return Err(error);
                }
            }
        }
        ctx.wake_at(self.machine.deadline());
        Ok(())
    }

    fn commit(
        &self,
        ticket: u64,
        committable: &committer::Committable,
    ) -> Result<(), OperatorError> {
        let committable = decode(&committable.0)?;
        let (committer, status) = (Arc::clone(&self.committer), self.status.clone());
        let (signal, fail_points) = (self.signal.clone(), self.env.fail_points().clone());
        let commit = self.env.spawner().blocking("commit", move || {
            fail_points.hit(fail_points::COMMIT);
            let outcome = match committer.commit(&committable) {
                Ok(()) => CommitOutcome::Done,
                Err(CommitFailure::Retry(error)) => CommitOutcome::Retry {
                    message: texts(&error),
                },
                Err(CommitFailure::Lost(error)) => CommitOutcome::Lost {
                    message: texts(&error),
                },
            };
            status.inner.results.lock().push_back((ticket, outcome));
            status.inner.has_news.store(true, Ordering::Release);
            signal.ring();
        });
        self.env.spawner().supervise("await-commit", async move {
            // A panic is kept by the blocking work's own record, and this task fails with it.
            if let Err(error) = commit.await {
                tracing::error!("{}", millstream_telemetry::chain(&error));
            }
        });
        Ok(())
    }

    fn removed(&self, rule: Rule) -> bool {
        self.env.sabotage().removed(rule)
    }

    fn open_writer(&mut self, info: &OperatorInfo) -> Result<(), OperatorError> {
        if self.status.may_write() {
            return Ok(());
        }
        let promised = self
            .machine
            .promises()
            .values()
            .flatten()
            .map(|c| decode(&c.0));
        let promised = promised.collect::<Result<Vec<_>, _>>()?;
        self.committer.abort_leftovers(info, &promised);
        let nonce = match self.removed(Rule::ReuseTransactions) {
            true => 0,
            false => self.env.rng().nonce(),
        };
        self.writer.open(info, nonce)?;
        self.status.inner.may_write.store(true, Ordering::Release);
        Ok(())
    }
}

fn texts(error: &OperatorError) -> String {
    millstream_telemetry::chain(error)
}

impl Operator for TwoPhaseOperator {
    fn open(
        &mut self,
        restored: RestoredState,
        ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        if let Some(checkpoint) = self.restored {
            let mut promises = Promises::new();
            for element in &restored.elements {
                let (promised_by, committable) = decode_promise(element)?;
                promises.entry(promised_by).or_default().push(committable);
            }
            self.machine = committer::Committer::restore(self.config, promises, checkpoint);
        }
        if self.removed(Rule::AbortBeforeCommit) {
            self.committer.abort_leftovers(ctx.info, &[]);
        }
        if self.removed(Rule::WriteBeforeCommit) {
            self.open_writer(ctx.info)?;
        }
        self.step(CommitEvent::Start, ctx)
    }

    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        _ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        self.writer.write(&batch)?;
        Ok(Progress::Done)
    }

    fn event(&mut self, event: &Event, ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        match event {
            Event::PreBarrier(checkpoint) => {
                let named = match self.removed(Rule::ReuseTransactions) {
                    true => CheckpointId(0),
                    false => *checkpoint,
                };
                let prepared = self.writer.prepare_commit(named)?;
                let committables = prepared.iter().map(encode).collect();
                let event = CommitEvent::Prepared {
                    checkpoint: *checkpoint,
                    committables,
                };
                self.step(event, ctx)?;
            }
            Event::CheckpointCompleted(checkpoint) => {
                self.step(CommitEvent::Completed(*checkpoint), ctx)?;
            }
            Event::Wake => {
                loop {
                    let result = self.status.inner.results.lock().pop_front();
                    let Some((ticket, outcome)) = result else {
                        break;
                    };
                    self.step(CommitEvent::Committed { ticket, outcome }, ctx)?;
                }
                if self.machine.deadline() <= ctx.now {
                    self.step(CommitEvent::Tick, ctx)?;
                }
                ctx.wake_at(self.machine.deadline());
            }
            // What an aborted checkpoint promised is promised by the next one as well.
            Event::CheckpointAborted(_)
            | Event::Watermark(_)
            | Event::EndOfInput
            | Event::Finish => {}
        }
        Ok(Progress::Done)
    }

    fn snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        _ctx: &mut Context<'_>,
    ) -> Result<OperatorSnapshot, OperatorError> {
        let promises = self.machine.promises().iter();
        let elements = promises.flat_map(|(checkpoint, committables)| {
            committables
                .iter()
                .map(|committable| encode_promise(*checkpoint, committable))
        });
        Ok(OperatorSnapshot {
            elements: elements.collect(),
        })
    }

    fn close(&mut self) {
        if self.status.may_write() {
            self.writer.abort();
        }
    }
}

/// Format version of the two encodings below.
const VERSION: u8 = 1;

fn corrupt() -> OperatorError {
    OperatorError::new(
        ErrorKind::State,
        "a promised commit in the checkpoint cannot be decoded",
    )
    .with_remedy("restore from another checkpoint, or with the version that wrote this one")
}

/// version | id length (u32 LE) | id | payload
fn encode(committable: &Committable) -> committer::Committable {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&(committable.id.len() as u32).to_le_bytes());
    bytes.extend_from_slice(committable.id.as_bytes());
    bytes.extend_from_slice(&committable.payload);
    committer::Committable(bytes.into())
}

fn decode(bytes: &[u8]) -> Result<Committable, OperatorError> {
    let rest = bytes.strip_prefix(&[VERSION]).ok_or_else(corrupt)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (id, payload) = rest.split_at_checked(length).ok_or_else(corrupt)?;
    let id = std::str::from_utf8(id).map_err(|_| corrupt())?;
    Ok(Committable {
        id: id.to_owned(),
        payload: Bytes::copy_from_slice(payload),
    })
}

/// version | checkpoint (u64 LE) | committable
fn encode_promise(checkpoint: CheckpointId, committable: &committer::Committable) -> Bytes {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&checkpoint.0.to_le_bytes());
    bytes.extend_from_slice(&committable.0);
    bytes.into()
}

fn decode_promise(bytes: &[u8]) -> Result<(CheckpointId, committer::Committable), OperatorError> {
    let rest = bytes.strip_prefix(&[VERSION]).ok_or_else(corrupt)?;
    let (checkpoint, rest) = rest.split_first_chunk::<8>().ok_or_else(corrupt)?;
    decode(rest)?;
    Ok((
        CheckpointId(u64::from_le_bytes(*checkpoint)),
        committer::Committable(rest.into()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_survive_their_encoding_and_nothing_shorter_is_taken_for_one() {
        let committable = Committable {
            id: "sink/0/7".to_owned(),
            payload: Bytes::from("a|b"),
        };
        let encoded = encode_promise(CheckpointId(7), &encode(&committable));
        let (checkpoint, promised) = decode_promise(&encoded).unwrap();
        assert_eq!(checkpoint, CheckpointId(7));
        assert_eq!(decode(&promised.0).unwrap(), committable);
        for length in 0..encoded.len() - committable.payload.len() {
            assert!(decode_promise(&encoded[..length]).is_err(), "{length}");
        }
    }
}
