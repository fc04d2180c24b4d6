//! The jobmanager as others reach it: users over gRPC, taskmanagers over their control streams,
//! browsers and scripts over REST. Nothing is decided here.

mod control;
mod graphs;
mod jobs;
mod to_rest;
mod to_rpc;
mod view;

pub use control::ControlStreams;
pub use graphs::WireGraphs;
pub use jobs::Jobs;
pub use to_rpc::event;
pub use view::View;
