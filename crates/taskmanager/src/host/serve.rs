//! The loop around the tasks of one job, wherever they run.

use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{
    FromTaskmanager, JobTasks, StartJobProcess, TaskmanagerHeartbeat, ToTaskmanager,
};
use millstream_env::Env;
use millstream_runtime::{JobProcess, JobProcessSettings, Uplink};
use millstream_telemetry::catalog;
use tokio::sync::mpsc;
use tracing::{error, info};

use super::{DataPlane, OpenStore, QueueUplink};

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
    /// The way to other processes.
    pub data: Arc<dyn DataPlane>,
}

/// Runs the tasks of one job until `commands` end or a report was lost; then cancels what still runs
/// and returns when all of it ended. An error says why there is no process, or no further epoch in
/// it.
pub async fn serve(
    serving: &Serving,
    start: StartJobProcess,
    mut commands: mpsc::Receiver<ToTaskmanager>,
    uplink: Arc<QueueUplink>,
) -> Result<(), FailureInfo> {
    let broken = uplink.broken();
    let uplink: Arc<dyn Uplink> = uplink;
    let mut process = open(serving, &start, &uplink).await?;
    let mut fatal_after = JobProcess::config(&start.graph)?.cancellation_timeout;
    let mut reports = serving.env.clock().interval(REPORT_INTERVAL);
    loop {
        tokio::select! {
            biased;
            () = broken.cancelled() => break,
            command = commands.recv() => match command {
                None => break,
                Some(ToTaskmanager::StartJobProcess(start)) => {
                    // The supervisor saw every task of the old epoch end.
                    process = open(serving, &start, &uplink).await?;
                    fatal_after = JobProcess::config(&start.graph)?.cancellation_timeout;
                }
                Some(message) => process.handle(message),
            },
            _ = reports.tick() => report(&process, uplink.as_ref()),
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

async fn open(
    serving: &Serving,
    start: &StartJobProcess,
    uplink: &Arc<dyn Uplink>,
) -> Result<JobProcess, FailureInfo> {
    let config = JobProcess::config(&start.graph)?;
    let store = serving.stores.open(config.checkpoints.dir.as_ref()).await?;
    let process = JobProcess::new(
        serving.env.component(&format!("job {}", start.job)),
        serving.settings.clone(),
        start,
        store,
        Arc::clone(uplink),
        serving.data.channels(start),
    )?;
    let (job, epoch, address) = (start.job, start.epoch, serving.data.address());
    info!(job_id = %job, leader_epoch = epoch.0, %address, "job process ready");
    uplink.send(FromTaskmanager::JobProcessStarted { job, epoch, address });
    Ok(process)
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
