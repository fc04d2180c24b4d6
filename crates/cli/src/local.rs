//! `millstream local`: a whole cluster in this process, for one job.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use millstream_config::{HeartbeatConfig, Resolved, StorageLocation};
use millstream_env::{Env, Signals};
use millstream_graph::Plan;
use millstream_jobmanager::gateway::{self, WireGraphs};
use millstream_jobmanager::{
    Jobmanager, JobmanagerSettings, Storage, StorageOpener, Submission, SubmitError,
};
use millstream_rpc::jobs::{JobEndInfo, JobEvent};
use millstream_snapshot::{OpenError, StorageConfig, Store};
use millstream_taskmanager::{EmbeddedSettings, EmbeddedTaskmanager, StorageAccess};
use millstream_types::{TaskmanagerId, errors};
use tokio::sync::mpsc;

use crate::args::LocalArgs;
use crate::error::CliError;
use crate::{job_file, output, plan};

/// Messages on the way between jobmanager and taskmanager: a few for each of the most tasks.
const MESSAGES_MAX: usize = 65_536;
/// Keyed state in RocksDB, for each slot.
const MANAGED_BYTES_PER_SLOT: usize = 256 << 20;
/// Encoded bytes on the way per channel.
const CHANNEL_WINDOW_BYTES: u64 = 256 * 1024;
/// Time for everything to end when the job has.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    env: &Env,
    args: &LocalArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let job = job_file::read(env, &args.file)?;
    for warning in &job.warnings {
        eprintln!("warning: {warning}");
    }
    let plan = Plan::new(&job.graph, plan::chaining(&job.graph));
    if let Some(what) = plan::too_many_tasks(&plan) {
        return Err(CliError::Usage {
            code: errors::SUBM_TOO_MANY_TASKS,
            what: format!("the job cannot run in one process: {what}"),
            remedy: String::new(),
        });
    }
    let dir = WorkDir::new(env, args.dir.as_deref())?;
    let store = open(env, &dir.path).await?;
    let jobmanager = start_jobmanager(env, &store).await?;
    // A job that began here before goes on by itself, and is found again under its client id.
    jobmanager.recovered().await;
    let taskmanager = start_taskmanager(env, &jobmanager, &store, &dir.path, plan.slots_needed());
    let submission = Submission {
        client_id: dir.client_id(),
        graph: job.graph,
    };
    let ended = match jobmanager.submit(submission).await {
        Err(SubmitError::ClientIdTaken { .. }) => Err(other_job(&dir.path)),
        Err(error) => Err(not_accepted(error)),
        Ok(submitted) => {
            for warning in &submitted.warnings {
                eprintln!("warning: {warning}");
            }
            follow(env, &jobmanager, submitted.job, out).await
        }
    };
    taskmanager.stop().await;
    jobmanager.shutdown(GRACE).await;
    dir.remove(env);
    match ended? {
        Some(end) => output::result(&end),
        None => Ok(()),
    }
}

fn not_accepted(error: SubmitError) -> CliError {
    let (code, remedy) = (error.code(), error.remedy());
    match error {
        SubmitError::Settings(errors) => CliError::Settings(errors),
        error if error.is_refusal() => CliError::Usage {
            code,
            what: millstream_telemetry::chain(&error),
            remedy,
        },
        error => CliError::failed(code, "the job was not accepted", &error, &remedy),
    }
}

fn other_job(dir: &Path) -> CliError {
    CliError::Usage {
        code: errors::SUBM_OTHER_JOB,
        what: format!(
            "{} holds a job of another job file, or of the same with other settings",
            dir.display()
        ),
        remedy: String::new(),
    }
}

/// Prints what the job prints until it ends. Ctrl-C cancels it.
async fn follow(
    env: &Env,
    jobmanager: &Jobmanager,
    job: millstream_types::JobId,
    out: &mut (dyn Write + Send),
) -> Result<Option<JobEndInfo>, CliError> {
    let watch = jobmanager.watch(job).await;
    let mut watch = watch.ok_or_else(|| CliError::Failed {
        code: errors::SUBM_UNKNOWN_JOB,
        what: format!("job {job} is not known"),
        details: Vec::new(),
    })?;
    let signals = Signals::of_process(env.spawner(), env.exit());
    let mut signals = signals.map_err(|error| {
        CliError::failed(errors::PROCESS, "signals cannot be received", &error, "")
    })?;
    let mut is_cancelled = false;
    loop {
        let event = tokio::select! {
            biased;
            event = watch.next() => event,
            _ = signals.next(), if !is_cancelled => {
                is_cancelled = true;
                eprintln!("cancelling the job; again to leave at once");
                cancel(env, jobmanager, job);
                continue;
            }
        };
        match event.map(gateway::event) {
            Some(JobEvent::Ended(end)) => return Ok(Some(end)),
            Some(event) => output::print(&event, out)?,
            None => return Ok(None),
        }
    }
}

fn cancel(env: &Env, jobmanager: &Jobmanager, job: millstream_types::JobId) {
    let jobmanager = jobmanager.clone();
    env.spawner().supervise("cancel", async move {
        if let Err(error) = jobmanager.cancel(job).await {
            let cause = millstream_telemetry::chain(&error);
            let what = format!("the job is not cancelled: {cause}");
            eprintln!("{}", error.code().render(&what, ""));
        }
    });
}

async fn open(env: &Env, dir: &Path) -> Result<Store, CliError> {
    let config = StorageConfig::at(dir.join("store").display().to_string());
    millstream_snapshot::open(&config, env)
        .await
        .map_err(|error| {
            let (code, remedy) = (error.code(), error.remedy());
            let what = "the working directory cannot be used";
            CliError::failed(code, what, &error, &remedy)
        })
}

async fn start_jobmanager(env: &Env, store: &Store) -> Result<Jobmanager, CliError> {
    let cluster = Resolved::new([]);
    let settings = JobmanagerSettings {
        cluster_id: "local".to_owned(),
        heartbeat: HeartbeatConfig {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
        },
        slot_request_timeout: Duration::from_secs(60),
        cluster,
        storage: Storage {
            jobs: store.clone(),
            // A directory of this run alone is no promise, but nobody has to be warned of it.
            is_durable: true,
            checkpoints: Some(store.clone()),
            opener: Arc::new(Opener { env: env.clone() }),
        },
        graphs: Arc::new(WireGraphs),
    };
    Jobmanager::start(env, settings).await.map_err(|error| {
        let (code, remedy) = (error.code(), error.remedy());
        CliError::failed(code, "the job cannot be started here", &error, &remedy)
    })
}

fn start_taskmanager(
    env: &Env,
    jobmanager: &Jobmanager,
    store: &Store,
    dir: &Path,
    slots: u32,
) -> EmbeddedTaskmanager {
    let settings = EmbeddedSettings {
        id: TaskmanagerId::new("local").expect("a plain word"),
        slots,
        state_dir: dir.join("state"),
        managed_bytes_per_slot: MANAGED_BYTES_PER_SLOT,
        channel_window_bytes: CHANNEL_WINDOW_BYTES,
        checkpoints: Some(store.clone()),
        storage: StorageAccess::default(),
    };
    let (env_of_pump, jobmanager) = (env.clone(), jobmanager.clone());
    EmbeddedTaskmanager::start(env, settings, move || {
        let (outgoing, from_jobmanager) = mpsc::channel(MESSAGES_MAX);
        let (to_jobmanager, mut messages) = mpsc::channel(MESSAGES_MAX);
        let mut session = jobmanager.connect_taskmanager(outgoing);
        env_of_pump
            .spawner()
            .supervise("local-session", async move {
                while let Some(message) = messages.recv().await {
                    if session.receive(message).await.is_err() {
                        break;
                    }
                }
                session.closed();
            });
        (to_jobmanager, from_jobmanager)
    })
}

/// Opens the directories that the job names.
struct Opener {
    env: Env,
}

#[async_trait]
impl StorageOpener for Opener {
    async fn open(&self, location: &StorageLocation) -> Result<Store, OpenError> {
        let config = StorageConfig::at(location.to_string());
        millstream_snapshot::open(&config, &self.env).await
    }
}

/// Where a local run keeps things.
struct WorkDir {
    path: PathBuf,
    is_temporary: bool,
}

impl WorkDir {
    fn new(env: &Env, given: Option<&Path>) -> Result<Self, CliError> {
        let (path, is_temporary) = match given {
            Some(path) => (
                std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
                false,
            ),
            None => {
                let name = format!("millstream-local-{:016x}", env.rng().nonce());
                (std::env::temp_dir().join(name), true)
            }
        };
        env.fs()
            .create_dir_all(&path)
            .map_err(|error| CliError::Usage {
                code: errors::WORK_DIR,
                what: format!("{} cannot be made: {}", path.display(), error.source),
                remedy: String::new(),
            })?;
        Ok(Self { path, is_temporary })
    }

    /// In a directory that stays, the same command resumes the same job.
    fn client_id(&self) -> Option<String> {
        (!self.is_temporary).then(|| "local".to_owned())
    }

    fn remove(&self, env: &Env) {
        if self.is_temporary
            && let Err(error) = env.fs().remove_tree(&self.path)
        {
            eprintln!("warning: {} is left behind: {error}", self.path.display());
        }
    }
}
