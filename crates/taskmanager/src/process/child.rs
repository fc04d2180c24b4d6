//! The job process itself: what runs in the child.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use millstream_config::{ConfigErrors, Layer, Resolved, SecretError, TaskmanagerConfig};
use millstream_coordination::protocol::{FromTaskmanager, StartJobProcess, ToTaskmanager};
use millstream_env::{Env, Exit, FailPoints, Task, fail_points::FailPointError};
use millstream_rpc::{FrameIoError, MessageReader, MessageWriter};
use millstream_telemetry::{LogError, fields};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stdin, getppid};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tracing::{error, info};

use super::FAIL_POINTS_VARIABLE;
use super::bootstrap::{Bootstrap, FD_VARIABLE, PARENT_VARIABLE};
use super::running::SOCKET_MESSAGE_BYTES_MAX;
use crate::budget::Budget;
use crate::host::{COMMANDS_MAX, NetDataPlane, QueueUplink, Serving, serve};
use crate::storage::Stores;
use millstream_launch::{StorageAccess, start_child_log};

/// Exit code of a process whose taskmanager is gone.
const ORPHANED: i32 = 3;
/// Time for the taskmanager to read why this process ends, and to end it.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no job process.
#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error("{FD_VARIABLE} is {found:?}: it is set by a taskmanager, to 0, and by nobody else")]
    Variable { found: String },
    #[error("the taskmanager that started this process is gone")]
    Orphaned,
    #[error("the socket of the taskmanager cannot be used")]
    Socket(#[from] io::Error),
    #[error("the kernel does not do what a job process needs")]
    Kernel(#[from] nix::Error),
    #[error("the taskmanager's configuration is refused")]
    Config(#[from] ConfigErrors),
    #[error("a secret cannot be looked up")]
    Secret(#[from] SecretError),
    #[error("there is no log")]
    Log(#[from] LogError),
    #[error("{FAIL_POINTS_VARIABLE} is refused")]
    FailPoints(#[from] FailPointError),
    #[error("the taskmanager cannot be understood")]
    Message(#[from] FrameIoError),
    #[error("the taskmanager did not say first what is to run")]
    NoStart,
}

/// Whether this process was started as a job process.
pub fn asked_for() -> bool {
    std::env::var_os(FD_VARIABLE).is_some()
}

/// Runs a job process until its taskmanager ends it. For `main`, before anything else is done.
pub fn main() -> ExitCode {
    let outcome = prepare().and_then(|socket| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(run(socket))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("job process: {}", millstream_telemetry::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Binds its life to the taskmanager's, and takes the socket off standard input, where user code
/// would find it.
fn prepare() -> Result<StdUnixStream, ChildError> {
    let found = std::env::var(FD_VARIABLE).unwrap_or_default();
    if found != "0" {
        return Err(ChildError::Variable { found });
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have died before the kernel was asked: then somebody else is the parent by now.
    let parent = std::env::var(PARENT_VARIABLE).unwrap_or_default();
    if parent != getppid().to_string() {
        return Err(ChildError::Orphaned);
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(StdUnixStream::from(socket))
}

async fn run(socket: StdUnixStream) -> Result<(), ChildError> {
    let env = Env::real("job process");
    let fail_points = std::env::var(FAIL_POINTS_VARIABLE).unwrap_or_default();
    let env = env.with_fail_points(FailPoints::parse(&fail_points, env.exit())?);
    let _watchdog = watch_over(&env, socket.as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let (mut reader, writer) = UnixStream::from_std(socket)?.into_split();
    let bootstrap = Bootstrap::read(&mut reader).await?;
    let layer = Layer::file("the taskmanager's configuration", &bootstrap.config)?;
    let config = TaskmanagerConfig::new(&Resolved::new([layer]))?;
    let mut reader = MessageReader::new(reader, SOCKET_MESSAGE_BYTES_MAX);
    let Some(ToTaskmanager::StartJobProcess(start)) = reader.next().await? else {
        return Err(ChildError::NoStart);
    };
    let whose = vec![
        (fields::JOB_ID.to_owned(), json!(start.job.to_string())),
        (
            fields::TASKMANAGER_ID.to_owned(),
            json!(bootstrap.identity.taskmanager.to_string()),
        ),
        ("pid".to_owned(), json!(std::process::id())),
    ];
    start_child_log(&env, &config.log, whose)?;
    let serving = serving(&env, &config)?;
    let data = NetDataPlane::new(&env, &config, bootstrap.identity);
    work(&env, &serving, Arc::new(data), start, reader, writer).await;
    Ok(())
}

/// A thread of its own, that nothing here can hold up: the end of the socket ends the process.
fn watch_over(env: &Env, socket: OwnedFd) -> Task<()> {
    let exit: Exit = env.exit().clone();
    env.spawner().thread("watchdog", move || {
        loop {
            // Asking for nothing waits for the end of the other side alone.
            let mut ends = [PollFd::new(socket.as_fd(), PollFlags::empty())];
            match poll(&mut ends, PollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        let fd = socket.as_raw_fd();
        eprintln!("job process: the taskmanager is gone (end of descriptor {fd})");
        exit.now(ORPHANED);
    })
}

fn serving(env: &Env, config: &TaskmanagerConfig) -> Result<Serving, ChildError> {
    let access = StorageAccess::new(&config.storage.s3, env)?;
    let default = config.storage.checkpoints.clone();
    Ok(Serving {
        env: env.clone(),
        settings: Budget::new(env, config).job_process_settings(config),
        stores: Arc::new(Stores::new(env.clone(), default, access)),
    })
}

async fn work(
    env: &Env,
    serving: &Serving,
    data: Arc<NetDataPlane>,
    start: StartJobProcess,
    reader: MessageReader<OwnedReadHalf, ToTaskmanager>,
    writer: OwnedWriteHalf,
) {
    let (uplink, queue) = QueueUplink::new();
    let (commands, received) = mpsc::channel(COMMANDS_MAX);
    let spawner = env.spawner();
    let hearing = spawner.spawn("hear the taskmanager", hear(reader, commands));
    let saying = spawner.spawn(
        "tell the taskmanager",
        say(queue, writer, env.exit().clone()),
    );
    let end = serve(serving, data, start, received, uplink).await;
    drop(hearing);
    match end {
        Ok(()) => info!("job process ends: the taskmanager has no more to say"),
        Err(failure) => {
            error!(error = %failure, "job process cannot go on");
            // Whoever was told why kills this process.
            env.clock().sleep(LAST_WORDS_TIMEOUT).await;
        }
    }
    drop(saying);
}

async fn hear(
    mut reader: MessageReader<OwnedReadHalf, ToTaskmanager>,
    commands: mpsc::Sender<ToTaskmanager>,
) {
    loop {
        match reader.next().await {
            Ok(Some(message)) => {
                if commands.send(message).await.is_err() {
                    return;
                }
            }
            // The watchdog sees it too.
            Ok(None) => return,
            Err(error) => {
                let error = millstream_telemetry::chain(&error);
                error!(error, "the taskmanager says what cannot be read");
                return;
            }
        }
    }
}

async fn say(mut queue: mpsc::Receiver<FromTaskmanager>, writer: OwnedWriteHalf, exit: Exit) {
    let mut writer = MessageWriter::new(writer, SOCKET_MESSAGE_BYTES_MAX);
    while let Some(message) = queue.recv().await {
        if let Err(error) = writer.send(&message).await {
            // A report was lost: nobody knows any more what runs here.
            exit.fail_stop(&format!(
                "job process: {}",
                millstream_telemetry::chain(&error)
            ));
            return;
        }
    }
}
