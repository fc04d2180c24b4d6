//! Values that go together and values that do not.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::error::{ConfigErrors, Warning};
use crate::layer::{Layer, Target};

fn table(text: &str) -> Resolved {
    let layer = Layer::file("conf.yaml", text).unwrap_or_else(|e| panic!("{}", e.report()));
    Resolved::new([layer])
}

fn job(text: &str) -> Result<(JobConfig, Vec<Warning>), ConfigErrors> {
    let mut warnings = Vec::new();
    JobConfig::new(&table(text), &mut warnings).map(|config| (config, warnings))
}

fn jobmanager(text: &str) -> Result<JobmanagerConfig, String> {
    JobmanagerConfig::new(&table(text)).map_err(|errors| errors.report())
}

fn taskmanager(text: &str) -> Result<TaskmanagerConfig, String> {
    TaskmanagerConfig::new(&table(text)).map_err(|errors| errors.report())
}

// Proves F5.
#[test]
fn a_pause_together_with_two_checkpoints_at_a_time_is_refused_with_the_reason() {
    let errors = job("checkpointing: {min-pause: 500 ms, max-concurrent-checkpoints: 2}\n")
        .expect_err("conflict");
    assert_eq!(
        errors.report(),
        "checkpointing.min-pause is 500ms (conf.yaml:1) and \
         checkpointing.max-concurrent-checkpoints is 2 (conf.yaml:1): a pause between checkpoints \
         leaves no room for two at a time (set checkpointing.max-concurrent-checkpoints to 1 or \
         checkpointing.min-pause to 0 s)"
    );
    assert!(job("checkpointing: {min-pause: 0 s, max-concurrent-checkpoints: 2}\n").is_ok());
    assert!(job("checkpointing: {min-pause: 500 ms}\n").is_ok());
}

// Proves F55.
#[test]
fn an_interval_below_the_pause_is_raised_and_said() {
    let (config, warnings) = job("checkpointing: {interval: 1s, min-pause: 5s}\n").expect("good");
    assert_eq!(config.checkpoints.interval, Some(Duration::from_secs(5)));
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["checkpointing.interval is 1s, in effect is 5s: \
          an interval is not shorter than checkpointing.min-pause"]
    );
    let (config, warnings) = job("checkpointing: {interval: 5s, min-pause: 5s}\n").expect("good");
    assert_eq!(config.checkpoints.interval, Some(Duration::from_secs(5)));
    assert!(warnings.is_empty());
}

#[test]
fn defaults_are_those_of_the_reference() {
    let (config, warnings) = job("").expect("defaults");
    assert!(warnings.is_empty());
    let checkpoints = &config.checkpoints;
    assert_eq!(checkpoints.interval, None);
    assert_eq!(checkpoints.timeout, Duration::from_secs(600));
    assert_eq!(checkpoints.mode, CheckpointMode::ExactlyOnce);
    assert_eq!(checkpoints.retention, Retention::DeleteOnCancellation);
    assert_eq!(
        (checkpoints.num_retained, checkpoints.max_concurrent),
        (2, 1)
    );
    assert_eq!(checkpoints.inline_threshold_bytes, 20 << 10);
    assert!(checkpoints.required_dir().is_err());
    assert_eq!(config.state_backend, StateBackendKind::Hashmap);
    assert_eq!(config.linger, Duration::from_millis(5));
    assert_eq!(config.cancellation_timeout, Some(Duration::from_secs(180)));
    assert_eq!((config.parallelism, config.max_parallelism), (1, None));
    let daemon = jobmanager("").expect("defaults");
    assert_eq!(daemon.heartbeat.interval, Duration::from_secs(2));
    assert_eq!(daemon.heartbeat.timeout, Duration::from_secs(10));
    assert_eq!(daemon.bind_host.as_str(), "127.0.0.1");
    assert_eq!((daemon.rpc_port, daemon.rest_port), (6123, 8081));
}

#[test]
fn every_strategy_is_read_by_each_of_its_names() {
    let policy = |text: &str| job(text).expect(text).0.restart;
    for name in ["none", "off", "disable", "NONE"] {
        assert_eq!(
            policy(&format!("restart-strategy.type: {name}\n")),
            RestartPolicy::None
        );
    }
    let fixed = RestartPolicy::FixedDelay(FixedDelay {
        attempts: Some(3),
        delay: Duration::from_secs(2),
    });
    for text in [
        "restart-strategy: {type: fixed-delay, fixed-delay: {attempts: 3, delay: 2s}}\n",
        "restart-strategy: {type: fixeddelay, attempts: 3, delay: 2s}\n",
        "restart-strategy: fixed-delay\nrestart-strategy.fixed-delay.attempts: 3\n\
         restart-strategy.fixed-delay.delay: 2 s\n",
    ] {
        assert_eq!(policy(text), fixed, "{text}");
    }
    assert_eq!(
        policy(
            "restart-strategy: { type: failure-rate, max-failures-per-interval: 3, \
             failure-rate-interval: 5m, delay: 10s }\n"
        ),
        RestartPolicy::FailureRate(FailureRate {
            max_failures_per_interval: 3,
            interval: Duration::from_secs(300),
            delay: Duration::from_secs(10),
        })
    );
    let RestartPolicy::ExponentialDelay(exponential) =
        policy("restart-strategy: {type: exponentialdelay, attempts-before-reset-backoff: 2}\n")
    else {
        panic!("not exponential");
    };
    assert_eq!(exponential.attempts_before_reset_backoff, Some(2));
    assert_eq!(exponential.max_backoff, Duration::from_secs(60));
}

// Proves F16, as far as the configuration goes, and B8.6 apart from whose strategy it is given.
#[test]
fn a_job_without_a_strategy_has_the_clusters_and_then_what_checkpointing_asks_for() {
    let fixed = || {
        job("restart-strategy: {type: fixed-delay, attempts: 2}\n")
            .expect("good")
            .0
            .restart
    };
    let fallback = || {
        job("restart-strategy.type: fallback\n")
            .expect("good")
            .0
            .restart
    };
    assert_eq!(fallback(), RestartPolicy::Fallback);
    assert_eq!(job("").expect("good").0.restart, RestartPolicy::Fallback);
    assert_eq!(fallback().or(fixed(), true), fixed());
    assert_eq!(RestartPolicy::None.or(fixed(), true), RestartPolicy::None);
    assert_eq!(
        fallback().or(RestartPolicy::Fallback, false),
        RestartPolicy::None
    );
    let RestartPolicy::ExponentialDelay(delay) = fallback().or(RestartPolicy::Fallback, true)
    else {
        panic!("not exponential");
    };
    assert_eq!(delay.initial_backoff, Duration::from_secs(1));
    assert_eq!(delay.max_backoff, Duration::from_secs(60));
    assert_eq!(delay.attempts_before_reset_backoff, None);
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let refused = |text: &str, part: &str| {
        let message = job(text).expect_err(text).report();
        assert!(message.contains(part), "{message}");
    };
    refused(
        "restart-strategy: {type: exponential-delay, initial-backoff: 2m, max-backoff: 1m}\n",
        "the greatest delay is below the least",
    );
    refused(
        "parallelism: 8\npipeline.max-parallelism: 4\n",
        "more subtasks than key groups",
    );
    let message = jobmanager("heartbeat: {interval: 6s, timeout: 10s}\n").expect_err("too short");
    assert!(
        message.contains("one lost heartbeat would be a failure"),
        "{message}"
    );
    let message = jobmanager("rest.port: 6123\n").expect_err("one port");
    assert!(message.contains("one port for two listeners"), "{message}");
    let message = taskmanager("s3.access-key: id\n").expect_err("half a pair");
    assert!(message.contains("s3.secret-key is not set"), "{message}");
}

#[test]
fn listening_beyond_loopback_needs_a_word_and_the_message_names_the_key() {
    for host in ["0.0.0.0", "\"::\"", "10.1.2.3", "jobmanager"] {
        let message = jobmanager(&format!("jobmanager.bind-host: {host}\n")).expect_err("open");
        assert!(message.starts_with("jobmanager.bind-host is"), "{message}");
        assert!(
            message.contains("security.transport: plaintext"),
            "{message}"
        );
        let said = format!("jobmanager.bind-host: {host}\nsecurity.transport: plaintext\n");
        assert!(jobmanager(&said).is_ok());
    }
    let both = jobmanager("jobmanager.bind-host: 0.0.0.0\nrest.bind-host: 0.0.0.0\n");
    assert_eq!(both.expect_err("open").lines().count(), 2);
    assert!(taskmanager("taskmanager.bind-host: 0.0.0.0\n").is_err());
    assert!(taskmanager("taskmanager.bind-host: \"::1\"\n").is_ok());
    let tls = Layer::file("c", "security.transport: tls\n")
        .expect_err("not built")
        .report();
    assert!(tls.contains("not built yet"), "{tls}");
}

#[test]
fn a_wildcard_is_never_advertised() {
    for key in ["jobmanager.rpc.address", "taskmanager.host", "rest.address"] {
        let report = Layer::file("c", &format!("{key}: 0.0.0.0\n"))
            .expect_err(key)
            .report();
        assert!(
            report.contains("nobody can connect to this address"),
            "{report}"
        );
    }
}

#[test]
fn storage_and_logs_reach_the_daemons() {
    let config = jobmanager(
        "checkpointing.dir: s3://bucket/chk\ns3:\n  endpoint: http://127.0.0.1:8333\n  \
         path.style.access: true\n  access-key: id\n  secret-key: {file: /run/secret}\n\
         log: {format: json, level: 'info,millstream_net=debug', json.static-fields: {app: x}}\n",
    )
    .expect("good");
    assert_eq!(config.storage.job_store, config.storage.checkpoints);
    assert!(config.storage.s3.is_plain_http() && config.storage.s3.path_style);
    let (id, secret) = config.storage.s3.credentials.expect("credentials");
    assert_eq!(
        (id.as_str(), secret.to_string().as_str()),
        ("id", "{ file: /run/secret }")
    );
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.static_fields["app"], "x");
    let own = jobmanager("high-availability.storageDir: /jobs\ncheckpointing.dir: /chk\n");
    assert_eq!(
        own.expect("good").storage.job_store,
        StorageLocation::parse("/jobs").ok()
    );
}

#[test]
fn a_taskmanager_gets_slots_memory_ports_and_directories() {
    let flags = Layer::flags(
        [
            "taskmanager.numberOfTaskSlots=4",
            "state.backend.rocksdb.localdir=/a, /b",
        ],
        Target::Daemon,
    )
    .expect("flags");
    let file = Layer::file(
        "c",
        "taskmanager: {memory.process.size: 2g, data.port-range: 50100-50102}\n",
    );
    let table = Resolved::new([file.expect("file"), flags]);
    let config = TaskmanagerConfig::new(&table).expect("good");
    assert_eq!(config.slots, 4);
    assert_eq!(config.process_memory_bytes, Some(2 << 30));
    assert_eq!(
        config.state_dirs,
        [PathBuf::from("/a"), PathBuf::from("/b")]
    );
    assert_eq!(config.data_ports.iter().count(), 3);
    assert_eq!(config.isolation, Isolation::Process);
    let named = taskmanager("taskmanager.resource-id: tm-1\n")
        .expect("good")
        .resource_id;
    assert_eq!(named.map(|id| id.to_string()), Some("tm-1".to_owned()));
    let message = taskmanager("taskmanager.resource-id: a b\n").expect_err("blank");
    assert!(
        message.starts_with("conf.yaml:1: taskmanager.resource-id is \"a b\""),
        "{message}"
    );
    assert_eq!(config.channel_window_bytes, 256 << 10);
}
