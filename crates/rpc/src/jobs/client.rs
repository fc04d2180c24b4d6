//! A user's side of `JobService`.

use millstream_graph::JobGraph;
use millstream_types::JobId;
use millstream_types::errors;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use super::details::{job_from_wire, job_id_from_text, summary_from_wire};
use super::gateway::Submitted;
use super::server::ANSWER_BYTES_MAX;
use super::types::{CheckpointsInfo, JobEvent, JobInfo, JobSummary};
use super::{checkpoints, events};
use crate::connect::Connection;
use crate::error::DecodeError;
use crate::graph::{GRAPH_BYTES_MAX, encode_graph};
use crate::pb;
use crate::pb::job_service_client::JobServiceClient;
use crate::pb::submit_job_request::Job;
use crate::status::CallError;

/// Asks a jobmanager.
#[derive(Clone, Debug)]
pub struct JobClient {
    address: String,
    client: JobServiceClient<Channel>,
}

impl JobClient {
    /// Asks over this connection.
    pub fn new(connection: &Connection) -> Self {
        let client = JobServiceClient::new(connection.channel())
            .max_encoding_message_size(GRAPH_BYTES_MAX * 2)
            .max_decoding_message_size(ANSWER_BYTES_MAX);
        Self {
            address: connection.address().to_owned(),
            client,
        }
    }

    /// Submits the text of a job file. Safe to repeat with the same client id.
    pub async fn submit_file(
        &self,
        client_id: &str,
        text: String,
        overrides: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Submitted, CallError> {
        self.submit(client_id, Job::JobFile(text), overrides).await
    }

    /// Submits a graph. Safe to repeat with the same client id.
    pub async fn submit_graph(
        &self,
        client_id: &str,
        graph: &JobGraph,
        overrides: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Submitted, CallError> {
        let graph = encode_graph(graph);
        let graph = graph.map_err(|error| CallError::Refused {
            code: errors::SUBM_GRAPH,
            message: error.to_string(),
        })?;
        self.submit(client_id, Job::Graph(graph), overrides).await
    }

    async fn submit(
        &self,
        client_id: &str,
        job: Job,
        overrides: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Submitted, CallError> {
        let request = pb::SubmitJobRequest {
            client_id: client_id.to_owned(),
            job: Some(job),
            overrides: overrides.into_iter().collect(),
        };
        let answer = self.answer(self.client.clone().submit_job(request).await)?;
        let job = self.read(job_id_from_text("SubmitJobResponse", &answer.job_id))?;
        Ok(Submitted {
            job,
            warnings: answer.warnings,
        })
    }

    /// All jobs, the newest first.
    pub async fn list(&self) -> Result<Vec<JobSummary>, CallError> {
        let request = pb::ListJobsRequest {};
        let answer = self.answer(self.client.clone().list_jobs(request).await)?;
        self.read(answer.jobs.into_iter().map(summary_from_wire).collect())
    }

    /// All that is known of a job.
    pub async fn get(&self, job: JobId) -> Result<JobInfo, CallError> {
        let request = pb::GetJobRequest {
            job_id: job.to_string(),
        };
        let answer = self.answer(self.client.clone().get_job(request).await)?;
        self.read(job_from_wire(answer))
    }

    /// Asks a job to end.
    pub async fn cancel(&self, job: JobId) -> Result<(), CallError> {
        let request = pb::CancelJobRequest {
            job_id: job.to_string(),
        };
        self.answer(self.client.clone().cancel_job(request).await)
            .map(drop)
    }

    /// What happens to a job from now on.
    pub async fn watch(&self, job: JobId) -> Result<JobEventStream, CallError> {
        let request = pb::WatchJobRequest {
            job_id: job.to_string(),
        };
        let events = self.answer(self.client.clone().watch_job(request).await)?;
        Ok(JobEventStream {
            address: self.address.clone(),
            events,
        })
    }

    /// The checkpoints of a job.
    pub async fn checkpoints(&self, job: JobId) -> Result<CheckpointsInfo, CallError> {
        let request = pb::GetCheckpointsRequest {
            job_id: job.to_string(),
        };
        let answer = self.answer(self.client.clone().get_checkpoints(request).await)?;
        self.read(checkpoints::from_wire(answer))
    }

    fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, CallError> {
        let answer = answer.map_err(|status| CallError::of_status(&self.address, &status))?;
        Ok(answer.into_inner())
    }

    fn read<T>(&self, answer: Result<T, DecodeError>) -> Result<T, CallError> {
        answer.map_err(|error| CallError::Answer {
            address: self.address.clone(),
            error,
        })
    }
}

/// Events of a watched job.
#[derive(Debug)]
pub struct JobEventStream {
    address: String,
    events: Streaming<pb::JobEvent>,
}

impl JobEventStream {
    /// The next event; none after the end, or when the jobmanager shuts down before it. Dropping
    /// the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, CallError> {
        let event = self.events.message().await;
        let event = event.map_err(|status| CallError::of_status(&self.address, &status))?;
        let event = event.map(events::from_wire).transpose();
        event.map_err(|error| CallError::Answer {
            address: self.address.clone(),
            error,
        })
    }
}
