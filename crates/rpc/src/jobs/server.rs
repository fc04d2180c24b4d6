//! `JobService` over a [`JobGateway`].

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_types::JobId;
use millstream_types::errors::{self, ErrorCode};
use tonic::{Request, Response, Status};

use super::details::{job_id_from_text, job_to_wire, summary_to_wire};
use super::gateway::{GatewayError, JobGateway, SubmitFile, SubmitGraph};
use super::{checkpoints, events};
use crate::graph::{GRAPH_BYTES_MAX, decode_graph};
use crate::pb;
use crate::pb::job_service_server::{JobService, JobServiceServer};

/// The largest job file.
pub(super) const JOB_FILE_BYTES_MAX: usize = 1 << 20;
/// What stands around a graph: client id and overrides.
const REQUEST_BYTES_MAX: usize = GRAPH_BYTES_MAX + (64 << 10);
/// Answers: the largest are checkpoints of a job of 10,000 subtasks.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) fn job_service(gateway: Arc<dyn JobGateway>) -> JobServiceServer<impl JobService> {
    JobServiceServer::new(Jobs { gateway })
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

struct Jobs {
    gateway: Arc<dyn JobGateway>,
}

fn job_id(message: &'static str, text: &str) -> Result<JobId, Status> {
    job_id_from_text(message, text)
        .map_err(|error| refused(errors::SUBM_REFUSED, error.to_string()))
}

fn refused(code: ErrorCode, message: String) -> Status {
    GatewayError::Refused { code, message }.into()
}

#[async_trait]
impl JobService for Jobs {
    type WatchJobStream = BoxStream<'static, Result<pb::JobEvent, Status>>;

    async fn submit_job(
        &self,
        request: Request<pb::SubmitJobRequest>,
    ) -> Result<Response<pb::SubmitJobResponse>, Status> {
        use pb::submit_job_request::Job;
        let pb::SubmitJobRequest {
            client_id,
            job,
            overrides,
        } = request.into_inner();
        let client_id = (!client_id.is_empty()).then_some(client_id);
        let overrides = overrides.into_iter().collect();
        let submitted = match job {
            Some(Job::JobFile(text)) if text.len() > JOB_FILE_BYTES_MAX => {
                let n_bytes = text.len();
                let what = format!(
                    "the job file has {n_bytes} bytes, above the limit of {JOB_FILE_BYTES_MAX}"
                );
                return Err(refused(errors::JOB_LIMIT, what));
            }
            Some(Job::JobFile(text)) => {
                self.gateway
                    .submit_file(SubmitFile {
                        client_id,
                        text,
                        overrides,
                    })
                    .await?
            }
            Some(Job::Graph(bytes)) => match decode_graph(&bytes) {
                Ok(graph) => {
                    self.gateway
                        .submit_graph(SubmitGraph {
                            client_id,
                            graph,
                            overrides,
                        })
                        .await?
                }
                Err(error) => {
                    let cause = crate::status::in_words(&error);
                    let what = format!("the job graph is refused: {cause}");
                    return Err(refused(errors::SUBM_GRAPH, what));
                }
            },
            None => {
                let what = "SubmitJobRequest.job is missing: set job_file or graph";
                return Err(refused(errors::SUBM_REFUSED, what.to_owned()));
            }
        };
        Ok(Response::new(pb::SubmitJobResponse {
            job_id: submitted.job.to_string(),
            warnings: submitted.warnings,
        }))
    }

    async fn list_jobs(
        &self,
        _: Request<pb::ListJobsRequest>,
    ) -> Result<Response<pb::ListJobsResponse>, Status> {
        let jobs = self.gateway.list().await?;
        let jobs = jobs.iter().map(summary_to_wire).collect();
        Ok(Response::new(pb::ListJobsResponse { jobs }))
    }

    async fn get_job(
        &self,
        request: Request<pb::GetJobRequest>,
    ) -> Result<Response<pb::GetJobResponse>, Status> {
        let job = job_id("GetJobRequest", &request.get_ref().job_id)?;
        Ok(Response::new(job_to_wire(&self.gateway.get(job).await?)))
    }

    async fn cancel_job(
        &self,
        request: Request<pb::CancelJobRequest>,
    ) -> Result<Response<pb::CancelJobResponse>, Status> {
        let job = job_id("CancelJobRequest", &request.get_ref().job_id)?;
        self.gateway.cancel(job).await?;
        Ok(Response::new(pb::CancelJobResponse {}))
    }

    async fn watch_job(
        &self,
        request: Request<pb::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let job = job_id("WatchJobRequest", &request.get_ref().job_id)?;
        let events = self.gateway.watch(job).await?;
        Ok(Response::new(
            events.map(|event| Ok(events::to_wire(event))).boxed(),
        ))
    }

    async fn get_checkpoints(
        &self,
        request: Request<pb::GetCheckpointsRequest>,
    ) -> Result<Response<pb::GetCheckpointsResponse>, Status> {
        let job = job_id("GetCheckpointsRequest", &request.get_ref().job_id)?;
        let info = self.gateway.checkpoints(job).await?;
        Ok(Response::new(checkpoints::to_wire(&info)))
    }
}
