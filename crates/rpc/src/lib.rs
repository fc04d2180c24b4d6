//! What crosses between processes as protobuf messages and gRPC calls.
//!
//! One job: domain types on one side, messages of `proto/millstream/v1` on the other. Nobody else
//! sees a generated type.
//!
//! Invariants: a message that does not make sense is refused by the name of message and field,
//! never guessed; every size is bounded before memory is taken; what is written is readable.
//!
//! Must never depend on: how a job is run or scheduled; a configuration file.

mod error;
mod graph;
mod scalar;

pub use error::{DecodeError, EncodeError};
pub use graph::{GRAPH_BYTES_MAX, decode_graph, encode_graph};

/// The messages and services of `proto/millstream/v1`.
#[allow(clippy::all, missing_docs, unreachable_pub, unused_qualifications)]
mod pb {
    include!(concat!(env!("OUT_DIR"), "/millstream.v1.rs"));
}
