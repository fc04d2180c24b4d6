//! Small jobs and messages for this crate's tests.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    DeploySubtask, FromTaskmanager, StartJobProcess, ToTaskmanager,
};
use millstream_graph::{
    Edge, GeneratorColumn, GeneratorSource, GeneratorValue, JobGraph, OperatorId, OperatorKind,
    OperatorNode, OutputPort, Partitioning,
};
use millstream_types::{
    Attempt, Epoch, JobId, MaxParallelism, OperatorUid, SlotIndex, SubtaskId, VertexId,
};

pub(crate) const JOB: JobId = JobId::from_bytes([7; 16]);

/// A generator in front of a sink that forgets: one vertex, without channels.
pub(crate) fn graph(rows: Option<u64>, parallelism: u32) -> JobGraph {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let node = |uid: &str, kind| OperatorNode {
        uid: OperatorUid::new(uid).unwrap(),
        uid_generated: false,
        name: uid.to_owned(),
        kind,
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        max_parallelism_explicit: false,
        slot_sharing_group: "default".to_owned(),
        chain_with_input: true,
        schema: Arc::clone(&schema),
    };
    let column = GeneratorColumn {
        name: "n".to_owned(),
        value: GeneratorValue::Sequence { start: 0 },
    };
    let source = GeneratorSource {
        rows,
        rate: rows.is_none().then_some(100.0),
        seed: 1,
        columns: vec![column],
    };
    JobGraph {
        name: "numbers".to_owned(),
        operators: vec![
            node("numbers", OperatorKind::Generator(source)),
            node("nowhere", OperatorKind::Blackhole),
        ],
        edges: vec![Edge {
            from: OperatorId(0),
            port: OutputPort::Main,
            to: OperatorId(1),
            input: 0,
            partitioning: Partitioning::Forward,
        }],
        settings: Vec::new(),
    }
}

pub(crate) fn start(epoch: u64, graph: &JobGraph) -> ToTaskmanager {
    ToTaskmanager::StartJobProcess(StartJobProcess {
        job: JOB,
        epoch: Epoch(epoch),
        graph: Arc::new(graph.clone()),
        chaining: true,
    })
}

/// Deploys subtask `index` into the slot of the same number.
pub(crate) fn deploy(epoch: u64, index: u32) -> ToTaskmanager {
    ToTaskmanager::Deploy(Box::new(DeploySubtask {
        job: JOB,
        epoch: Epoch(epoch),
        subtask: subtask(index),
        attempt: Attempt(0),
        vertex_name: "numbers -> nowhere".to_owned(),
        slot: SlotIndex(index),
        inputs: Vec::new(),
        outputs: Vec::new(),
        restore: None,
    }))
}

pub(crate) fn subtask(index: u32) -> SubtaskId {
    SubtaskId::new(VertexId(0), index)
}

pub(crate) fn state(epoch: u64, index: u32, state: ExecutionState) -> FromTaskmanager {
    FromTaskmanager::SubtaskState {
        job: JOB,
        epoch: Epoch(epoch),
        subtask: subtask(index),
        attempt: Attempt(0),
        state,
        failure: None,
    }
}
