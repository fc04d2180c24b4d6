//! Tasks in threads of the taskmanager: embedded mode, the simulator, `isolation: thread`.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{FromTaskmanager, StartJobProcess, ToTaskmanager};
use tokio::sync::mpsc;
use tracing::warn;

use super::{HostEvent, HostIdentity, JobHost, OpenDataPlane, QueueUplink, Serving, serve};
use crate::supervisor::{ProcessEvent, ProcessId};

/// Messages that may wait for a job process. A deployment of the largest job is 10,000 tasks.
pub(crate) const COMMANDS_MAX: usize = 65_536;

/// The way to other processes of whoever a process belongs to.
type DataPlaneOf = Box<dyn Fn(&HostIdentity) -> Arc<dyn OpenDataPlane> + Send>;

/// Runs "job processes" as tasks of this process.
pub struct ThreadHost {
    serving: Serving,
    data: DataPlaneOf,
    events: mpsc::Sender<HostEvent>,
    running: BTreeMap<ProcessId, mpsc::Sender<ToTaskmanager>>,
}

impl ThreadHost {
    /// Without processes. What happens to them goes to `events`.
    /// `data` is the way of each to other processes.
    pub fn new(
        serving: Serving,
        data: impl Fn(&HostIdentity) -> Arc<dyn OpenDataPlane> + Send + 'static,
        events: mpsc::Sender<HostEvent>,
    ) -> Self {
        Self {
            serving,
            data: Box::new(data),
            events,
            running: BTreeMap::new(),
        }
    }
}

impl JobHost for ThreadHost {
    fn start(&mut self, process: ProcessId, identity: &HostIdentity, start: StartJobProcess) {
        self.running.retain(|_, commands| !commands.is_closed());
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        self.running.insert(process, commands);
        let served = Served {
            process,
            serving: self.serving.clone(),
            data: (self.data)(identity),
            events: self.events.clone(),
        };
        let spawner = self.serving.env.spawner().clone();
        spawner.supervise(format!("job process {process}"), async move {
            served.run(start, receiver).await;
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

/// One process of a [`ThreadHost`].
struct Served {
    process: ProcessId,
    serving: Serving,
    data: Arc<dyn OpenDataPlane>,
    events: mpsc::Sender<HostEvent>,
}

impl Served {
    async fn run(self, start: StartJobProcess, commands: mpsc::Receiver<ToTaskmanager>) {
        let (process, events) = (self.process, self.events);
        let (uplink, queue) = QueueUplink::new();
        let end = {
            let served = serve(&self.serving, self.data, start, commands, uplink);
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
}

enum Never {}

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
