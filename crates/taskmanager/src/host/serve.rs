//! The loop around the tasks of one job, wherever they run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{
    DataAddress, FromTaskmanager, JobTasks, StartJobProcess, TaskAddress, TaskmanagerHeartbeat,
    ToTaskmanager,
};
use millstream_env::Env;
use millstream_runtime::{JobProcess, JobProcessSettings, Uplink};
use millstream_telemetry::catalog;
use millstream_types::SubtaskId;
use tokio::sync::mpsc;
use tracing::{error, info};

use super::links::Links;
use super::{OpenDataPlane, OpenStore, QueueUplink};
use crate::storage::sees_job;

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
    let mut fatal_after = JobProcess::config(&start.graph)?.cancellation_timeout;
    let mut reports = serving.env.clock().interval(REPORT_INTERVAL);
    loop {
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
                    fatal_after = JobProcess::config(&start.graph)?.cancellation_timeout;
                }
                Some(message) => process.handle(message),
            },
            failed = links.broken() => cancel_failed(&mut process, &links, failed),
            _ = reports.tick() => report(&process, links.as_ref()),
        }
    }
    process.cancel_all();
    until_idle(&serving.env, &process, fatal_after).await;
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

/// A thread cannot be killed: what never ends takes the process with it (B9).
async fn until_idle(env: &Env, process: &JobProcess, fatal_after: Option<Duration>) {
    let idle = async {
        while !process.is_idle() {
            env.clock().sleep(IDLE_POLL).await;
        }
    };
    match fatal_after {
        None => idle.await,
        Some(timeout) => {
            if env.clock().timeout(timeout, idle).await.is_err() {
                let message = catalog::task_given_up(timeout.as_secs());
                error!(event_id = message.id, "{message}");
                env.exit().fail_stop(message.as_str());
            }
        }
    }
}
