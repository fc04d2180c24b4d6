//! What is refused at submission, and what is said about the rest.

use millstream_config::{Layer, Resolved, Target};
use millstream_graph::{Fault, FileSink, Inject, JobGraph, OperatorKind, SinkFormat};

use super::world::*;
use crate::*;

fn plan(flags: &[&str], graph: &JobGraph, has_default_dir: bool) -> Result<Plan, SubmitError> {
    let flags = Layer::flags(flags.iter().copied(), Target::Daemon).unwrap();
    plan_job(&Resolved::new([flags]), graph, has_default_dir)
}

fn with_sink(settings: &[(&str, &str)], kind: OperatorKind) -> JobGraph {
    let mut graph = word_count(settings);
    graph.operators[2].kind = kind;
    graph
}

#[test]
fn a_file_sink_without_checkpoints_is_refused_with_the_setting_that_helps() {
    let sink = OperatorKind::FileSink(FileSink {
        path: "/out".to_owned(),
        format: SinkFormat::JsonLines,
        roll_bytes: 1 << 20,
    });
    let error = plan(&[], &with_sink(&[], sink.clone()), true).unwrap_err();
    assert!(
        error.remedy().contains("set checkpointing.interval"),
        "{}",
        error.remedy()
    );
    let checkpointed = with_sink(&[("checkpointing.interval", "10 s")], sink);
    assert!(plan(&[], &checkpointed, true).is_ok());
}

#[test]
fn what_is_wrong_with_a_setting_is_said_once() {
    let graph = word_count(&[("checkpointing.interval", "5")]);
    let error = plan(&[], &graph, true).unwrap_err();
    let said = format!(
        "{}\n{}",
        millstream_telemetry::chain(&error),
        error.remedy()
    );
    assert_eq!(said.matches("checkpointing.interval").count(), 1, "{said}");
}

#[test]
fn fault_injection_needs_leave() {
    let graph = |settings| {
        let mut graph = word_count(settings);
        let fault = Fault::Panic {
            message: "boo".to_owned(),
        };
        graph.operators[1].kind = OperatorKind::Inject(Inject {
            fault,
            at_row: 1,
            subtask: None,
            times: None,
        });
        graph
    };
    let error = plan(&[], &graph(&[]), true).unwrap_err();
    assert!(
        matches!(error, SubmitError::FaultInjection { .. }),
        "{error}"
    );
    let allowed = graph(&[("pipeline.allow-fault-injection", "true")]);
    assert!(plan(&[], &allowed, true).is_ok());
}

#[test]
fn checkpoints_need_a_place_to_go() {
    let graph = word_count(&[("checkpointing.interval", "10 s")]);
    let error = plan(&[], &graph, false).unwrap_err();
    assert!(
        error.remedy().contains("checkpointing.dir"),
        "{}",
        error.remedy()
    );
    assert!(plan(&[], &graph, true).is_ok());
    let own = word_count(&[
        ("checkpointing.interval", "10 s"),
        ("checkpointing.dir", "/data/own"),
    ]);
    assert!(plan(&[], &own, false).unwrap().own_dir.is_some());
}

// Proves F7.
#[test]
fn state_without_uid_is_warned_of_and_refused_where_uids_are_required() {
    let graph = |settings| {
        let mut graph = word_count(settings);
        graph.operators[1].uid_generated = true;
        graph
    };
    let warnings = plan(&[], &graph(&[]), true).unwrap().warnings;
    assert!(
        warnings.iter().any(|w| w.contains("\"counts\"")),
        "{warnings:?}"
    );
    let error = plan(&[], &graph(&[("pipeline.require-uids", "true")]), true).unwrap_err();
    assert!(matches!(error, SubmitError::MissingUids { .. }), "{error}");
}

#[test]
fn an_unset_tolerance_is_said_and_a_set_one_is_not() {
    let unset = word_count(&[("checkpointing.interval", "10 s")]);
    let is_said = |flags: &[&str], graph: &JobGraph| {
        let warnings = plan(flags, graph, true).unwrap().warnings;
        warnings
            .iter()
            .any(|w| w.contains("tolerable-failed-checkpoints is unset"))
    };
    assert!(is_said(&[], &unset));
    assert!(!is_said(
        &["checkpointing.tolerable-failed-checkpoints=3"],
        &unset
    ));
}

/// Proves F167, and A1-9: the settings of the report restart for ever.
#[test]
fn a_restart_strategy_that_never_gives_up_on_checkpoints_is_pointed_out() {
    let graph = |window| {
        word_count(&[
            ("checkpointing.interval", "300 s"),
            ("checkpointing.timeout", "60 s"),
            ("checkpointing.tolerable-failed-checkpoints", "5"),
            ("restart-strategy.type", "failure-rate"),
            (
                "restart-strategy.failure-rate.max-failures-per-interval",
                "3",
            ),
            (
                "restart-strategy.failure-rate.failure-rate-interval",
                window,
            ),
        ])
    };
    let is_endless = |window| {
        let warnings = plan(&[], &graph(window), true).unwrap().warnings;
        let found = warnings.iter().find(|w| w.contains("can never give up"));
        assert!(
            found.is_none_or(|w| w.contains("26 min (1560 s)")),
            "{found:?}"
        );
        found.is_some()
    };
    assert!(is_endless("5 min"));
    // Six expiries take 1560 s, and four failures 4680 s.
    assert!(is_endless("4679 s"));
    assert!(!is_endless("4680 s"));
}

#[test]
fn what_the_cluster_sets_for_jobs_travels_with_the_graph_and_the_job_wins() {
    let flags = ["state.backend.type=rocksdb", "checkpointing.dir=/data/ckpt"];
    let graph = word_count(&[("state.backend.type", "hashmap")]);
    let plan = plan(&flags, &graph, true).unwrap();
    assert_eq!(plan.graph.setting("checkpointing.dir"), Some("/data/ckpt"));
    assert_eq!(plan.graph.setting("state.backend.type"), Some("hashmap"));
    assert_eq!(plan.own_dir, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_id_that_cannot_be_shown_is_refused() {
    let world = World::new().await;
    let jm = world.jobmanager().await;
    for client_id in ["", "a b", "ä", &"x".repeat(129)] {
        let submission = Submission {
            client_id: Some(client_id.to_owned()),
            graph: word_count(&[]),
        };
        let error = jm.submit(submission).await.unwrap_err();
        assert!(matches!(error, SubmitError::ClientId { .. }), "{error}");
    }
}
