//! What REST and the page ask for.

use async_trait::async_trait;
use millstream_rest::{
    CheckpointsView, ClusterSummary, ClusterView, JobRow, JobView, TaskmanagerView, ViewError,
};
use millstream_types::JobId;

use super::to_rest;
use crate::Jobmanager;

/// Shows a jobmanager.
pub struct View(pub Jobmanager);

#[async_trait]
impl ClusterView for View {
    async fn overview(&self) -> Result<ClusterSummary, ViewError> {
        Ok(to_rest::overview(&self.0.overview().await))
    }

    async fn jobs(&self) -> Result<Vec<JobRow>, ViewError> {
        let mut rows: Vec<_> = self.0.list().await.into_iter().map(to_rest::row).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.started_at), row.id));
        Ok(rows)
    }

    async fn job(&self, id: JobId) -> Result<Option<JobView>, ViewError> {
        Ok(self.0.job(id).await.map(to_rest::job))
    }

    async fn checkpoints(&self, id: JobId) -> Result<Option<CheckpointsView>, ViewError> {
        Ok(self
            .0
            .checkpoints(id)
            .await
            .as_ref()
            .map(to_rest::checkpoints))
    }

    async fn taskmanagers(&self) -> Result<Vec<TaskmanagerView>, ViewError> {
        Ok(self
            .0
            .taskmanagers()
            .await
            .into_iter()
            .map(to_rest::taskmanager)
            .collect())
    }
}
