//! One more look at the chain where slots came late.

use super::*;

/// Claimed at second 0, without slots yet.
fn waiting() -> Script {
    let mut script = Script::new(fixed(9, 1), 2);
    script.answers_slots = false;
    let actions = script.at(0, Event::Start);
    assert_eq!(Script::kinds(&actions), ["claim", "request slots"]);
    script
}

fn slots(script: &Script) -> Event {
    Event::SlotsAllocated {
        epoch: Epoch(script.epoch),
        slots: script.slots(),
    }
}

fn confirmed(epoch: u64) -> Event {
    let epoch = Epoch(epoch);
    Event::ClaimConfirmed { epoch }
}

#[test]
fn a_claim_that_waited_long_for_slots_is_looked_at_again_before_anything_is_deployed() {
    let mut script = waiting();
    let actions = script.at(60, slots(&script));
    assert_eq!(Script::kinds(&actions), ["confirm claim"]);
    assert_eq!(script.job.status(), JobStatus::Created);
    assert_eq!(script.at(61, slots(&script)), [], "they are known");
    assert_eq!(script.at(61, confirmed(0)), [], "of an older claim");
    let actions = script.at(61, confirmed(1));
    assert_eq!(
        Script::kinds(&actions)[..2],
        ["start checkpointing", "deploy"]
    );
    assert_eq!(script.job.status(), JobStatus::Running);
    assert_eq!(script.at(62, confirmed(1)), [], "a second time");
}

#[test]
fn a_claim_of_a_moment_ago_is_deployed_without_another_look() {
    let mut script = waiting();
    let actions = script.at_millis(1_000, slots(&script));
    assert_eq!(
        Script::kinds(&actions)[..2],
        ["start checkpointing", "deploy"]
    );
}

#[test]
fn a_job_that_another_jobmanager_claimed_meanwhile_deploys_nothing_and_is_suspended() {
    let mut script = waiting();
    script.at(60, slots(&script));
    let actions = script.at(61, Event::OwnershipLost);
    assert_eq!(
        Script::kinds(&actions),
        ["suspend checkpointing", "release slots"]
    );
    assert_eq!(script.job.status(), JobStatus::Suspended);
    assert_eq!(script.at(62, confirmed(1)), []);
    assert_eq!(script.attempts_of(subtask(0, 0)), [0_u32; 0]);
}

#[test]
fn slots_of_a_taskmanager_that_is_lost_during_the_look_are_given_back_for_others() {
    let mut script = waiting();
    script.at(60, slots(&script));
    let actions = script.lose(60, 1, FailureKind::TaskmanagerLost);
    assert_eq!(
        Script::kinds(&actions),
        ["release slots", "request slots"],
        "and no failure is counted"
    );
    assert_eq!(script.job.history().entries().count(), 0);
    assert_eq!(script.at(61, confirmed(1)), [], "there are no slots");
    script.taskmanagers = 1;
    let actions = script.at(70, slots(&script));
    assert_eq!(Script::kinds(&actions), ["confirm claim"]);
    script.at(71, confirmed(1));
    script.all_run(71);
    let uses = |index: u32| {
        let executions = script.job.executions().values();
        executions
            .filter(|e| e.slot.as_ref() == Some(&slot(index)))
            .count()
    };
    assert_eq!((uses(0), uses(1)), (4, 0));
}

#[test]
fn a_cancel_during_the_look_ends_the_job_and_gives_the_slots_back() {
    let mut script = waiting();
    script.at(60, slots(&script));
    let actions = script.at(60, Event::Cancel);
    assert_eq!(
        Script::kinds(&actions),
        [
            "write terminal",
            "suspend checkpointing",
            "release slots",
            "announce"
        ]
    );
    assert_eq!(script.at(61, confirmed(1)), []);
    assert_eq!(script.end(), Some(&JobEnd::Canceled));
}
