//! The claim chain: the one place where it is decided who runs a job and which checkpoints exist
//! (DESIGN 7, fences F2 to F6 and F16).
//!
//! A chain is a row of numbered objects, each created only if its number is free. A CLAIM makes
//! its writer the owner, until the next CLAIM; RESERVE sets checkpoint ids aside; a checkpoint
//! *is* its COMPLETED entry; TERMINAL ends the job for good; BOUNDARY lets older entries be
//! deleted.
//!
//! Invariants (I8, I10): the chain has no gap, one owner per number, rising epochs and an unbroken
//! hash chain; nothing is announced before it is known to be durable; an owner whose slot is taken
//! steps down; a write with an unknown outcome is settled by reading its slot back, never by
//! assumption; no checkpoint id is handed out twice. None of this rests on a lease, nor on a clock where
//! listings show all that was written; where they are behind, entries are deleted that much later.
//!
//! What the store must offer: create-if-absent, and reads that see every write confirmed before them.
//! A listing may be up to [`LISTING_LAG_MAX`] behind. The store's client must not repeat a create by
//! itself.

mod codec;
mod entry;
mod machine;
mod messages;
mod pruning;
mod reading;
mod tip;
mod writing;

#[cfg(test)]
mod tests;

pub use codec::EntryError;
pub use entry::{
    CheckpointIds, CompletedCheckpoint, Entry, EntryKind, EntryNumber, RestorePoint, TerminalState,
    WriterNonce,
};
pub use machine::ClaimChain;
pub use messages::{
    Action, Append, CreateOutcome, Event, JobRecord, Listing, Loss, Refusal, Rejection, Slot,
    Ticket,
};
pub use pruning::{LISTING_LAG_MAX, Pruning};
pub use tip::{ChainError, Tip, verify};
