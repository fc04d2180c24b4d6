//! What people and their scripts read over HTTP: the read-only REST interface with Flink's paths,
//! field names, types and units, and one page rendered on the server over the same data.
//!
//! Invariants: nothing can be changed through it; no path leads to a file; an id is parsed before
//! anything is looked up; whatever a request does, it costs a bounded amount of memory and time;
//! text of a job reaches the page escaped, since the templates know no other way.
//!
//! Must never depend on: the jobmanager. Who has the data implements [`ClusterView`].

mod error;
mod json;
mod page;
mod routes;
mod server;
mod view;

pub use error::{ServeError, ViewError};
pub use routes::router;
pub use server::serve;
pub use view::{
    CheckpointsView, ClusterSummary, ClusterView, FailuresView, JobRow, JobView, SlotWaitView,
    SubtaskView, TaskmanagerView, VertexInputView, VertexView,
};

#[cfg(test)]
mod tests;
