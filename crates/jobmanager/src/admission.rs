//! Whether a job can run at all, and what follows from its graph and settings.
//!
//! Everything that can be known before anything runs is said here, to the client.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_config::{
    JobConfig, Layer, Origin, Resolved, RestartPolicy, Retention, StorageLocation,
};
use millstream_coordination::checkpoint::CheckpointPolicy;
use millstream_coordination::job::JobConfig as JobMachineConfig;
use millstream_coordination::restart::RestartStrategyConfig;
use millstream_coordination::topology::Topology;
use millstream_graph::{JobGraph, OperatorKind, Setting};
use millstream_types::rounded;

use crate::details::EffectiveSetting;
use crate::error::SubmitError;

const TOLERABLE: &str = "checkpointing.tolerable-failed-checkpoints";
const DIR: &str = "checkpointing.dir";

/// A job that can run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The graph as tasks get it: with the settings that the cluster adds.
    pub graph: Arc<JobGraph>,
    /// Its vertices and channels.
    pub plan: Arc<millstream_graph::Plan>,
    /// The same, as far as decisions go.
    pub topology: Topology,
    /// Its checked settings.
    pub config: JobConfig,
    /// As the checkpoint coordinator takes them.
    pub checkpoints: CheckpointPolicy,
    /// As the machine of the job takes them.
    pub machine: JobMachineConfig,
    /// The directory that the job itself names for its checkpoints.
    pub own_dir: Option<StorageLocation>,
    /// Which checkpoints stay when it ends.
    pub retention: Retention,
    /// The effective settings of job scope.
    pub settings: Vec<EffectiveSetting>,
    /// What is worth saying, one line each.
    pub warnings: Vec<String>,
}

/// Plans a job under these cluster settings, or says why it cannot run. `has_default_dir` says
/// that checkpoints have a place to go where the job names none.
pub fn plan_job(
    cluster: &Resolved,
    graph: &JobGraph,
    has_default_dir: bool,
) -> Result<Plan, SubmitError> {
    graph.validate()?;
    let given = graph
        .settings
        .iter()
        .map(|s| (s.key.as_str(), s.value.as_str(), s.origin.as_str()));
    let resolved = Resolved::for_job(cluster, [Layer::stored(given)?]);
    let mut found = resolved.warnings().to_vec();
    let config = JobConfig::new(&resolved, &mut found)?;
    let mut warnings: Vec<String> = found.iter().map(ToString::to_string).collect();

    let own_dir = own_dir(&resolved, &config);
    let is_checkpointing = config.checkpoints.interval.is_some();
    if is_checkpointing && own_dir.is_none() && !has_default_dir {
        config.checkpoints.required_dir()?;
    }
    check_operators(graph, &config, &mut warnings)?;
    let checkpoints = checkpoint_policy(&config);
    let of_cluster = RestartPolicy::new(&Resolved::for_job(cluster, []))?;
    let strategy = strategy(config.restart.clone().or(of_cluster, is_checkpointing));
    if is_checkpointing {
        let is_default = resolved
            .row(TOLERABLE)
            .is_some_and(|row| row.origin == Origin::Default);
        if is_default {
            warnings.push(format!(
                "{TOLERABLE} is unset, its default is 0: the first failed checkpoint fails the job"
            ));
        }
        warnings.extend(endless_restarts(&checkpoints, &strategy));
    }

    let plan = millstream_graph::Plan::new(graph, config.chaining);
    let topology = Topology::of_plan(graph, &plan)?;
    let mut machine = JobMachineConfig::new(strategy);
    machine.cancellation_interval = config.cancellation_interval;
    Ok(Plan {
        graph: Arc::new(with_settings(graph, cluster)),
        plan: Arc::new(plan),
        topology,
        checkpoints,
        machine,
        own_dir,
        retention: config.checkpoints.retention,
        settings: effective(&resolved),
        config,
        warnings,
    })
}

/// A directory that the cluster sets is opened once, by whoever started the jobmanager.
fn own_dir(resolved: &Resolved, config: &JobConfig) -> Option<StorageLocation> {
    let row = resolved.row(DIR)?;
    match row.origin {
        Origin::Default | Origin::Cluster => None,
        Origin::File(_) | Origin::Job(_) | Origin::Variable(_) | Origin::Flag => {
            config.checkpoints.dir.clone()
        }
    }
}

fn check_operators(
    graph: &JobGraph,
    config: &JobConfig,
    warnings: &mut Vec<String>,
) -> Result<(), SubmitError> {
    for node in &graph.operators {
        match node.kind {
            OperatorKind::Inject(_) if !config.allow_fault_injection => {
                return Err(SubmitError::FaultInjection {
                    uid: node.uid.clone(),
                });
            }
            OperatorKind::FileSink(_) if config.checkpoints.interval.is_none() => {
                return Err(SubmitError::SinkWithoutCheckpoints {
                    uid: node.uid.clone(),
                });
            }
            _ => {}
        }
    }
    let stateful = graph.operators.iter().filter(|n| n.kind.is_stateful());
    let without_uid = stateful.filter(|node| node.uid_generated);
    let names: Vec<String> = without_uid.map(|node| node.name.clone()).collect();
    if config.require_uids && !names.is_empty() {
        return Err(SubmitError::MissingUids { names });
    }
    warnings.extend(names.into_iter().map(|name| {
        format!(
            "operator {name:?} has state and no uid: give it one, or its state is lost when the \
             job changes"
        )
    }));
    Ok(())
}

fn checkpoint_policy(config: &JobConfig) -> CheckpointPolicy {
    let policy = &config.checkpoints;
    CheckpointPolicy {
        interval: policy.interval,
        min_pause: policy.min_pause,
        timeout: policy.timeout,
        max_concurrent: policy.max_concurrent as usize,
        tolerable_failed: policy.tolerable_failures,
        num_retained: policy.num_retained as usize,
        ..CheckpointPolicy::default()
    }
}

fn strategy(effective: RestartPolicy) -> RestartStrategyConfig {
    match effective {
        // `RestartPolicy::or` leaves no fallback.
        RestartPolicy::None | RestartPolicy::Fallback => RestartStrategyConfig::None,
        RestartPolicy::FixedDelay(fixed) => RestartStrategyConfig::FixedDelay(fixed),
        RestartPolicy::FailureRate(rate) => RestartStrategyConfig::FailureRate(rate),
        RestartPolicy::ExponentialDelay(delay) => RestartStrategyConfig::ExponentialDelay(delay),
    }
}

/// A strategy that counts failures in a window which failing checkpoints cannot fill never gives
/// up on them (A1-9).
fn endless_restarts(policy: &CheckpointPolicy, strategy: &RestartStrategyConfig) -> Option<String> {
    let RestartStrategyConfig::FailureRate(rate) = strategy else {
        return None;
    };
    let interval = policy.interval?;
    let gap = match policy.max_concurrent {
        1 => interval.max(policy.timeout),
        _ => interval,
    };
    let period = gap.saturating_mul(policy.tolerable_failed) + policy.timeout;
    let needed = period.saturating_mul(rate.max_failures_per_interval);
    (needed > rate.interval).then(|| {
        format!(
            "this restart strategy can never give up on checkpoint failures: one job failure takes \
             {} ({} s) of failing checkpoints or more, and {} of them must fit into {}",
            rounded(period),
            period.as_secs(),
            u64::from(rate.max_failures_per_interval) + 1,
            rounded(rate.interval)
        )
    })
}

/// Tasks do not know the cluster's configuration: what it sets for jobs travels with the graph.
fn with_settings(graph: &JobGraph, cluster: &Resolved) -> JobGraph {
    let of_cluster = cluster.given_for_job().into_iter().map(|(key, value, _)| {
        let setting = Setting {
            key: key.to_owned(),
            value,
            origin: Origin::Cluster.word().to_owned(),
        };
        (setting.key.clone(), setting)
    });
    let mut settings: BTreeMap<String, Setting> = of_cluster.collect();
    let own = graph.settings.iter().cloned();
    settings.extend(own.map(|setting| (setting.key.clone(), setting)));
    JobGraph {
        settings: settings.into_values().collect(),
        ..graph.clone()
    }
}

fn effective(resolved: &Resolved) -> Vec<EffectiveSetting> {
    let of_jobs = resolved
        .rows()
        .filter(|row| row.key.scope == millstream_config::Scope::Job);
    of_jobs
        .map(|row| EffectiveSetting {
            key: row.key.name.to_owned(),
            value: row.value.as_ref().map(ToString::to_string),
            origin: row.origin.word().to_owned(),
        })
        .collect()
}
