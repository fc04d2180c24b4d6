//! Exactly-once output, checked in every state within bounds, and the proof that the check would
//! notice: each rule of the protocol is taken away once.
//!
//! Proves I1, I5 to I8, I10, fences F1, F3, F4, F5, F7, F13.

#[path = "model/mod.rs"]
mod model;

use std::collections::BTreeSet;

use millstream_types::sabotage::Rule;
use model::{
    ALL_OUTPUT_AFTER_FAILOVER, Bounds, COMMIT_OF_ABORTED, DUPLICATE, EARLY_OUTPUT, ExactlyOnce,
    FORKED_CHAIN, Fence, LOSS,
};
use stateright::{Checker, HasDiscoveries, Model};

const OUTPUT: [&str; 4] = [DUPLICATE, EARLY_OUTPUT, LOSS, COMMIT_OF_ABORTED];

/// One record, one checkpoint an epoch, one failover, one write of unknown outcome.
const SMALL: Bounds = Bounds {
    records: 1,
    checkpoints: 1,
    epochs: 2,
    jobmanagers: 2,
    unknown_outcomes: 1,
};

/// Visits every state: all output invariants hold, and output after a failover is possible. A
/// count of states that changed means that the model gained or lost behaviour; look before
/// changing it.
fn output_holds(model: ExactlyOnce, states: usize) -> impl Checker<ExactlyOnce> {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!(
        "{} states, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    OUTPUT
        .iter()
        .for_each(|invariant| checker.assert_no_discovery(invariant));
    checker.assert_any_discovery(ALL_OUTPUT_AFTER_FAILOVER);
    assert_eq!(checker.unique_state_count(), states);
    checker
}

fn holds(model: ExactlyOnce, states: usize) {
    output_holds(model, states).assert_no_discovery(FORKED_CHAIN);
}

/// Finds the violation, by the shortest way.
fn violates(model: ExactlyOnce, invariant: &'static str) {
    let until = HasDiscoveries::AllOf(BTreeSet::from([invariant]));
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    println!(
        "{:?}",
        checker.assert_any_discovery(invariant).into_actions()
    );
}

#[test]
fn the_protocol_holds_with_two_checkpoints_and_two_writes_of_unknown_outcome() {
    let bounds = Bounds {
        checkpoints: 2,
        unknown_outcomes: 2,
        ..SMALL
    };
    holds(ExactlyOnce::new(bounds), 677_147);
}

#[test]
fn the_protocol_holds_with_two_failovers() {
    let bounds = Bounds { epochs: 3, ..SMALL };
    holds(ExactlyOnce::new(bounds), 1_769_554);
}

#[test]
fn the_protocol_holds_with_two_records() {
    holds(
        ExactlyOnce::new(Bounds {
            records: 2,
            ..SMALL
        }),
        104_644,
    );
    let bounds = Bounds {
        records: 2,
        checkpoints: 2,
        unknown_outcomes: 0,
        ..SMALL
    };
    holds(ExactlyOnce::new(bounds), 1_247_441);
}

#[test]
fn a_store_write_without_compare_and_swap_loses_output() {
    let model = ExactlyOnce::new(SMALL);
    violates(model.without_rules(&[Rule::AppendAfterForeign]), LOSS);
}

#[test]
fn a_restart_without_a_claim_of_its_own_loses_output() {
    let one = Bounds {
        jobmanagers: 1,
        ..SMALL
    };
    violates(
        ExactlyOnce::new(one).without_rules(&[Rule::RestartWithoutClaim]),
        LOSS,
    );
}

#[test]
fn an_acknowledgement_of_another_epoch_under_a_reused_checkpoint_id_loses_output() {
    let model = ExactlyOnce::new(SMALL).without(Fence::AckEpoch);
    violates(model.without_rules(&[Rule::ReuseCheckpointIds]), LOSS);
}

/// The two rules of the story above guard the same door, so that neither alone opens it.
#[test]
fn checking_acknowledgements_and_never_reusing_ids_each_suffice_alone() {
    holds(ExactlyOnce::new(SMALL), 21_691);
    holds(ExactlyOnce::new(SMALL).without(Fence::AckEpoch), 21_691);
    let reusing = ExactlyOnce::new(SMALL).without_rules(&[Rule::ReuseCheckpointIds]);
    // The chain itself shows that the ids were reused.
    output_holds(reusing, 21_691).assert_any_discovery(FORKED_CHAIN);
}

#[test]
fn a_notice_sent_before_the_checkpoint_is_durable_shows_output_too_early() {
    let model = ExactlyOnce::new(SMALL);
    violates(
        model.without_rules(&[Rule::AnnounceBeforeDurable]),
        EARLY_OUTPUT,
    );
}

#[test]
fn a_notice_without_its_epoch_commits_what_was_aborted() {
    let model = ExactlyOnce::new(SMALL).without(Fence::NotifyEpoch);
    violates(model, COMMIT_OF_ABORTED);
}

#[test]
fn a_sink_that_is_not_fenced_loses_output() {
    violates(ExactlyOnce::new(SMALL).without(Fence::SinkFenced), LOSS);
}

#[test]
fn a_restore_that_aborts_what_was_promised_loses_output() {
    violates(
        ExactlyOnce::new(SMALL).without(Fence::PromisesCommitted),
        LOSS,
    );
}

#[test]
fn a_write_of_unknown_outcome_that_is_assumed_to_have_happened_shows_output_too_early() {
    let model = ExactlyOnce::new(SMALL);
    violates(model.without_rules(&[Rule::AssumeHappened]), EARLY_OUTPUT);
}

/// Epoch order is liveness only: the chain alone is safe, whoever claims.
#[test]
fn a_jobmanager_that_claims_after_it_was_deposed_does_no_harm() {
    let bounds = Bounds {
        epochs: 3,
        unknown_outcomes: 0,
        ..SMALL
    };
    holds(
        ExactlyOnce::new(bounds).without(Fence::OnlyTheElectedClaims),
        1_139_489,
    );
}
