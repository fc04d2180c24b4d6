//! Graphs as bytes: the same form on the wire and in the job store.

use bytes::Bytes;
use millstream_graph::JobGraph;

use crate::{GraphCodec, GraphCodecError};

/// The form in which graphs travel.
pub struct WireGraphs;

impl GraphCodec for WireGraphs {
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
