//! A job process, as its taskmanager sees it: told, listened to, measured, reaped.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::{FromTaskmanager, ToTaskmanager};
use millstream_env::{Env, Task, resources};
use millstream_rpc::{MessageReader, MessageWriter};
use millstream_types::JobId;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::bootstrap::Bootstrap;
use super::exit_status;
use super::output::log_lines;
use super::starter::{Started, StarterError};
use crate::host::HostEvent;
use crate::leftovers;
use crate::supervisor::{ProcessEvent, ProcessId};

/// Largest message between taskmanager and job process: graphs and inlined state.
pub(super) const SOCKET_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Time between two looks at a process's memory.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time to read what a process said before it ended.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether there is a process to be killed. Kills never hit another process that got its id: they
/// and the reaping exclude each other.
#[derive(Default)]
pub(super) struct Life {
    state: Mutex<LifeState>,
    was_told: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LifeState {
    /// Not started yet.
    #[default]
    Unborn,
    /// To be killed as soon as it is started.
    Doomed,
    Alive(Pid),
    Reaped,
}

impl Life {
    /// Kills it because the supervisor wants it.
    pub(super) fn kill_as_told(&self) {
        self.was_told.store(true, Ordering::Relaxed);
        self.kill();
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        let mut state = self.state.lock();
        match *state {
            LifeState::Unborn => *state = LifeState::Doomed,
            LifeState::Alive(pid) => send_kill(pid),
            LifeState::Doomed | LifeState::Reaped => {}
        }
    }

    fn begin(&self, pid: Pid) {
        let mut state = self.state.lock();
        if *state == LifeState::Doomed {
            send_kill(pid);
        }
        *state = LifeState::Alive(pid);
    }

    /// Reaps a child that is known to have ended.
    fn reap(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        let mut state = self.state.lock();
        *state = LifeState::Reaped;
        child.wait()
    }
}

fn send_kill(pid: Pid) {
    if let Err(error) = kill(pid, Signal::SIGKILL) {
        warn!(%pid, %error, "job process cannot be killed");
    }
}

/// A child and whom it is told about.
pub(super) struct Running {
    pub(super) env: Env,
    pub(super) process: ProcessId,
    pub(super) job: JobId,
    pub(super) life: Arc<Life>,
    pub(super) events: mpsc::Sender<HostEvent>,
    pub(super) are_fail_points_armed: Arc<AtomicBool>,
    pub(super) state_dirs: Vec<PathBuf>,
}

impl Running {
    /// Follows it from its start to its end.
    pub(super) async fn watch(
        self,
        started: oneshot::Receiver<Result<Started, StarterError>>,
        bootstrap: Bootstrap,
        commands: mpsc::Receiver<ToTaskmanager>,
    ) {
        let started = started.await.unwrap_or(Err(StarterError::Gone));
        let failure = match started {
            Ok(started) => self.follow(started, bootstrap, commands).await,
            Err(error) => failure_of(&error),
        };
        self.tell(ProcessEvent::Ended(failure)).await;
        let swept = self.env.spawner().blocking("sweep local state", move || {
            leftovers::sweep(&self.state_dirs);
        });
        // A shutdown may come first; the next start sweeps too.
        let _ = swept.await;
    }

    async fn follow(
        &self,
        started: Started,
        bootstrap: Bootstrap,
        commands: mpsc::Receiver<ToTaskmanager>,
    ) -> FailureInfo {
        let Started { mut child, socket } = started;
        let pid = child.id();
        self.life.begin(Pid::from_raw(pid as i32));
        info!(job_id = %self.job, pid, "job process started");
        let spawner = self.env.spawner();
        let outputs = self.read_outputs(&mut child, pid);
        let listening = match split(socket) {
            Ok((reader, writer)) => {
                let listening = listen(reader, self.process, self.events.clone(), self.job);
                let telling = tell(
                    writer,
                    bootstrap,
                    commands,
                    Arc::clone(&self.life),
                    self.job,
                );
                let name = |what: &str| format!("{what} job process {pid}");
                Some((
                    spawner.spawn(name("listen to"), listening),
                    spawner.spawn(name("tell"), telling),
                ))
            }
            Err(error) => {
                warn!(job_id = %self.job, %error, "job process cannot be spoken to");
                self.life.kill();
                None
            }
        };
        let sampling = self.sample(pid);
        let status = tokio::select! {
            status = self.wait(child) => status,
            never = sampling => match never {},
        };
        self.note_end(status.as_ref().ok());
        if let Some((listening, telling)) = listening {
            // Nothing reads what is told any more; what it said last still counts.
            drop(telling);
            let _ = self
                .env
                .clock()
                .timeout(LAST_WORDS_TIMEOUT, listening)
                .await;
        }
        let _ = self
            .env
            .clock()
            .timeout(LAST_WORDS_TIMEOUT, futures::future::join_all(outputs))
            .await;
        match status {
            Ok(status) => exit_status::failure(pid, status),
            Err(error) => failure_of(&error),
        }
    }

    /// A fail point did its work once a process was killed that nobody here wanted dead.
    fn note_end(&self, status: Option<&ExitStatus>) {
        let was_killed = status.is_some_and(|status| status.signal().is_some());
        if was_killed && !self.life.was_told.load(Ordering::Relaxed) {
            self.are_fail_points_armed.store(false, Ordering::Relaxed);
        }
    }

    fn read_outputs(&self, child: &mut Child, pid: u32) -> Vec<Task<()>> {
        let spawner = self.env.spawner();
        let mut tasks = Vec::new();
        let out = child.stdout.take().map(ChildStdout::from_std);
        if let Some(Ok(out)) = out {
            tasks.push(spawner.spawn(format!("stdout of {pid}"), log_lines(out, self.job, pid)));
        }
        let err = child.stderr.take().map(ChildStderr::from_std);
        if let Some(Ok(err)) = err {
            tasks.push(spawner.spawn(format!("stderr of {pid}"), log_lines(err, self.job, pid)));
        }
        tasks
    }

    /// Waits for its end, then reaps it.
    async fn wait(&self, mut child: Child) -> std::io::Result<ExitStatus> {
        let life = Arc::clone(&self.life);
        let pid = Pid::from_raw(child.id() as i32);
        let waiting = self
            .env
            .spawner()
            .thread(format!("wait for {pid}"), move || {
                // Its id stays its own until it is reaped, which `Life` guards.
                let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
                while let Err(nix::errno::Errno::EINTR) = waitid(Id::Pid(pid), flags) {}
                life.reap(&mut child)
            });
        waiting
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }

    async fn sample(&self, pid: u32) -> Never {
        let mut interval = self.env.clock().interval(SAMPLE_INTERVAL);
        loop {
            interval.tick().await;
            if let Some(bytes) = resources::resident_bytes(self.env.fs().as_ref(), pid) {
                self.tell(ProcessEvent::Resident { bytes }).await;
            }
        }
    }

    async fn tell(&self, event: ProcessEvent) {
        let process = self.process;
        // A supervisor that is gone has no use for it.
        let _ = self.events.send(HostEvent { process, event }).await;
    }
}

enum Never {}

fn split(socket: StdUnixStream) -> std::io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(socket)?.into_split())
}

async fn listen(
    reader: OwnedReadHalf,
    process: ProcessId,
    events: mpsc::Sender<HostEvent>,
    job: JobId,
) {
    let mut reader = MessageReader::<_, FromTaskmanager>::new(reader, SOCKET_MESSAGE_BYTES_MAX);
    loop {
        match reader.next().await {
            Ok(Some(message)) => {
                let event = ProcessEvent::Said(message);
                if events.send(HostEvent { process, event }).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                let error = millstream_telemetry::chain(&error);
                warn!(job_id = %job, error, "job process says what cannot be read");
                return;
            }
        }
    }
}

/// Greets, then passes messages on. A child that cannot be told is of no use.
async fn tell(
    mut writer: OwnedWriteHalf,
    bootstrap: Bootstrap,
    mut commands: mpsc::Receiver<ToTaskmanager>,
    life: Arc<Life>,
    job: JobId,
) {
    let told = async {
        bootstrap.write(&mut writer).await?;
        let mut writer = MessageWriter::new(writer, SOCKET_MESSAGE_BYTES_MAX);
        while let Some(message) = commands.recv().await {
            writer.send(&message).await?;
        }
        Ok::<_, millstream_rpc::FrameIoError>(())
    };
    if let Err(error) = told.await {
        let error = millstream_telemetry::chain(&error);
        warn!(job_id = %job, error, "job process cannot be told and is killed");
        life.kill();
    }
}

fn failure_of(error: &(dyn std::error::Error + 'static)) -> FailureInfo {
    FailureInfo::new(FailureKind::JobProcess, millstream_telemetry::chain(error))
}
