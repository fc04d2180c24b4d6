//! Each rule taken away is missed.

use millstream_types::sabotage::{Rule, Sabotage};

use super::*;

fn running_without(rule: Rule) -> Script {
    let mut script = Script::running(policy(10), 0);
    script.coordinator.sabotage(Sabotage::removing(&[rule]));
    script.run_until(0);
    script
}

/// Fence F5: without it sinks commit what the chain may never have.
#[test]
fn without_the_fence_tasks_are_told_of_a_checkpoint_that_does_not_exist() {
    let mut script = running_without(Rule::NotifyBeforeDurable);
    script.appends = false;
    let actions = script.ack_all(1_000, 1);
    assert_eq!(kinds(&actions), ["store", "completed", "append"]);
    script.at(2_000, Event::Suspended);
    script.start(3_000, 0, None);
    assert_eq!(script.coordinator.retained().count(), 0);
}

/// I9: without it a checkpoint is made of two epochs.
#[test]
fn without_the_epoch_check_a_zombie_completes_a_checkpoint() {
    let mut script = running_without(Rule::AcceptAnyEpoch);
    let mut zombie = script.ack_of(SOURCE, 1);
    zombie.epoch = Epoch(0);
    zombie.attempt = Attempt(7);
    script.at(1_000, Event::Acknowledge(Box::new(zombie)));
    let actions = script.ack(2_000, SINK, 1);
    assert_eq!(kinds(&actions), ["store", "append", "completed"]);
}
