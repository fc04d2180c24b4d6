//! One subtask: a future that owns everything its thread touches.
//!
//! In every turn: control first, then timers, then what is under way in the chain, then barriers,
//! then one slice of rows. Nothing waits inside a turn; the loop waits between turns, on one
//! signal that everything rings.

mod barrier;
mod enumerator;
mod finish;
mod input;
mod mailbox;
mod open;
mod pace;
mod reader;
mod splits;

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_batch::Batch;
use millstream_coordination::failure::FailureInfo;
use millstream_exchange::ChannelIndex;
use millstream_exchange::align::{AlignAction, Alignment};
use millstream_exchange::watermark::WatermarkValve;
use millstream_types::MonoTime;

use crate::chain::Chain;
use crate::counters::{Spent, TaskCounters};
use crate::gate::Gate;
use crate::output::Outputs;
use crate::signal::Signal;
use crate::snapshot::{SnapshotTarget, Uploads};

pub(crate) use enumerator::EnumeratorHead;
pub(crate) use mailbox::{Mailbox, TaskControl};
pub(crate) use open::{TaskSetup, run};
pub(crate) use reader::ReaderHead;

/// How a task ended.
#[derive(Debug)]
pub(crate) enum TaskEnd {
    Finished,
    Canceled,
    Failed(FailureInfo),
}

/// Where a task's rows come from.
pub(crate) enum Head {
    /// Its input channels.
    Operator,
    /// Splits.
    Reader(Box<ReaderHead>),
    /// It makes no rows: it finds splits for readers.
    Enumerator(Box<EnumeratorHead>),
}

/// A batch that was begun; what is left of it is done slice by slice.
struct Current {
    batch: Batch,
    offset: usize,
    from: From,
}

enum From {
    Channel {
        channel: ChannelIndex,
        input: u32,
        cost: u64,
    },
    Source {
        dead_letter: bool,
    },
}

/// A running task.
pub(crate) struct Task {
    /// `name (i/n)#k`, for log lines.
    name: String,
    vertex_name: String,
    parallelism: u32,
    target: SnapshotTarget,
    is_checkpointing: bool,
    signal: Signal,
    mailbox: Mailbox,
    gate: Gate,
    alignment: Alignment,
    valve: WatermarkValve,
    aligned: VecDeque<AlignAction>,
    current: Option<Current>,
    chain: Chain,
    outputs: Outputs,
    head: Head,
    uploads: Uploads,
    counters: Arc<TaskCounters>,
    pace: pace::Pace,
    /// Channels whose data has ended, and whether they want the end to be processed.
    ended: Vec<Option<bool>>,
    finish: finish::Finish,
}

/// What a turn came to.
enum Turn {
    /// Something was done; there may be more.
    Worked,
    /// Nothing to do before a ring or this time.
    Wait(Spent, MonoTime),
    /// The task is at its end.
    Ended,
}

impl Task {
    /// Runs to the end.
    async fn work(&mut self) -> Result<TaskEnd, FailureInfo> {
        loop {
            let now = self.now();
            if self.take_controls(now)? {
                return Ok(TaskEnd::Canceled);
            }
            self.outputs.on_time(now)?;
            self.chain.wake(now);
            match self.turn(now)? {
                Turn::Worked => {
                    let spent = self.now().saturating_since(now);
                    self.counters.spend(Spent::Busy, spent);
                    tokio::task::yield_now().await;
                }
                Turn::Wait(spent, deadline) => {
                    let deadline = deadline
                        .min(self.outputs.deadline())
                        .min(self.chain.deadline());
                    self.wait(deadline).await;
                    self.counters.spend(spent, self.now().saturating_since(now));
                }
                Turn::Ended => return Ok(self.let_go().await),
            }
        }
    }

    /// Waits until all that was sent has been taken. A task whose rows wait for a connection that
    /// is never made must still be there to fail.
    async fn let_go(&mut self) -> TaskEnd {
        while !self.outputs.are_taken() {
            while let Some(control) = self.mailbox.take() {
                if control == TaskControl::Cancel {
                    return TaskEnd::Canceled;
                }
            }
            self.signal.rung().await;
        }
        TaskEnd::Finished
    }

    fn now(&self) -> MonoTime {
        self.target.env.clock().monotonic()
    }

    async fn wait(&self, deadline: MonoTime) {
        tokio::select! {
            biased;
            () = self.signal.rung() => {}
            () = self.target.env.clock().sleep_until(deadline) => {}
        }
    }

    fn turn(&mut self, now: MonoTime) -> Result<Turn, FailureInfo> {
        if !self.chain.is_empty() {
            self.chain.run(now, &mut self.outputs, true)?;
            let is_blocked = !self.chain.is_empty();
            return Ok(match is_blocked {
                true => Turn::Wait(Spent::Backpressured, MonoTime::NEVER),
                false => Turn::Worked,
            });
        }
        if self.current.is_none() {
            if self.end_draining()? {
                return Ok(Turn::Worked);
            }
            if let Some(action) = self.aligned.pop_front() {
                self.on_aligned(now, action)?;
                return Ok(Turn::Worked);
            }
            if self.is_done() {
                self.end_partition()?;
                return Ok(Turn::Ended);
            }
        }
        if !self.outputs.has_room() {
            return Ok(Turn::Wait(Spent::Backpressured, MonoTime::NEVER));
        }
        if self.current.is_some() {
            self.slice(now)?;
            return Ok(Turn::Worked);
        }
        self.turn_of_head(now)
    }

    fn turn_of_head(&mut self, now: MonoTime) -> Result<Turn, FailureInfo> {
        if let Some((channel, incoming)) = self.gate.take() {
            self.on_incoming(now, channel, incoming)?;
            return Ok(Turn::Worked);
        }
        match &self.head {
            Head::Operator => Ok(Turn::Wait(Spent::Idle, MonoTime::NEVER)),
            Head::Reader(_) => self.turn_of_reader(now),
            Head::Enumerator(_) => self.turn_of_enumerator(),
        }
    }

    /// Deals with the next rows of the batch under way.
    fn slice(&mut self, now: MonoTime) -> Result<(), FailureInfo> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let left = current.batch.num_rows() - current.offset;
        let wanted = self.pace.rows().min(left);
        let end = match wanted == left {
            true => current.batch.num_rows(),
            false => current.batch.pair_safe_cut(current.offset + wanted),
        };
        let rows = current.batch.slice(current.offset, end - current.offset);
        let n_rows = rows.num_rows();
        match current.from {
            From::Channel { input, .. } => self.chain.push_rows(input, rows),
            From::Source { dead_letter } => {
                self.chain
                    .push_source_rows(dead_letter, rows, now, &mut self.outputs)?;
            }
        }
        self.chain.run(now, &mut self.outputs, true)?;
        self.pace.took(n_rows, self.now().saturating_since(now));
        current.offset = end;
        if end < current.batch.num_rows() {
            self.current = Some(current);
        } else if let From::Channel { channel, cost, .. } = current.from {
            self.gate.release(channel, cost);
        }
        Ok(())
    }

    /// Deals with what the jobmanager said. Returns whether the task was cancelled.
    fn take_controls(&mut self, now: MonoTime) -> Result<bool, FailureInfo> {
        while let Some(control) = self.mailbox.take() {
            match control {
                TaskControl::Cancel => return Ok(true),
                TaskControl::Trigger(barrier) => self.on_trigger(now, barrier),
                TaskControl::Completed(checkpoint) => self.on_completed(checkpoint),
                TaskControl::Aborted(checkpoint) => self.on_aborted(now, checkpoint),
            }
        }
        Ok(false)
    }
}
