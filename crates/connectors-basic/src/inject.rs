//! A step that fails, hangs or dawdles as told, where user code would.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use millstream_batch::Batch;
use millstream_graph::{Fault, Inject, OperatorCall};
use millstream_operator::{
    Context, ErrorKind, Operator, OperatorError, OperatorSnapshot, Progress, RestoredState,
};
use millstream_types::CheckpointId;

const VERSION: u8 = 1;
/// How long a delay may hold the task between two looks at control, unless one row takes longer.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// Passes rows through and strikes before the n-th.
///
/// Rows are counted in operator state: an attempt that restores the count goes on from there, so
/// a row that passed before the checkpoint is not the n-th again.
pub struct InjectOperator {
    config: Inject,
    /// Rows passed on, over all attempts.
    passed: u64,
    /// Whether this subtask and attempt strike at all.
    strikes: bool,
    /// What strikes in a later call than that with the row.
    is_armed: bool,
    /// What is left of a batch that is passed on slowly.
    rest: Option<Batch>,
}

impl InjectOperator {
    /// An operator that behaves as configured.
    pub fn new(config: Inject) -> Self {
        Self {
            config,
            passed: 0,
            strikes: false,
            is_armed: false,
            rest: None,
        }
    }

    fn blocks_during(&self, call: OperatorCall) -> bool {
        self.config.fault == Fault::BlockInSocketRead { during: call }
    }

    /// Acts before the n-th row is passed on.
    fn strike(&mut self) -> Result<(), OperatorError> {
        match &self.config.fault {
            Fault::Fail { message } => Err(OperatorError::new(ErrorKind::UserCode, message)),
            Fault::Panic { message } => panic!("{message}"),
            Fault::BlockInSocketRead {
                during: OperatorCall::Process,
            } => Err(block_in_socket_read()),
            Fault::BlockInSocketRead { .. } | Fault::RefuseSnapshot { .. } => {
                self.is_armed = true;
                Ok(())
            }
            Fault::Delay { .. } => Ok(()),
        }
    }

    /// Passes a few rows on, each after the delay.
    fn dawdle(
        &mut self,
        batch: Batch,
        per_row: Duration,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let rows = batch.num_rows() as u64;
        let undelayed = (self.config.at_row.saturating_sub(1)).saturating_sub(self.passed);
        let delayed = SLEEP_MAX.as_nanos() / per_row.as_nanos().max(1);
        let delayed = u64::try_from(delayed).unwrap_or(u64::MAX).max(1);
        let count = undelayed.saturating_add(delayed).min(rows);
        let sleeps = u32::try_from(count.saturating_sub(undelayed)).unwrap_or(u32::MAX);
        thread::sleep(per_row.saturating_mul(sleeps));
        self.passed += count;
        ctx.emit(batch.slice(0, count as usize));
        if count == rows {
            return Ok(Progress::Done);
        }
        self.rest = Some(batch.slice(count as usize, (rows - count) as usize));
        Ok(Progress::More)
    }
}

impl Operator for InjectOperator {
    fn open(
        &mut self,
        restored: RestoredState,
        ctx: &mut Context<'_>,
    ) -> Result<(), OperatorError> {
        // With another parallelism a subtask may get several counts; the highest is as good as any.
        for element in &restored.elements {
            self.passed = self.passed.max(decode(element)?);
        }
        let Inject { subtask, times, .. } = self.config;
        self.strikes = subtask.is_none_or(|subtask| subtask == ctx.info.subtask_index)
            && times.is_none_or(|times| ctx.info.attempt < times);
        match self.strikes && self.blocks_during(OperatorCall::Open) {
            true => Err(block_in_socket_read()),
            false => Ok(()),
        }
    }

    fn process(
        &mut self,
        _input: u32,
        batch: Batch,
        ctx: &mut Context<'_>,
    ) -> Result<Progress, OperatorError> {
        let rows = batch.num_rows() as u64;
        if self.strikes {
            if let Fault::Delay { per_row } = self.config.fault {
                return self.dawdle(batch, per_row, ctx);
            }
            let at = self.config.at_row.max(1);
            if self.passed < at && at <= self.passed + rows {
                self.strike()?;
            }
        }
        self.passed += rows;
        ctx.emit(batch);
        Ok(Progress::Done)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress, OperatorError> {
        match (self.rest.take(), &self.config.fault) {
            (Some(batch), &Fault::Delay { per_row }) => self.dawdle(batch, per_row, ctx),
            _ => Ok(Progress::Done),
        }
    }

    fn snapshot(
        &mut self,
        _checkpoint: CheckpointId,
        _ctx: &mut Context<'_>,
    ) -> Result<OperatorSnapshot, OperatorError> {
        if let Fault::RefuseSnapshot { message } = &self.config.fault
            && std::mem::take(&mut self.is_armed)
        {
            return Err(OperatorError::new(ErrorKind::UserCode, message));
        }
        if self.is_armed && self.blocks_during(OperatorCall::Snapshot) {
            return Err(block_in_socket_read());
        }
        Ok(OperatorSnapshot {
            elements: vec![encode(self.passed)],
        })
    }

    fn close(&mut self) {
        if self.is_armed && self.blocks_during(OperatorCall::Close) {
            let _ = block_in_socket_read();
        }
    }
}

/// A read in the kernel that no flag and no waker ends: what a client library without a time-out
/// does to a task. Returns only if the system ends it.
fn block_in_socket_read() -> OperatorError {
    let pair = || -> std::io::Result<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let reading = TcpStream::connect(listener.local_addr()?)?;
        let (silent, _) = listener.accept()?;
        Ok((reading, silent))
    };
    let read = pair().and_then(|(mut reading, _silent)| reading.read(&mut [0]));
    let error = OperatorError::new(ErrorKind::UserCode, "a read that never returns returned");
    match read {
        Ok(_) => error,
        Err(source) => error.with_source(source),
    }
}

fn encode(passed: u64) -> Bytes {
    let mut element = BytesMut::with_capacity(9);
    element.put_u8(VERSION);
    element.put_u64(passed);
    element.freeze()
}

fn decode(element: &Bytes) -> Result<u64, OperatorError> {
    match element.split_first() {
        Some((&VERSION, count)) if count.len() == 8 => {
            let mut word = [0; 8];
            word.copy_from_slice(count);
            Ok(u64::from_be_bytes(word))
        }
        _ => {
            let what = format!(
                "state of an inject step: {} bytes that start with {:?}, not version {VERSION}",
                element.len(),
                element.first(),
            );
            Err(OperatorError::new(ErrorKind::State, what))
        }
    }
}

#[cfg(test)]
mod tests;
