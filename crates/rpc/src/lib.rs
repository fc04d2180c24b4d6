//! What crosses between processes as protobuf messages and gRPC calls.
//!
//! One job: domain types on one side, messages of `proto/millstream/v1` on the other. Nobody else
//! sees a generated type.
//!
//! Invariants: a message that does not make sense is refused by the name of message and field,
//! never guessed; every size is bounded before memory is taken; what is written is readable.
//!
//! Must never depend on: how a job is run or scheduled; a configuration file.

mod connect;
mod control;
pub mod data;
mod error;
mod graph;
pub mod jobs;
mod scalar;
mod serve;
mod status;
#[cfg(test)]
mod testing;

pub use connect::{ConnectError, Connection, connect};
pub use control::{
    ControlGateway, ControlMessage, ControlReceiver, ControlSession, ControlSessionError,
    FrameIoError, MESSAGE_BYTES_MAX, MessageReader, MessageWriter, connect_control,
    describe_storage,
};
pub use error::{DecodeError, EncodeError};
pub use graph::{GRAPH_BYTES_MAX, decode_graph, encode_graph};
pub use serve::{ServeError, ServerLimits, serve_data, serve_jobmanager};
pub use status::CallError;

/// The messages and services of `proto/millstream/v1`.
#[allow(
    clippy::all,
    clippy::too_many_lines,
    missing_docs,
    unreachable_pub,
    unused_qualifications
)]
mod pb {
    include!(concat!(env!("OUT_DIR"), "/millstream.v1.rs"));
}
