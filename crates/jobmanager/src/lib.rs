//! The jobmanager: drives the pure machines of `coordination` over real storage and real
//! taskmanagers, the same way in a daemon and embedded in one process.
//!
//! One actor per job (its *job master*) owns the machines of that job; one actor for the cluster
//! owns slots and liveness. Whatever waits (claims, metadata, deletions) runs beside the actor and
//! comes back as an event, so that no actor ever waits for a store or for a peer.
//!
//! Invariants: a client is told of success only after the job object is durable, and of an end only
//! after TERMINAL is; what a machine decided is carried out in its order; nothing is deleted before
//! the own claim was proven to be the chain's tip; a jobmanager that starts finds its jobs by
//! itself.
//!
//! Below [`gateway`] and [`daemon`] nothing knows a wire format.
//!
//! Must never depend on: a connector, user code.

mod admission;
mod cleaning;
mod cluster;
pub mod daemon;
mod details;
mod error;
pub mod gateway;
mod jobmanager;
mod master;
mod recovery;
mod registry;
mod result;
mod settings;
mod submission;
mod watch;

pub use admission::{Plan, plan_job};
pub use cluster::TaskmanagerSession;
pub use details::{
    CheckpointsDetails, ClusterOverview, EffectiveSetting, EndFailure, JobDetails, JobEnded,
    JobOverview, SubtaskDetails, TaskmanagerDetails, VertexDetails, VertexInput,
};
pub use error::{CancelError, SessionError, StartError, SubmitError, TriggerError};
pub use jobmanager::{Jobmanager, Submission, Submitted};
pub use settings::{GraphCodec, GraphCodecError, JobmanagerSettings, Storage, StorageOpener};
pub use watch::{JobEvent, JobWatch};

#[cfg(test)]
mod tests;
