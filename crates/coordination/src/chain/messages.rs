//! What goes into the machine of a claim chain and what comes out.

use std::num::NonZeroU32;

use millstream_types::Epoch;
use millstream_types::errors::{self, ErrorCode};

use super::codec::EntryError;
use super::entry::{
    CheckpointIds, CompletedCheckpoint, Entry, EntryKind, EntryNumber, RestorePoint, TerminalState,
    WriterNonce,
};
use super::tip::ChainError;

/// Ties an answer to the action it answers. An answer with any ticket but the last is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Ticket {
    pub(super) nonce: WriterNonce,
    /// The newest entry known when it was issued.
    pub(super) above: EntryNumber,
    pub(super) seq: u32,
}

/// What is known of the job besides its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum JobRecord {
    /// The job is being submitted: it has no object yet, and may have no chain.
    BeingSubmitted,
    /// The job object exists. It was written after the first CLAIM, so there is a chain.
    Stored,
}

/// Something the machine is told.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Event {
    /// A new epoch is wanted: for the first start, any restart, or a takeover. Whatever was under
    /// way is given up; the claim settles its fate by taking the slot.
    Claim {
        /// Drawn at random for this claim alone.
        nonce: WriterNonce,
        /// What is known of the job.
        job: JobRecord,
    },
    /// The owner wants an entry appended.
    Append(Append),
    /// Answers [`Action::List`].
    Listed {
        /// Of the action.
        ticket: Ticket,
        /// What was found.
        listing: Listing,
    },
    /// Answers [`Action::Probe`] and [`Action::ReadBack`].
    Read {
        /// Of the action.
        ticket: Ticket,
        /// What was found.
        slot: Slot,
    },
    /// Answers [`Action::Create`].
    Created {
        /// Of the action.
        ticket: Ticket,
        /// What is known of the write.
        outcome: CreateOutcome,
    },
    /// The deadline is due.
    Tick,
}

/// An entry the owner wants appended.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Append {
    /// This many more checkpoint ids.
    Reserve(NonZeroU32),
    /// A checkpoint whose metadata is stored.
    Completed(CompletedCheckpoint),
    /// The end of the job.
    Terminal(TerminalState),
    /// A boundary that keeps this many of the newest completed checkpoints.
    Boundary {
        /// How many to keep.
        retain: NonZeroU32,
    },
    /// No entry: a look whether the claim is still the chain's, for an owner that did nothing with it
    /// for a while. In line with the others; answered by [`Action::Confirmed`].
    Nothing,
}

/// The highest number listed above the one asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Listing {
    /// There are entries.
    Highest(EntryNumber),
    /// There is none.
    Empty,
    /// The store did not answer, or with an error.
    Unavailable,
}

/// What is at a number.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Slot {
    /// An entry.
    Present(Box<Entry>),
    /// Nothing.
    Absent,
    /// An object that is no entry.
    Corrupt(EntryError),
    /// The store did not answer, or with an error.
    Unavailable,
}

/// What is known of a create. A conflict that the store reports without saying that the object
/// exists (such as S3's 409) is `MayHaveHappened`, not `AlreadyExists`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CreateOutcome {
    /// The object was created.
    Ok,
    /// There was an object already; perhaps our own.
    AlreadyExists,
    /// Nothing was written and nothing will be.
    DidNotHappen,
    /// It may have been written, or may still be.
    MayHaveHappened,
}

/// Something the shell does, or is told.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Action {
    /// Lists the chain's objects above a number.
    List {
        /// To be given back.
        ticket: Ticket,
        /// The number; 0 lists them all.
        above: EntryNumber,
    },
    /// Reads an entry that may not be there.
    Probe {
        /// To be given back.
        ticket: Ticket,
        /// The entry's number.
        number: EntryNumber,
    },
    /// Reads the slot of a write whose outcome is open.
    ReadBack {
        /// To be given back.
        ticket: Ticket,
        /// The slot's number.
        number: EntryNumber,
    },
    /// Creates an entry, only if its number is free; sent once.
    Create {
        /// To be given back.
        ticket: Ticket,
        /// The entry.
        entry: Box<Entry>,
    },
    /// The claim is durable: deploy with this epoch, from this checkpoint.
    Claimed {
        /// The epoch.
        epoch: Epoch,
        /// The newest completed checkpoint below the claim.
        restore: Option<RestorePoint>,
        /// The checkpoint ids this epoch may use before it reserves more.
        ids: CheckpointIds,
    },
    /// An append is durable. After a BOUNDARY, entries below its number may be deleted.
    Appended {
        /// Its number.
        number: EntryNumber,
        /// What it says.
        kind: EntryKind,
    },
    /// [`Append::Nothing`]: no other claim was there when it was looked.
    Confirmed {
        /// The epoch of the claim.
        epoch: Epoch,
    },
    /// The request was not written and will not be.
    Rejected {
        /// The request.
        request: Append,
        /// Why.
        why: Rejection,
    },
    /// Someone else owns the job: stop it, write nothing more. Ends every open request.
    Lost(Loss),
    /// There can be no claim. Ends every open request.
    Refuse(Refusal),
}

/// How ownership was found to be lost.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Loss {
    /// The slot holds an entry of another writer.
    SlotTaken {
        /// The slot.
        number: EntryNumber,
        /// The other's epoch.
        epoch: Epoch,
        /// The other's nonce.
        nonce: WriterNonce,
    },
    /// The chain goes on above our entry (fence F6): another claim followed, or our number was
    /// free only because an older entry there had been deleted.
    Passed {
        /// Our entry.
        number: EntryNumber,
        /// The highest above it.
        highest: EntryNumber,
    },
}

/// Why a request of the owner was not written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rejection {
    /// No claim is held.
    #[error("no claim on the job is held")]
    NotTheOwner,
    /// Too many requests wait already.
    #[error("{limit} appends to the claim chain wait already")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// The entry would break the chain's rules.
    #[error("the entry would break the claim chain")]
    Invalid(#[source] ChainError),
}

/// Why a job cannot be claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A stored job without a chain: the chain was lost, and the checkpoints with it.
    #[error("the job was stored, and its claim chain has no entry")]
    NoChain,
    /// The job ended.
    #[error("the job is {state} already")]
    Terminal {
        /// How it ended.
        state: TerminalState,
        /// The completed checkpoints that the chain had then, oldest first.
        completed: Vec<RestorePoint>,
    },
    /// An entry was listed or is needed, but is not there.
    #[error("entry {number} of the claim chain is missing")]
    Missing {
        /// The entry.
        number: EntryNumber,
    },
    /// An object of the chain cannot be read as an entry.
    #[error("entry {number} of the claim chain is unreadable")]
    Unreadable {
        /// The entry.
        number: EntryNumber,
        /// Why.
        #[source]
        cause: EntryError,
    },
    /// The chain breaks its own rules.
    #[error("the claim chain breaks its rules")]
    Broken(#[source] ChainError),
    /// The chain is shorter than it was.
    #[error("the claim chain had entry {known} and has it no more")]
    Regressed {
        /// The newest entry known.
        known: EntryNumber,
    },
}

impl Refusal {
    /// Its code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoChain | Self::Missing { .. } | Self::Regressed { .. } => errors::CHAIN_GONE,
            Self::Terminal { .. } => errors::JOB_ENDED,
            Self::Unreadable { cause, .. } => cause.code(),
            Self::Broken(_) => errors::CHAIN_BROKEN,
        }
    }

    /// What an operator can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Terminal { .. } => "Submit the job anew; a finished job id never runs again.",
            Self::Unreadable { cause, .. } => cause.remedy(),
            Self::NoChain | Self::Missing { .. } | Self::Regressed { .. } => {
                "Check that the checkpoint directory is the right one and that nothing else \
                 deletes from it; restore it from a copy, or start a new job from a savepoint."
            }
            Self::Broken(_) => {
                "Something else wrote to the chain; start a new job from a retained checkpoint."
            }
        }
    }
}
