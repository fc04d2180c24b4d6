//! The one thread that starts job processes.
//!
//! A child asks the kernel to be killed when its parent dies, and to the kernel the parent is the
//! thread that started it: so this thread lives as long as the taskmanager.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use millstream_env::{Env, Task};
use tokio::sync::oneshot;

use super::bootstrap::{FD_VARIABLE, PARENT_VARIABLE};
use super::{FAIL_POINTS_VARIABLE, ProcessSettings};

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// The operating system said no.
    #[error("job process cannot be started from {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The thread that starts them is gone.
    #[error("job processes cannot be started any more: the taskmanager ends")]
    Gone,
}

/// A child that runs, and our end of its socket.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) socket: UnixStream,
}

type Answer = oneshot::Sender<Result<Started, StarterError>>;

/// Hands commands to the thread.
pub(super) struct Starter {
    requests: mpsc::Sender<(Command, Answer)>,
    _thread: Task<()>,
}

impl Starter {
    pub(super) fn new(env: &Env) -> Result<Self, StarterError> {
        let (requests, received) = mpsc::channel::<(Command, Answer)>();
        let thread = env.spawner().thread("job process starter", move || {
            for (command, answer) in received {
                // A child whose owner went meanwhile sees the end of its socket.
                let _ = answer.send(start(command));
            }
        });
        Ok(Self {
            requests,
            _thread: thread,
        })
    }

    /// Starts a child. Never waits.
    pub(super) fn start(
        &self,
        settings: &ProcessSettings,
        fail_points: Option<&str>,
    ) -> oneshot::Receiver<Result<Started, StarterError>> {
        let mut command = Command::new(&settings.program);
        command
            .args(&settings.args)
            .env(FD_VARIABLE, "0")
            .env(PARENT_VARIABLE, std::process::id().to_string())
            .env_remove(FAIL_POINTS_VARIABLE)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(fail_points) = fail_points {
            command.env(FAIL_POINTS_VARIABLE, fail_points);
        }
        let (answer, started) = oneshot::channel();
        if let Err(mpsc::SendError((_, answer))) = self.requests.send((command, answer)) {
            let _ = answer.send(Err(StarterError::Gone));
        }
        started
    }
}

fn start(mut command: Command) -> Result<Started, StarterError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut started = || -> io::Result<Started> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok(Started { child, socket })
    };
    let started = started();
    // The command holds the child's end of the socket: it must go, or its end is never seen.
    drop(command);
    started.map_err(|source| StarterError::Start { program, source })
}
