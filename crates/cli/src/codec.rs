//! Graphs as bytes, for the embedded jobmanager's store.

use bytes::Bytes;
use millstream_graph::JobGraph;
use millstream_jobmanager::{GraphCodec, GraphCodecError};

/// The form in which graphs travel and are stored.
pub(crate) struct Graphs;

impl GraphCodec for Graphs {
    fn encode(&self, graph: &JobGraph) -> Result<Bytes, GraphCodecError> {
        millstream_rpc::encode_graph(graph).map_err(|error| GraphCodecError {
            what: millstream_telemetry::chain(&error),
        })
    }

    fn decode(&self, bytes: &[u8]) -> Result<JobGraph, GraphCodecError> {
        millstream_rpc::decode_graph(bytes).map_err(|error| GraphCodecError {
            what: millstream_telemetry::chain(&error),
        })
    }
}
