//! Ids, times, key groups, object handles and dispositions: the words every other crate speaks.
//!
//! Invariants: ids of different things are different types; the three times never mix; range
//! arithmetic of key groups is total and covers every group once.
//!
//! Must never depend on: an executor, a clock, a random source, a serialisation library.

mod disposition;
pub mod errors;
mod handle;
mod ids;
mod keygroup;
pub mod restart;
pub mod sabotage;
mod time;

pub use disposition::{Disposition, WriteOutcome};
pub use handle::{Checksum, ObjectName, ObjectNameError, StateHandle};
pub use ids::{
    Attempt, CheckpointId, Epoch, IdParseError, Incarnation, JobId, OperatorUid, SlotIndex,
    SubtaskId, TaskmanagerId, VertexId,
};
pub use keygroup::{
    KeyGroup, KeyGroupRange, MaxParallelism, MaxParallelismError, subtask_of_key_group,
};
pub use time::{EventTime, MonoTime, WallTime, rounded};
