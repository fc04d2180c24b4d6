//! How a job ended, read off its chain by somebody who does not claim it.

use std::sync::Arc;

use millstream_coordination::chain::{
    self, Entry, EntryKind, EntryNumber, Listing, Refusal, RestorePoint, Slot, TerminalState,
};
use millstream_types::{Disposition, JobId};

use super::driver::{list, read};
use crate::error::StoreError;
use crate::store::Store;

/// The end of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// How it ended.
    pub state: TerminalState,
    /// The completed checkpoints that the chain has, oldest first: all that there will be.
    pub completed: Vec<RestorePoint>,
}

/// Why it is not known how a job ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EndedError {
    /// The store did not answer.
    #[error("the claim chain is out of reach")]
    Store(#[from] Arc<StoreError>),
    /// The chain makes no sense.
    #[error("the claim chain cannot be read")]
    Chain(#[from] Refusal),
}

impl EndedError {
    /// What the scheduler does about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Store(error) => error.disposition(),
            Self::Chain(_) => Disposition::FailJob,
        }
    }
}

/// How the chain in the directory `dir` of a job says that it ended; none if the listing shows no end,
/// which it may not yet where it is behind. Writes nothing.
pub async fn ended(dir: &Store, job: JobId) -> Result<Option<Ended>, EndedError> {
    let mut number = match list(dir.clone(), EntryNumber::NONE).await? {
        Listing::Highest(number) => number,
        Listing::Empty | Listing::Unavailable => return Ok(None),
    };
    let mut entries = Vec::new();
    loop {
        let entry = entry(dir, number).await?;
        // What lies below the newest boundary may be half deleted.
        let is_start =
            number == EntryNumber::FIRST || matches!(entry.kind, EntryKind::Boundary { .. });
        entries.push(entry);
        if is_start {
            break;
        }
        number = EntryNumber(number.0 - 1);
    }
    let tip = chain::verify(job, entries.iter().rev()).map_err(Refusal::Broken)?;
    Ok(tip.terminal().map(|state| Ended {
        state,
        completed: tip.completed().to_vec(),
    }))
}

async fn entry(dir: &Store, number: EntryNumber) -> Result<Entry, EndedError> {
    match read(dir.clone(), number).await? {
        Slot::Present(entry) => Ok(*entry),
        Slot::Corrupt(cause) => Err(Refusal::Unreadable { number, cause }.into()),
        Slot::Absent | Slot::Unavailable => Err(Refusal::Missing { number }.into()),
    }
}
