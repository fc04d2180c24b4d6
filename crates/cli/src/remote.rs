//! Commands on a cluster: `run`, `list`, `status`, `cancel`.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use millstream_env::{Env, Signals};
use millstream_rpc::jobs::{CheckpointInfo, JobClient, JobEvent, JobInfo, JobSummary};
use millstream_rpc::{CallError, ConnectError, connect};
use millstream_telemetry::plain;
use millstream_types::{JobId, WallTime, errors};

use crate::args::{ClusterArgs, JobArgs, ListArgs, RunArgs};
use crate::error::CliError;
use crate::{job_file, output};

/// Time to reach the jobmanager.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an attached client waits for a jobmanager that went away.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(120);
/// Time between two attempts.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

async fn client(env: &Env, cluster: &ClusterArgs) -> Result<JobClient, CliError> {
    let connection = connect(env, &cluster.jobmanager, CONNECT_TIMEOUT).await;
    Ok(JobClient::new(&connection.map_err(unreachable)?))
}

fn unreachable(error: ConnectError) -> CliError {
    let (code, remedy) = (error.code(), error.remedy().to_owned());
    let what = millstream_telemetry::chain(&error);
    match error {
        // Nothing was tried.
        ConnectError::Address { .. } => CliError::Usage { code, what, remedy },
        ConnectError::Resolve { .. }
        | ConnectError::Refused { .. }
        | ConnectError::Timeout { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::WrongProtocol { .. } => CliError::Unreachable { code, what, remedy },
    }
}

fn of_call(error: CallError) -> CliError {
    let (code, what) = (error.code(), millstream_telemetry::chain(&error));
    match error {
        CallError::Refused { .. } | CallError::NotFound { .. } | CallError::Conflict { .. } => {
            CliError::Refused { code, what }
        }
        CallError::Unavailable { .. } | CallError::Lost { .. } => {
            let (what, remedy) = match what.split_once("\n  help: ") {
                Some((what, remedy)) => (what.to_owned(), remedy.to_owned()),
                None => (what, String::new()),
            };
            CliError::Unreachable { code, what, remedy }
        }
        CallError::Unknown { .. } | CallError::Server { .. } | CallError::Answer { .. } => {
            CliError::Failed {
                code,
                what,
                details: Vec::new(),
            }
        }
    }
}

fn say(out: &mut (dyn Write + Send), text: &str) -> Result<(), CliError> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| {
        CliError::failed(errors::OUTPUT, "the answer cannot be printed", &error, "")
    })
}

/// Submits a job and, unless detached, follows it to its end.
pub(crate) async fn run(
    env: &Env,
    args: &RunArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    // Checked here first: mistakes are shown with this file's name and lines.
    let file = job_file::read_for_cluster(env, &args.file)?;
    let client = client(env, &args.cluster).await?;
    let client_id = match &args.client_id {
        Some(id) => id.clone(),
        None => env.rng().uuid(),
    };
    let submitted = client
        .submit_file(&client_id, file.text, file.overrides)
        .await;
    let submitted = submitted.map_err(of_call)?;
    for warning in &submitted.warnings {
        eprintln!("warning: {warning}");
    }
    if args.detached {
        return say(out, &format!("{}\n", submitted.job));
    }
    eprintln!("job {}", submitted.job);
    follow(env, &args.cluster, client, submitted.job, out).await
}

/// Prints what happens to a job until it ends. A jobmanager that goes away is waited for.
async fn follow(
    env: &Env,
    cluster: &ClusterArgs,
    mut client: JobClient,
    job: JobId,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let signals = Signals::of_process(env.spawner(), env.exit());
    let mut signals = signals.map_err(|error| {
        CliError::failed(errors::PROCESS, "signals cannot be received", &error, "")
    })?;
    loop {
        let lost = tokio::select! {
            biased;
            end = watch(&client, job, out) => match end? {
                Some(end) => return output::result(&end),
                None => true,
            },
            _ = signals.next() => false,
        };
        if !lost {
            eprintln!("detached: job {job} goes on; end it with: millstream cancel {job}");
            return Ok(());
        }
        eprintln!("the jobmanager is away; the job goes on when it is back");
        client = reconnect(env, cluster).await?;
    }
}

/// `None` if the connection ended before the job did.
async fn watch(
    client: &JobClient,
    job: JobId,
    out: &mut (dyn Write + Send),
) -> Result<Option<millstream_rpc::jobs::JobEndInfo>, CliError> {
    let mut events = match client.watch(job).await {
        Ok(events) => events,
        Err(CallError::Lost { .. } | CallError::Unavailable { .. }) => return Ok(None),
        Err(error) => return Err(of_call(error)),
    };
    loop {
        match events.next().await {
            Ok(Some(JobEvent::Ended(end))) => return Ok(Some(end)),
            Ok(Some(event)) => output::print(&event, out)?,
            Ok(None) | Err(CallError::Lost { .. } | CallError::Unavailable { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(of_call(error)),
        }
    }
}

async fn reconnect(env: &Env, cluster: &ClusterArgs) -> Result<JobClient, CliError> {
    let begun = env.clock().monotonic();
    loop {
        env.clock().sleep(RECONNECT_PAUSE).await;
        match client(env, cluster).await {
            Ok(client) => return Ok(client),
            Err(error) => {
                let waited = env.clock().monotonic().saturating_since(begun);
                if waited > RECONNECT_PATIENCE {
                    return Err(error);
                }
            }
        }
    }
}

/// `start time : id : name (STATUS)`, the newest first.
pub(crate) async fn list(
    env: &Env,
    args: &ListArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let client = client(env, &args.cluster).await?;
    let jobs = client.list().await.map_err(of_call)?;
    let wanted = |job: &&JobSummary| args.all || job.ended_at.is_none();
    let mut text = String::new();
    for job in jobs.iter().filter(wanted) {
        let at = time(job.started_at);
        let name = plain(&job.name);
        let _ = writeln!(text, "{at} : {} : {name} ({})", job.id, job.status);
    }
    if text.is_empty() {
        eprintln!("no {}jobs", if args.all { "" } else { "running " });
    }
    say(out, &text)
}

fn time(at: WallTime) -> String {
    millstream_telemetry::rfc3339(at)
}

/// One screen about a job.
pub(crate) async fn status(
    env: &Env,
    args: &JobArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let client = client(env, &args.cluster).await?;
    let job = client.get(args.job).await.map_err(of_call)?;
    let checkpoints = client.checkpoints(args.job).await.map_err(of_call)?;
    let mut text = describe(&job);
    let is_completed = |checkpoint: &&CheckpointInfo| checkpoint.metadata.is_some();
    let latest = checkpoints.checkpoints.iter().rev().find(is_completed);
    let _ = writeln!(
        text,
        "checkpoints: {} completed, {} failed, {} refused, {} restores",
        checkpoints.completed, checkpoints.failed, checkpoints.refused, checkpoints.restored
    );
    if let Some(latest) = latest {
        let id = latest
            .id
            .map_or_else(|| "?".to_owned(), |id| id.to_string());
        let bytes = latest.state_bytes.unwrap_or(0);
        let duration = latest.duration.unwrap_or_default().as_millis();
        let at = time(latest.triggered_at);
        let _ = writeln!(
            text,
            "  latest: {id} of {at}, {bytes} bytes in {duration} ms"
        );
    }
    say(out, &text)
}

fn describe(job: &JobInfo) -> String {
    let summary = &job.summary;
    let name = plain(&summary.name);
    let mut text = format!("{} {name} ({})\n", summary.id, summary.status);
    let _ = writeln!(
        text,
        "since {}, restarts {}",
        time(summary.started_at),
        summary.restarts
    );
    if let Some(wait) = &job.slot_wait {
        let since = time(wait.since);
        let _ = writeln!(
            text,
            "waits for slots since {since}: {} needed, {} free",
            wait.needed, wait.free
        );
    }
    for vertex in &job.vertices {
        let sum = |of: fn(&millstream_rpc::jobs::SubtaskInfo) -> u64| -> u64 {
            vertex.subtasks.iter().map(of).sum()
        };
        let mut states = std::collections::BTreeMap::new();
        for subtask in &vertex.subtasks {
            *states.entry(subtask.state).or_insert(0u32) += 1;
        }
        let states: Vec<_> = states
            .iter()
            .map(|(state, n)| format!("{n} {state}"))
            .collect();
        let _ = writeln!(
            text,
            "  {}: {}, {} rows in, {} out",
            plain(&vertex.name),
            states.join(", "),
            sum(|subtask| subtask.records_in),
            sum(|subtask| subtask.records_out)
        );
        let bad = sum(|subtask| subtask.bad_records);
        if bad > 0 {
            let _ = writeln!(text, "    {bad} bad records left out or put aside");
        }
    }
    if let Some(failure) = job.failures.first() {
        let code = output::code_of(failure);
        let at = time(failure.failed_at);
        let _ = writeln!(text, "last failure [{code}], {at}:");
        for line in output::failure_lines(failure) {
            let _ = writeln!(text, "  {line}");
        }
    }
    if let Some(end) = &job.end {
        let _ = writeln!(text, "ended: {}", plain(&end.headline));
    }
    text
}

/// Ends a job and waits until that is durable. Ending an ended job is no error (F10).
pub(crate) async fn cancel(
    env: &Env,
    args: &JobArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let client = client(env, &args.cluster).await?;
    client.cancel(args.job).await.map_err(of_call)?;
    let job = client.get(args.job).await.map_err(of_call)?;
    say(out, &format!("{} {}\n", args.job, job.summary.status))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use millstream_coordination::job::JobStatus;
    use millstream_rpc::jobs::SlotWaitInfo;

    use super::*;

    #[test]
    fn a_job_that_waits_for_slots_says_so() {
        let job = JobInfo {
            summary: JobSummary {
                id: JobId::from_bytes([7; 16]),
                name: "words".to_owned(),
                status: JobStatus::Created,
                started_at: WallTime(1_700_000_000_000),
                ended_at: None,
                last_modified_at: WallTime(1_700_000_000_000),
                tasks: BTreeMap::new(),
                restarts: 0,
            },
            epoch: None,
            slot_wait: Some(SlotWaitInfo {
                needed: 4,
                free: 1,
                since: WallTime(1_700_000_040_000),
            }),
            vertices: Vec::new(),
            settings: Vec::new(),
            warnings: Vec::new(),
            failures: Vec::new(),
            end: None,
        };
        let waits = "waits for slots since 2023-11-14T22:14:00.000Z: 4 needed, 1 free\n";
        assert!(describe(&job).contains(waits), "{}", describe(&job));
    }
}
