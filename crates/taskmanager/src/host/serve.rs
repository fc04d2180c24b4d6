//! The loop around the tasks of one job, wherever they run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::{
    DataAddress, FromTaskmanager, JobTasks, StartJobProcess, TaskAddress, TaskReport,
    TaskmanagerHeartbeat, ToTaskmanager,
};
use millstream_env::Env;
use millstream_runtime::{JobProcess, JobProcessSettings, Uplink};
use millstream_telemetry::catalog;
use millstream_types::SubtaskId;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::links::Links;
use super::watchdog::{Overdue, Watchdog};
use super::{OpenDataPlane, OpenStore, QueueUplink};
use crate::sight::sees_job;

/// Time between two reports of what tasks count and do.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at whether canceled tasks ended.
const IDLE_POLL: Duration = Duration::from_millis(20);

/// What the tasks of a job are given.
#[derive(Clone)]
pub struct Serving {
    /// Time, files, threads.
    pub env: Env,
    /// Memory and directories.
    pub settings: JobProcessSettings,
    /// Where checkpoints are.
    pub stores: Arc<dyn OpenStore>,
}

/// Runs the tasks of one job until `commands` end or a report was lost; then cancels what still runs
/// and returns when all of it ended. An error says why there is no process, or no further epoch in
/// it.
pub async fn serve(
    serving: &Serving,
    data: Arc<dyn OpenDataPlane>,
    start: StartJobProcess,
    mut commands: mpsc::Receiver<ToTaskmanager>,
    uplink: Arc<QueueUplink>,
) -> Result<(), FailureInfo> {
    let broken = uplink.broken();
    let links = Links::new(uplink);
    let mut process = open(serving, data.as_ref(), &start, &links).await?;
    let mut watchdog = Watchdog::new(&JobProcess::config(&start.graph)?);
    let mut reports = serving.env.clock().interval(REPORT_INTERVAL);
    loop {
        let due = serving.env.clock().sleep_until(watchdog.deadline());
        tokio::select! {
            biased;
            () = broken.cancelled() => break,
            command = commands.recv() => match command {
                None => break,
                Some(ToTaskmanager::StartJobProcess(start)) => {
                    // The supervisor saw every task of the old epoch end. Its port is free only
                    // when the old epoch's listener is gone.
                    drop(process);
                    process = open(serving, data.as_ref(), &start, &links).await?;
                    watchdog = Watchdog::new(&JobProcess::config(&start.graph)?);
                }
                Some(message) => {
                    let cancels = matches!(message, ToTaskmanager::Cancel { .. });
                    process.handle(message);
                    if cancels {
                        watch_over(&serving.env, &process, &mut watchdog);
                    }
                }
            },
            failed = links.broken() => {
                cancel_failed(&mut process, &links, failed);
                watch_over(&serving.env, &process, &mut watchdog);
            }
            () = due => watch_over(&serving.env, &process, &mut watchdog),
            _ = reports.tick() => report(&process, links.as_ref()),
        }
    }
    process.cancel_all();
    until_idle(&serving.env, &process, watchdog).await;
    if broken.is_cancelled() {
        let text = "the taskmanager does not take what the tasks of the job report";
        return Err(FailureInfo::new(FailureKind::JobProcess, text));
    }
    Ok(())
}

/// Makes ready for an epoch. Why that fails is said before it is returned: over a socket nobody
/// sees what is returned.
async fn open(
    serving: &Serving,
    data: &dyn OpenDataPlane,
    start: &StartJobProcess,
    links: &Arc<Links>,
) -> Result<JobProcess, FailureInfo> {
    let (job, epoch) = (start.job, start.epoch);
    match make_ready(serving, data, start, links).await {
        Ok((process, address)) => {
            info!(job_id = %job, leader_epoch = epoch.0, %address, "job process ready");
            links.send(FromTaskmanager::JobProcessStarted {
                job,
                epoch,
                address,
            });
            Ok(process)
        }
        Err(failure) => {
            links.send(FromTaskmanager::JobProcessFailed {
                job,
                epoch,
                failure: failure.clone(),
            });
            Err(failure)
        }
    }
}

async fn make_ready(
    serving: &Serving,
    data: &dyn OpenDataPlane,
    start: &StartJobProcess,
    links: &Arc<Links>,
) -> Result<(JobProcess, DataAddress), FailureInfo> {
    let config = JobProcess::config(&start.graph)?;
    let root = serving.stores.open(config.checkpoints.dir.as_ref()).await?;
    // The jobmanager looks for what tasks store in the job's own directory.
    let store = root.map(|root| root.job(start.job));
    if let Some(dir) = store.as_ref().filter(|_| config.checkpoints.dir.is_some()) {
        sees_job(dir).await?;
    }
    let data = data.open(start, links.begin(start.epoch)).await?;
    let process = JobProcess::new(
        serving.env.component(&format!("job {}", start.job)),
        serving.settings.clone(),
        start,
        store,
        Arc::clone(links) as Arc<dyn Uplink>,
        data.channels,
    )?;
    Ok((process, data.address))
}

/// Tasks without their channels cannot go on: they are told to stop, and their end is reported as
/// the failure it is.
fn cancel_failed(
    process: &mut JobProcess,
    links: &Links,
    mut failed: BTreeMap<SubtaskId, FailureInfo>,
) {
    let (job, epoch) = process.identity();
    let mut subtasks = Vec::new();
    for report in process.reports() {
        let task = report.task;
        let failure = failed.remove(&task.subtask);
        if let Some(failure) = failure.filter(|_| !task.state.is_terminal()) {
            let address = TaskAddress::from((task.subtask, task.attempt));
            links.expect_failure(address, failure);
            subtasks.push(address);
        }
    }
    process.handle(ToTaskmanager::Cancel {
        job,
        epoch,
        subtasks,
    });
}

fn report(process: &JobProcess, uplink: &dyn Uplink) {
    let tasks = process.reports();
    if tasks.is_empty() {
        return;
    }
    let (job, _) = process.identity();
    uplink.send(FromTaskmanager::Heartbeat(TaskmanagerHeartbeat {
        slots: Vec::new(),
        jobs: vec![JobTasks { job, tasks }],
    }));
    uplink.send(FromTaskmanager::Metrics(process.metrics()));
}

async fn until_idle(env: &Env, process: &JobProcess, mut watchdog: Watchdog) {
    watch_over(env, process, &mut watchdog);
    while !process.is_idle() {
        env.clock().sleep(IDLE_POLL).await;
        if watchdog.deadline() <= env.clock().monotonic() {
            watch_over(env, process, &mut watchdog);
        }
    }
}

/// A thread cannot be killed: what never ends takes the process with it (B9).
fn watch_over(env: &Env, process: &JobProcess, watchdog: &mut Watchdog) {
    let mut stopping = process.reports();
    stopping.retain(|report| report.task.state == ExecutionState::Canceling);
    let address = |report: &TaskReport| TaskAddress {
        subtask: report.task.subtask,
        attempt: report.task.attempt,
    };
    let overdue = watchdog.look(env.clock().monotonic(), stopping.iter().map(address));
    for overdue in overdue {
        match overdue {
            Overdue::Name { task, after } => {
                let report = stopping.iter().find(|report| address(report) == task);
                let activity = report.and_then(|report| report.activity.as_deref());
                warn_of(
                    process,
                    task,
                    after,
                    activity.unwrap_or("between two calls"),
                );
            }
            Overdue::GiveUp { after } => {
                let message = catalog::task_given_up(after.as_secs());
                error!(event_id = message.id, "{message}");
                return env.exit().fail_stop(message.as_str());
            }
        }
    }
}

fn warn_of(process: &JobProcess, task: TaskAddress, after: Duration, activity: &str) {
    let (job, _) = process.identity();
    let TaskAddress { subtask, attempt } = task;
    let Some(vertex) = process.plan().vertex(subtask.vertex) else {
        return;
    };
    let message = catalog::task_stuck(
        &vertex.name,
        subtask.index + 1,
        vertex.parallelism,
        attempt,
        after.as_secs(),
        activity,
    );
    warn!(
        event_id = message.id,
        job_id = %job,
        vertex_id = subtask.vertex.0,
        subtask_index = subtask.index,
        attempt = attempt.0,
        "{message}"
    );
}
