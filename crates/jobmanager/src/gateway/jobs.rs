//! What users ask for over gRPC.

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_config::{Layer, Target};
use millstream_graph::{JobGraph, Setting};
use millstream_rpc::jobs::{
    CheckpointsInfo, GatewayError, JobEvent, JobGateway, JobInfo, JobSummary, SubmitFile,
    SubmitGraph, Submitted,
};
use millstream_types::JobId;
use tracing::warn;

use super::to_rpc;
use crate::{CancelError, Jobmanager, Submission, SubmitError};

/// Carries out what users ask for.
pub struct Jobs(pub Jobmanager);

fn refused(message: String) -> GatewayError {
    GatewayError::Refused { message }
}

fn not_found(job: JobId) -> GatewayError {
    GatewayError::NotFound { job }
}

fn of_submit(error: &SubmitError) -> GatewayError {
    let (mut message, remedy) = (millstream_telemetry::chain(error), error.remedy());
    if !remedy.is_empty() {
        message.push('\n');
        message.push_str(&remedy);
    }
    match error.is_refusal() {
        true => refused(message),
        false => GatewayError::Unavailable { message },
    }
}

fn flags(overrides: &[(String, String)]) -> Result<Layer, GatewayError> {
    let pairs: Vec<String> = overrides
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let pairs = pairs.iter().map(String::as_str);
    Layer::flags(pairs, Target::Job).map_err(|errors| refused(errors.report()))
}

impl Jobs {
    async fn submit(
        &self,
        client_id: Option<String>,
        graph: JobGraph,
        mut warnings: Vec<String>,
    ) -> Result<Submitted, GatewayError> {
        let submission = Submission { client_id, graph };
        let submitted = self
            .0
            .submit(submission)
            .await
            .map_err(|error| of_submit(&error))?;
        // The client is told too; its log is another one.
        for warning in submitted.warnings.iter().filter(|_| submitted.is_new) {
            warn!(job_id = %submitted.job, "{warning}");
        }
        warnings.extend(submitted.warnings);
        Ok(Submitted {
            job: submitted.job,
            warnings,
        })
    }
}

#[async_trait]
impl JobGateway for Jobs {
    async fn submit_file(&self, submission: SubmitFile) -> Result<Submitted, GatewayError> {
        let SubmitFile {
            client_id,
            text,
            overrides,
        } = submission;
        let cluster = self.0.cluster_settings();
        let flags = flags(&overrides)?;
        let file = millstream_jobspec::parse_with_flags("job", &text, None, cluster, flags)
            .map_err(|errors| refused(errors.render()))?;
        let warnings = file.warnings.iter().map(ToString::to_string).collect();
        self.submit(client_id, file.graph, warnings).await
    }

    async fn submit_graph(&self, submission: SubmitGraph) -> Result<Submitted, GatewayError> {
        let SubmitGraph {
            client_id,
            mut graph,
            overrides,
        } = submission;
        flags(&overrides)?;
        for (key, value) in overrides {
            graph.settings.retain(|setting| setting.key != key);
            graph.settings.push(Setting {
                key,
                value,
                origin: "flag".to_owned(),
            });
        }
        graph.settings.sort_by(|a, b| a.key.cmp(&b.key));
        self.submit(client_id, graph, Vec::new()).await
    }

    async fn list(&self) -> Result<Vec<JobSummary>, GatewayError> {
        let mut jobs: Vec<_> = self.0.list().await.iter().map(to_rpc::summary).collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.started_at), job.id));
        Ok(jobs)
    }

    async fn get(&self, job: JobId) -> Result<JobInfo, GatewayError> {
        let details = self.0.job(job).await.ok_or_else(|| not_found(job))?;
        Ok(to_rpc::info(&details))
    }

    async fn cancel(&self, job: JobId) -> Result<(), GatewayError> {
        match self.0.cancel(job).await {
            Ok(_) => Ok(()),
            Err(CancelError::UnknownJob(_)) => Err(not_found(job)),
            Err(error @ CancelError::NotOwned { .. }) => Err(GatewayError::Conflict {
                message: millstream_telemetry::chain(&error),
            }),
            Err(error @ CancelError::ShuttingDown(_)) => Err(GatewayError::Unavailable {
                message: millstream_telemetry::chain(&error),
            }),
        }
    }

    async fn watch(&self, job: JobId) -> Result<BoxStream<'static, JobEvent>, GatewayError> {
        let watch = self.0.watch(job).await.ok_or_else(|| not_found(job))?;
        Ok(watch.into_stream().map(to_rpc::event).boxed())
    }

    async fn checkpoints(&self, job: JobId) -> Result<CheckpointsInfo, GatewayError> {
        let details = self
            .0
            .checkpoints(job)
            .await
            .ok_or_else(|| not_found(job))?;
        Ok(to_rpc::checkpoints(&details))
    }
}
