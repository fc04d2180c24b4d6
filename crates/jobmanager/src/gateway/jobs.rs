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
use millstream_types::errors::ErrorCode;
use tracing::warn;

use super::to_rpc;
use crate::{CancelError, Jobmanager, Submission, SubmitError};

/// Carries out what users ask for.
pub struct Jobs(pub Jobmanager);

/// The texts of faults that begin with the code of the first, which travels by itself.
fn refused(code: ErrorCode, rendered: &str) -> GatewayError {
    let beginning = format!("error[{code}]: ");
    let message = rendered.strip_prefix(&beginning).unwrap_or(rendered);
    GatewayError::Refused {
        code,
        message: message.to_owned(),
    }
}

fn not_found(job: JobId) -> GatewayError {
    GatewayError::NotFound { job }
}

fn of_submit(error: &SubmitError) -> GatewayError {
    if let SubmitError::Settings(errors) = error {
        return refused(errors.code(), &errors.render());
    }
    let code = error.code();
    let message = code.body(&millstream_telemetry::chain(error), &error.remedy());
    match error.is_refusal() {
        true => GatewayError::Refused { code, message },
        false => GatewayError::Unavailable { code, message },
    }
}

fn of_cancel(error: &CancelError) -> GatewayError {
    let (code, message) = (error.code(), millstream_telemetry::chain(error));
    match error {
        CancelError::UnknownJob(job) => not_found(*job),
        CancelError::NotOwned { .. } => GatewayError::Conflict { code, message },
        CancelError::ShuttingDown(_) => GatewayError::Unavailable { code, message },
    }
}

fn flags(overrides: &[(String, String)]) -> Result<Layer, GatewayError> {
    let pairs: Vec<String> = overrides
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let pairs = pairs.iter().map(String::as_str);
    Layer::flags(pairs, Target::Job).map_err(|errors| refused(errors.code(), &errors.render()))
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
            .map_err(|errors| refused(errors.code(), &errors.render()))?;
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
        let cancelled = self.0.cancel(job).await;
        cancelled.map(drop).map_err(|error| of_cancel(&error))
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
