//! Tasks in threads of the taskmanager: embedded mode, the simulator, `isolation: thread`.

use std::collections::BTreeMap;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{FromTaskmanager, StartJobProcess, ToTaskmanager};
use tokio::sync::mpsc;
use tracing::warn;

use super::{HostEvent, HostIdentity, JobHost, QueueUplink, Serving, serve};
use crate::supervisor::{ProcessEvent, ProcessId};

/// Messages that may wait for a job process. A deployment of the largest job is 10,000 tasks.
pub(crate) const COMMANDS_MAX: usize = 65_536;

/// Runs "job processes" as tasks of this process.
pub struct ThreadHost {
    serving: Serving,
    events: mpsc::Sender<HostEvent>,
    running: BTreeMap<ProcessId, mpsc::Sender<ToTaskmanager>>,
}

impl ThreadHost {
    /// Without processes. What happens to them goes to `events`.
    pub fn new(serving: Serving, events: mpsc::Sender<HostEvent>) -> Self {
        Self {
            serving,
            events,
            running: BTreeMap::new(),
        }
    }
}

impl JobHost for ThreadHost {
    fn start(&mut self, process: ProcessId, _identity: &HostIdentity, start: StartJobProcess) {
        self.running.retain(|_, commands| !commands.is_closed());
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        self.running.insert(process, commands);
        let (serving, events) = (self.serving.clone(), self.events.clone());
        let spawner = self.serving.env.spawner().clone();
        spawner.supervise(format!("job process {process}"), async move {
            run(process, serving, start, receiver, events).await;
        });
    }

    fn tell(&mut self, process: ProcessId, message: ToTaskmanager) {
        let Some(commands) = self.running.get(&process) else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = commands.try_send(message) {
            // It would miss a message: better it ends, and its job restarts.
            warn!(%process, "job process does not read what it is told and is ended");
            self.running.remove(&process);
        }
    }

    fn kill(&mut self, process: ProcessId) {
        self.running.remove(&process);
    }
}

async fn run(
    process: ProcessId,
    serving: Serving,
    start: StartJobProcess,
    commands: mpsc::Receiver<ToTaskmanager>,
    events: mpsc::Sender<HostEvent>,
) {
    let (uplink, queue) = QueueUplink::new();
    let end = {
        let served = serve(&serving, start, commands, uplink);
        let forwarded = forward(process, queue, &events);
        tokio::select! {
            end = served => end,
            never = forwarded => match never {},
        }
    };
    let failure = end.err().unwrap_or_else(|| {
        FailureInfo::new(FailureKind::JobProcess, "the tasks of the job were ended")
    });
    let event = ProcessEvent::Ended(failure);
    // A supervisor that is gone has no use for it.
    let _ = events.send(HostEvent { process, event }).await;
}

pub(crate) enum Never {}

/// Takes what tasks report to the supervisor, for ever.
async fn forward(
    process: ProcessId,
    mut queue: mpsc::Receiver<FromTaskmanager>,
    events: &mpsc::Sender<HostEvent>,
) -> Never {
    while let Some(message) = queue.recv().await {
        let event = ProcessEvent::Said(message);
        if events.send(HostEvent { process, event }).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}
