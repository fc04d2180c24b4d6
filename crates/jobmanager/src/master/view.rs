//! The job as it is shown.

use std::collections::BTreeMap;

use millstream_types::SubtaskId;

use super::Master;
use crate::details::{
    CheckpointsDetails, JobDetails, JobOverview, SubtaskDetails, VertexDetails, VertexInput,
};

impl Master {
    pub(super) fn overview(&self) -> JobOverview {
        let mut tasks = BTreeMap::new();
        for execution in self.job.executions().values() {
            *tasks.entry(execution.state).or_default() += 1;
        }
        JobOverview {
            id: self.id,
            name: self.plan.graph.name.clone(),
            status: self.job.status(),
            started_at: self.record.submitted_at,
            ended_at: self.record.end.as_ref().map(|(_, at)| *at),
            last_modified_at: self.record.last_modified_at,
            tasks,
            restarts: self.record.restarts,
        }
    }

    pub(super) fn details(&self) -> JobDetails {
        let vertices = self.plan.plan.vertices.iter();
        JobDetails {
            overview: self.overview(),
            status_since: self.record.status_since.clone(),
            epoch: self.claim.as_ref().map(|claim| claim.claimed.epoch),
            slot_wait: self.record.slot_wait,
            vertices: vertices.map(|vertex| self.vertex(vertex)).collect(),
            failures: self.job.history().clone(),
            settings: self.plan.settings.clone(),
            warnings: self.plan.warnings.clone(),
            end: self.record.end.as_ref().map(|(end, _)| end.clone()),
        }
    }

    pub(super) fn checkpoints(&self) -> CheckpointsDetails {
        CheckpointsDetails {
            policy: self.coordinator.policy().clone(),
            history: self.coordinator.history().clone(),
            in_progress: self.coordinator.pending().collect(),
            restored: self.record.restored,
            consecutive_failures: self.coordinator.consecutive_failures().0,
            directory: self.files.store.address(),
        }
    }

    fn vertex(&self, vertex: &millstream_graph::Vertex) -> VertexDetails {
        let operators = vertex.operators.iter();
        let inputs = self.plan.plan.inputs_of(vertex.id).into_iter();
        VertexDetails {
            id: vertex.id,
            name: vertex.name.clone(),
            operators: operators
                .filter_map(|id| self.plan.graph.operator(*id))
                .map(|node| node.uid.clone())
                .collect(),
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            slot_sharing_group: vertex.slot_sharing_group.clone(),
            inputs: inputs
                .map(|edge| VertexInput {
                    from: edge.from,
                    ship_strategy: edge.partitioning.name(),
                })
                .collect(),
            subtasks: vertex
                .subtasks()
                .filter_map(|subtask| self.subtask(subtask))
                .collect(),
        }
    }

    fn subtask(&self, subtask: SubtaskId) -> Option<SubtaskDetails> {
        let execution = self.job.executions().get(&subtask)?;
        let record = self.record.tasks.get(&subtask).cloned().unwrap_or_default();
        Some(SubtaskDetails {
            index: subtask.index,
            attempt: execution.attempt,
            state: execution.state,
            state_since: record.state_since,
            slot: execution.slot.clone(),
            host: record.host,
            activity: record.activity,
            metrics: record.metrics,
        })
    }
}
