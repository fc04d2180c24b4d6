//! Which restart strategy a job has.

use millstream_config::{Layer, Resolved, Target};
use millstream_coordination::job::JobStatus;

use super::world::*;
use crate::*;

/// What is in force for a job with these settings on a cluster with these flags.
fn in_force(cluster: &[&str], job: &[(&str, &str)]) -> String {
    let flags = Layer::flags(cluster.iter().copied(), Target::Daemon).unwrap();
    let plan = plan_job(&Resolved::new([flags]), &word_count(job), true).unwrap();
    plan.machine.restart_strategy.to_string()
}

const CHECKPOINTS: (&str, &str) = ("checkpointing.interval", "10 s");
const FALLBACK: (&str, &str) = ("restart-strategy.type", "fallback");

// Proves F16.
#[tokio::test(start_paused = true)]
async fn without_checkpoints_and_configuration_the_first_failure_ends_the_job() {
    let world = World::new().await;
    let jobmanager = world.jobmanager().await;
    let tm = world.taskmanager(&jobmanager, "tm-1", 2);
    let job = world.submit(&jobmanager, word_count(&[])).await;
    world.until_all_running(&jobmanager, job, N_TASKS).await;
    tm.kill();
    world
        .until_status(&jobmanager, job, JobStatus::Failed)
        .await;
    let end = jobmanager.job(job).await.unwrap().end.unwrap();
    let suppressed = "Recovery is suppressed by NoRestartBackoffTimeStrategy";
    assert!(end.headline.contains(suppressed), "{end:?}");
}

// The strategy of F17; that it is logged is shown on a cluster of processes.
#[test]
fn with_checkpoints_and_nothing_configured_the_delay_is_exponential() {
    let found = in_force(&[], &[CHECKPOINTS]);
    let expected = "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS=1000, \
                    maxBackoffMS=60000, backoffMultiplier=1.5, resetBackoffThresholdMS=3600000, \
                    jitterFactor=0.1, attemptsBeforeResetBackoff=unlimited)";
    assert_eq!(found, expected);
}

// Proves F30.
#[test]
fn fallback_is_the_strategy_of_the_cluster_and_without_one_the_default_rule() {
    let cluster = [
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=2",
    ];
    for job in [&[][..], &[FALLBACK], &[FALLBACK, CHECKPOINTS]] {
        let found = in_force(&cluster, job);
        assert!(
            found.contains("maxNumberRestartAttempts=2"),
            "{job:?}: {found}"
        );
    }
    let own = in_force(&cluster, &[("restart-strategy.type", "none")]);
    assert_eq!(own, "NoRestartBackoffTimeStrategy");
    assert_eq!(in_force(&[], &[FALLBACK]), "NoRestartBackoffTimeStrategy");
    let defaults = in_force(&[], &[FALLBACK, CHECKPOINTS]);
    assert_eq!(defaults, in_force(&[], &[CHECKPOINTS]));
}
