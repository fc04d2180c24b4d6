//! A server over a network in memory, with gateways that answer from a script.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_coordination::protocol::{CheckpointStorage, FromTaskmanager, ToTaskmanager};
use millstream_env::{Env, StopSignal, TestEnv};
use millstream_types::JobId;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::jobs::{
    CheckpointsInfo, GatewayError, JobEvent, JobGateway, JobInfo, JobSummary, SubmitFile,
    SubmitGraph, Submitted,
};
use crate::{ControlGateway, ControlSession, ControlSessionError, ServerLimits, serve_jobmanager};

pub(crate) const ADDRESS: &str = "127.0.0.1:6123";
pub(crate) const JOB: JobId = JobId::from_bytes([0xab; 16]);

/// Answers every question about [`JOB`] with what is set here.
#[derive(Default)]
pub(crate) struct FakeJobs {
    pub(crate) files: Mutex<Vec<SubmitFile>>,
    pub(crate) graphs: Mutex<Vec<SubmitGraph>>,
    pub(crate) cancelled: Mutex<Vec<JobId>>,
    pub(crate) error: Mutex<Option<GatewayError>>,
    pub(crate) info: Mutex<Option<JobInfo>>,
    pub(crate) checkpoints: Mutex<Option<CheckpointsInfo>>,
    pub(crate) events: Mutex<Vec<JobEvent>>,
}

impl FakeJobs {
    fn about<T>(&self, job: JobId, answer: Option<T>) -> Result<T, GatewayError> {
        let answer = answer.filter(|_| job == JOB);
        answer.ok_or(GatewayError::NotFound { job })
    }

    fn accept(&self) -> Result<Submitted, GatewayError> {
        match self.error.lock().clone() {
            Some(error) => Err(error),
            None => Ok(Submitted {
                job: JOB,
                warnings: vec!["uid missing".into()],
            }),
        }
    }
}

#[async_trait]
impl JobGateway for FakeJobs {
    async fn submit_file(&self, submission: SubmitFile) -> Result<Submitted, GatewayError> {
        self.files.lock().push(submission);
        self.accept()
    }

    async fn submit_graph(&self, submission: SubmitGraph) -> Result<Submitted, GatewayError> {
        self.graphs.lock().push(submission);
        self.accept()
    }

    async fn list(&self) -> Result<Vec<JobSummary>, GatewayError> {
        Ok(self
            .info
            .lock()
            .iter()
            .map(|info| info.summary.clone())
            .collect())
    }

    async fn get(&self, job: JobId) -> Result<JobInfo, GatewayError> {
        self.about(job, self.info.lock().clone())
    }

    async fn cancel(&self, job: JobId) -> Result<(), GatewayError> {
        self.cancelled.lock().push(job);
        self.about(job, Some(()))
    }

    async fn watch(&self, job: JobId) -> Result<BoxStream<'static, JobEvent>, GatewayError> {
        let events = self.about(job, Some(self.events.lock().clone()))?;
        Ok(futures::stream::iter(events).boxed())
    }

    async fn checkpoints(&self, job: JobId) -> Result<CheckpointsInfo, GatewayError> {
        self.about(job, self.checkpoints.lock().clone())
    }
}

/// Keeps what taskmanagers say, and the way to the newest of them.
#[derive(Default)]
pub(crate) struct FakeControl {
    pub(crate) received: Arc<Mutex<Vec<FromTaskmanager>>>,
    pub(crate) outgoing: Arc<Mutex<Option<mpsc::Sender<ToTaskmanager>>>>,
    pub(crate) storage: Mutex<Option<CheckpointStorage>>,
}

struct FakeSession {
    received: Arc<Mutex<Vec<FromTaskmanager>>>,
    outgoing: Arc<Mutex<Option<mpsc::Sender<ToTaskmanager>>>>,
}

impl ControlGateway for FakeControl {
    fn connect(&self, outgoing: mpsc::Sender<ToTaskmanager>) -> Box<dyn ControlSession> {
        *self.outgoing.lock() = Some(outgoing);
        let (received, outgoing) = (Arc::clone(&self.received), Arc::clone(&self.outgoing));
        Box::new(FakeSession { received, outgoing })
    }

    fn storage(&self) -> Option<CheckpointStorage> {
        self.storage.lock().clone()
    }
}

#[async_trait]
impl ControlSession for FakeSession {
    async fn receive(&mut self, message: FromTaskmanager) -> Result<(), ControlSessionError> {
        let is_last = message == FromTaskmanager::Leaving;
        self.received.lock().push(message);
        match is_last {
            true => Err(ControlSessionError {
                message: "left already".into(),
            }),
            false => Ok(()),
        }
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        *self.outgoing.lock() = None;
    }
}

/// A server of a jobmanager at [`ADDRESS`].
pub(crate) struct TestServer {
    pub(crate) test: TestEnv,
    pub(crate) jobs: Arc<FakeJobs>,
    pub(crate) control: Arc<FakeControl>,
    pub(crate) stop: StopSignal,
}

pub(crate) async fn server(limits: ServerLimits) -> TestServer {
    let test = Env::for_test(1);
    let (jobs, control) = (
        Arc::new(FakeJobs::default()),
        Arc::new(FakeControl::default()),
    );
    let listener = test
        .env
        .net()
        .listen(ADDRESS.parse().unwrap())
        .await
        .unwrap();
    let stop = StopSignal::new();
    let (env, stopped) = (test.env.clone(), stop.clone());
    let (served_jobs, served_control) = (Arc::clone(&jobs), Arc::clone(&control));
    test.env.spawner().supervise("server", async move {
        let serving =
            serve_jobmanager(&env, listener, limits, served_jobs, served_control, stopped);
        serving.await.unwrap();
    });
    TestServer {
        test,
        jobs,
        control,
        stop,
    }
}
