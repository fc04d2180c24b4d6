//! What a jobmanager is started with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use millstream_config::{HeartbeatConfig, JobmanagerConfig, Resolved, StorageLocation};
use millstream_graph::JobGraph;
use millstream_snapshot::{OpenError, Store};

/// Settings and seams of one jobmanager.
#[derive(Clone)]
pub struct JobmanagerSettings {
    /// Name of the cluster; its storage directory belongs to this name for good.
    pub cluster_id: String,
    /// Liveness of taskmanagers.
    pub heartbeat: HeartbeatConfig,
    /// Time that a job waits for slots (`slot.request.timeout`).
    pub slot_request_timeout: Duration,
    /// The cluster's configuration; its keys of job scope are defaults of the jobs.
    pub cluster: Resolved,
    /// Where durable things are.
    pub storage: Storage,
    /// How a graph becomes bytes.
    pub graphs: Arc<dyn GraphCodec>,
}

impl JobmanagerSettings {
    /// Settings as a daemon's configuration has them.
    pub fn new(
        config: &JobmanagerConfig,
        cluster: Resolved,
        storage: Storage,
        graphs: Arc<dyn GraphCodec>,
    ) -> Self {
        Self {
            cluster_id: config.cluster_id.clone(),
            heartbeat: config.heartbeat,
            slot_request_timeout: config.slot_request_timeout,
            cluster,
            storage,
            graphs,
        }
    }
}

/// Where durable things are, opened and tried.
#[derive(Clone)]
pub struct Storage {
    /// Jobs and results, and the claim chains of jobs without a checkpoint directory.
    pub jobs: Store,
    /// Whether [`Self::jobs`] outlives this process. If not, jobs are lost with it, which is said
    /// at the start (HND-066).
    pub is_durable: bool,
    /// Checkpoints and claim chains of jobs that name no directory of their own. Without it such
    /// jobs cannot take checkpoints.
    pub checkpoints: Option<Store>,
    /// Opens the directory that a job names itself.
    pub opener: Arc<dyn StorageOpener>,
}

/// Opens checkpoint directories that jobs name. Implementations may keep what they opened.
#[async_trait]
pub trait StorageOpener: Send + Sync {
    /// The opened and tried store.
    async fn open(&self, location: &StorageLocation) -> Result<Store, OpenError>;
}

/// The form in which graphs are stored. The same graph gives the same bytes.
pub trait GraphCodec: Send + Sync {
    /// The bytes of a graph; an error says what does not fit.
    fn encode(&self, graph: &JobGraph) -> Result<Bytes, GraphCodecError>;
    /// The graph of these bytes.
    fn decode(&self, bytes: &[u8]) -> Result<JobGraph, GraphCodecError>;
}

/// A graph that has no bytes, or bytes that are no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the job graph does not fit its stored form: {what}")]
pub struct GraphCodecError {
    /// What does not fit.
    pub what: String,
}
