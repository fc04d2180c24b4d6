//! The `taskmanager` binary with real job processes, under a jobmanager that follows a script.

// Helpers of tests are tests.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../src/testing.rs"]
mod testing;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_coordination::failure::FailureInfo;
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    CheckpointStorage, FromTaskmanager, Registered, Registration, ToTaskmanager,
};
use millstream_env::{Env, StopSignal};
use millstream_rpc::jobs::{
    CheckpointsInfo, GatewayError, JobEvent, JobGateway, JobInfo, JobSummary, SubmitFile,
    SubmitGraph, Submitted,
};
use millstream_rpc::{
    ControlGateway, ControlSession, ControlSessionError, ServerLimits, serve_jobmanager,
};
use millstream_types::{Epoch, Incarnation, JobId, SlotIndex};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testing::{JOB, deploy, graph, start, state};
use tokio::sync::mpsc;

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

type Peer = (
    mpsc::Sender<ToTaskmanager>,
    mpsc::UnboundedReceiver<FromTaskmanager>,
);

/// Hands each connection to the test.
struct Script(mpsc::UnboundedSender<Peer>);

struct Session(mpsc::UnboundedSender<FromTaskmanager>);

impl ControlGateway for Script {
    fn connect(&self, outgoing: mpsc::Sender<ToTaskmanager>) -> Box<dyn ControlSession> {
        let (session, messages) = mpsc::unbounded_channel();
        // The test may have ended.
        let _ = self.0.send((outgoing, messages));
        Box::new(Session(session))
    }

    fn storage(&self) -> Option<CheckpointStorage> {
        None
    }
}

#[async_trait]
impl ControlSession for Session {
    async fn receive(&mut self, message: FromTaskmanager) -> Result<(), ControlSessionError> {
        let message = self.0.send(message);
        message.map_err(|_| ControlSessionError {
            message: "the test has ended".to_owned(),
        })
    }
}

/// There are no clients.
struct NoJobs;

fn none<T>(job: JobId) -> Result<T, GatewayError> {
    Err(GatewayError::NotFound { job })
}

#[async_trait]
impl JobGateway for NoJobs {
    async fn submit_file(&self, _: SubmitFile) -> Result<Submitted, GatewayError> {
        none(JOB)
    }
    async fn submit_graph(&self, _: SubmitGraph) -> Result<Submitted, GatewayError> {
        none(JOB)
    }
    async fn list(&self) -> Result<Vec<JobSummary>, GatewayError> {
        Ok(Vec::new())
    }
    async fn get(&self, job: JobId) -> Result<JobInfo, GatewayError> {
        none(job)
    }
    async fn cancel(&self, job: JobId) -> Result<(), GatewayError> {
        none(job)
    }
    async fn watch(&self, job: JobId) -> Result<BoxStream<'static, JobEvent>, GatewayError> {
        none(job)
    }
    async fn checkpoints(&self, job: JobId) -> Result<CheckpointsInfo, GatewayError> {
        none(job)
    }
}

/// A taskmanager that registered, and our end of its control stream.
struct Cluster {
    env: Env,
    taskmanager: Child,
    registration: Registration,
    to: mpsc::Sender<ToTaskmanager>,
    from: mpsc::UnboundedReceiver<FromTaskmanager>,
    _dir: tempfile::TempDir,
}

impl Cluster {
    async fn new() -> Self {
        let env = Env::real("jobmanager");
        let listener = env
            .net()
            .listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let port = listener.local_addr().port();
        let (peers, mut found) = mpsc::unbounded_channel();
        let serving = env.clone();
        env.spawner().supervise("server", async move {
            let control = Arc::new(Script(peers));
            let limits = ServerLimits::default();
            let served = serve_jobmanager(
                &serving,
                listener,
                limits,
                Arc::new(NoJobs),
                control,
                StopSignal::new(),
            );
            served.await.unwrap();
        });
        let dir = tempfile::tempdir().unwrap();
        let taskmanager = launch(port, dir.path());
        let (to, mut from) = within(&env, "connection", found.recv()).await.unwrap();
        let first = within(&env, "registration", from.recv()).await.unwrap();
        let FromTaskmanager::Register(registration) = first else {
            panic!("{first:?} came before the registration");
        };
        let registered = Registered {
            jobmanager: Incarnation(1),
            heartbeat_interval: Duration::from_secs(2),
            heartbeat_timeout: Duration::from_secs(20),
        };
        to.send(ToTaskmanager::Registered(registered))
            .await
            .unwrap();
        Self {
            env,
            taskmanager,
            registration,
            to,
            from,
            _dir: dir,
        }
    }

    /// With a job whose one endless task runs in a child of this process id.
    async fn running() -> (Self, Pid) {
        let mut cluster = Self::new().await;
        cluster.tell(start(1, &graph(None, 1))).await;
        cluster
            .until_said("start", |message| match message {
                FromTaskmanager::JobProcessStarted { address, .. } => Some(address.port),
                _ => None,
            })
            .await;
        cluster.tell(deploy(1, 0)).await;
        cluster.until_state(ExecutionState::Running).await;
        let children = children_of(cluster.taskmanager.id());
        assert_eq!(children.len(), 1, "{children:?}");
        (cluster, children[0])
    }

    async fn tell(&self, message: ToTaskmanager) {
        self.to.send(message).await.unwrap();
    }

    /// Reads until `find` finds something.
    async fn until_said<T>(
        &mut self,
        what: &str,
        find: impl Fn(&FromTaskmanager) -> Option<T>,
    ) -> T {
        let reading = async {
            loop {
                let message = self.from.recv().await.expect("the control stream is open");
                if let Some(found) = find(&message) {
                    return found;
                }
            }
        };
        within(&self.env, what, reading).await
    }

    async fn until_state(&mut self, wanted: ExecutionState) {
        let wanted = state(1, 0, wanted);
        self.until_said("state", |message| (*message == wanted).then_some(()))
            .await;
    }

    async fn until_process_failed(&mut self) -> FailureInfo {
        self.until_said("failure of the job process", |message| match message {
            FromTaskmanager::JobProcessFailed { failure, .. } => Some(failure.clone()),
            _ => None,
        })
        .await
    }

    async fn until_gone(&self, pid: Pid) {
        let gone = async {
            while is_alive(pid) {
                self.env.clock().sleep(Duration::from_millis(20)).await;
            }
        };
        within(&self.env, "end of the child", gone).await;
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let ended = async {
            loop {
                if let Some(status) = self.taskmanager.try_wait().unwrap() {
                    return status.code();
                }
                self.env.clock().sleep(Duration::from_millis(20)).await;
            }
        };
        within(&self.env, "end of the taskmanager", ended).await
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.taskmanager.id() as i32)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.taskmanager.kill();
        let _ = self.taskmanager.wait();
    }
}

fn launch(port: u16, dir: &Path) -> Child {
    let settings = [
        format!("jobmanager.rpc.port={port}"),
        "taskmanager.numberOfTaskSlots=2".to_owned(),
        format!("state.backend.rocksdb.localdir={}", dir.display()),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskmanager"));
    for setting in settings {
        command.arg("-D").arg(setting);
    }
    command.stdin(Stdio::null()).spawn().unwrap()
}

async fn within<F: Future>(env: &Env, what: &str, future: F) -> F::Output {
    let waited = env.clock().timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("no {what} within {PATIENCE:?}"))
}

/// State and parent of a process; none if there is none.
fn stat(pid: i32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_alive(pid: Pid) -> bool {
    stat(pid.as_raw()).is_some_and(|(state, _)| state != 'Z')
}

fn children_of(parent: u32) -> Vec<Pid> {
    let pids = std::fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| stat(*pid).is_some_and(|(_, found)| found == parent);
    pids.filter(is_child).map(Pid::from_raw).collect()
}

// A listener at a loopback address is advertised there: nobody else could reach it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_registers_with_an_address_that_others_reach_and_ends_when_told() {
    let (mut cluster, child) = Cluster::running().await;
    assert_eq!(cluster.registration.advertised_host, "127.0.0.1");
    assert_eq!(cluster.registration.slots, 2);
    kill(cluster.pid(), Signal::SIGTERM).unwrap();
    let leaves = |m: &FromTaskmanager| (*m == FromTaskmanager::Leaving).then_some(());
    cluster.until_said("farewell", leaves).await;
    cluster.until_state(ExecutionState::Canceled).await;
    assert_eq!(cluster.exit_code().await, Some(0));
    cluster.until_gone(child).await;
}

// DESIGN 12: a killed taskmanager's job processes die with it, whatever they do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_outlives_a_killed_taskmanager() {
    let (cluster, child) = Cluster::running().await;
    kill(cluster.pid(), Signal::SIGKILL).unwrap();
    cluster.until_gone(child).await;
    let (cluster, child) = Cluster::running().await;
    kill(child, Signal::SIGSTOP).unwrap();
    kill(cluster.pid(), Signal::SIGKILL).unwrap();
    cluster.until_gone(child).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_child_is_a_failure_of_its_job_and_the_next_epoch_runs_in_another() {
    let (mut cluster, child) = Cluster::running().await;
    kill(child, Signal::SIGKILL).unwrap();
    let failure = cluster.until_process_failed().await;
    let expected = format!("job process (pid {child}) was killed by signal 9 (SIGKILL)");
    assert_eq!(failure.message, expected);
    cluster.tell(start(2, &graph(None, 1))).await;
    cluster.tell(deploy(2, 0)).await;
    let running = state(2, 0, ExecutionState::Running);
    cluster
        .until_said("second run", |m| (*m == running).then_some(()))
        .await;
    assert_ne!(children_of(cluster.taskmanager.id()), [child]);
}

// Proves F125: what does not stop is killed alone, and its slot is free when it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_child_is_killed_when_its_slots_are_given_up() {
    let (mut cluster, child) = Cluster::running().await;
    kill(child, Signal::SIGSTOP).unwrap();
    cluster
        .tell(ToTaskmanager::Abandon {
            job: JOB,
            epoch: Epoch(1),
            slots: vec![SlotIndex(0)],
        })
        .await;
    let freed = FromTaskmanager::SlotFreed { slot: SlotIndex(0) };
    cluster
        .until_said("free slot", |m| (*m == freed).then_some(()))
        .await;
    assert!(!is_alive(child));
    assert!(is_alive(cluster.pid()));
}

#[test]
fn a_configuration_that_is_refused_says_why_and_ends_with_code_two() {
    let output = Command::new(env!("CARGO_BIN_EXE_taskmanager"))
        .args(["-D", "taskmanager.numberOfTaskSlot=4"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("taskmanager.numberOfTaskSlots"), "{text}");
}

#[test]
fn the_effective_configuration_is_printed_with_origins() {
    let output = Command::new(env!("CARGO_BIN_EXE_taskmanager"))
        .args(["-D", "taskmanager.numberOfTaskSlots=4", "--print-config"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text
        .lines()
        .find(|line| line.starts_with("taskmanager.numberOfTaskSlots"));
    assert!(
        row.is_some_and(|row| row.contains(": 4") && row.contains("flag")),
        "{text}"
    );
}

#[test]
fn a_job_process_that_no_taskmanager_started_refuses_to_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_taskmanager"))
        .env("MILLSTREAM_JOB_PROCESS_FD", "0")
        .env("MILLSTREAM_JOB_PROCESS_PARENT", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("the taskmanager that started this process is gone"),
        "{text}"
    );
}
