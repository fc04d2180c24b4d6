//! Watching over one task: its states reported, its panic caught, its slowness to stop logged.

use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::ExecutionState;
use millstream_coordination::protocol::FromTaskmanager;
use millstream_env::{Env, StopSignal};
use millstream_telemetry::catalog;
use parking_lot::Mutex;
use tracing::{Instrument, info_span, warn};

use super::{RemoteChannels, metrics};
use crate::activity::Activity;
use crate::failure;
use crate::snapshot::SnapshotTarget;
use crate::task::{TaskEnd, TaskSetup, run};

/// What a supervisor has to know besides the task itself.
pub(super) struct Supervised {
    pub(super) vertex_name: String,
    pub(super) parallelism: u32,
    pub(super) state: Arc<Mutex<ExecutionState>>,
    pub(super) cancellation_interval: Duration,
    pub(super) remote: Option<Arc<dyn RemoteChannels>>,
}

/// Starts the task on a thread of its own and reports what becomes of it.
pub(super) fn supervise(supervised: Supervised, setup: TaskSetup) {
    let (env, target) = (setup.target.env.clone(), setup.target.clone());
    let (stop, activity) = (setup.stop.clone(), setup.activity.clone());
    let counters = Arc::clone(&setup.counters);
    let name = setup.name.clone();
    report(
        &target,
        &supervised.state,
        ExecutionState::Initializing,
        None,
    );
    let running = {
        let (target, state) = (target.clone(), Arc::clone(&supervised.state));
        move || report(&target, &state, ExecutionState::Running, None)
    };
    let host_name = name.clone();
    let host = env
        .spawner()
        .host(format!("Task {name}"), move || async move {
            let span = info_span!("task", thread_name = %format!("Task {host_name}"));
            // Not entered for good: other tasks may run on this thread too.
            run(setup, running).instrument(span).await
        });
    let spawner = env.spawner().clone();
    spawner.supervise(format!("supervise {name}"), async move {
        let end = {
            let watched = watch_cancellation(&env, &supervised, &target, &stop, &activity);
            tokio::select! {
                biased;
                end = host => end.unwrap_or_else(|error| {
                    TaskEnd::Failed(failure::of_error(FailureKind::User, &error))
                }),
                never = watched => match never {},
            }
        };
        if let Some(remote) = &supervised.remote {
            remote.close(target.task.subtask);
        }
        let (state, failure) = match end {
            TaskEnd::Finished => (ExecutionState::Finished, None),
            TaskEnd::Canceled => (ExecutionState::Canceled, None),
            TaskEnd::Failed(failure) => (ExecutionState::Failed, Some(failure)),
        };
        // The last counts come in front of the end, so that they stay (HND-075).
        let counted = metrics(target.job, target.epoch, target.task, &counters);
        target.uplink.send(FromTaskmanager::Metrics(vec![counted]));
        report(&target, &supervised.state, state, failure);
    });
}

fn report(
    target: &SnapshotTarget,
    current: &Mutex<ExecutionState>,
    state: ExecutionState,
    failure: Option<FailureInfo>,
) {
    let mut current = current.lock();
    if *current == ExecutionState::Canceling && !state.is_terminal() {
        return;
    }
    *current = state;
    drop(current);
    target.uplink.send(FromTaskmanager::SubtaskState {
        job: target.job,
        epoch: target.epoch,
        subtask: target.task.subtask,
        attempt: target.task.attempt,
        state,
        failure,
    });
}

enum Never {}

/// Once cancelled, says again and again where the task is stuck, as long as it is (B9).
async fn watch_cancellation(
    env: &Env,
    supervised: &Supervised,
    target: &SnapshotTarget,
    stop: &StopSignal,
    activity: &Activity,
) -> Never {
    stop.cancelled().await;
    let mut waited = Duration::ZERO;
    loop {
        env.clock().sleep(supervised.cancellation_interval).await;
        waited += supervised.cancellation_interval;
        let place = match activity.report() {
            Some(report) => format!(
                "{} of operator {} (for {} s)",
                report.function,
                report.operator,
                report.elapsed.as_secs()
            ),
            None => "no operator: the task's own loop".to_owned(),
        };
        let task = target.task;
        let message = catalog::task_stuck(
            &supervised.vertex_name,
            task.subtask.index + 1,
            supervised.parallelism,
            task.attempt,
            waited.as_secs(),
            place,
        );
        warn!(event_id = message.id, "{message}");
    }
}
