use std::time::Duration;

use millstream_types::{Epoch, JobId, MonoTime};

use super::*;
use crate::failure::FailureKind;
use crate::topology::Connection;
use crate::topology::testing::{source_and_sink, vertex};

mod placement;

fn id(name: &str) -> TaskmanagerId {
    TaskmanagerId::new(name).unwrap()
}

const JOB: JobId = JobId::from_bytes([1; 16]);
const OTHER: JobId = JobId::from_bytes([2; 16]);

fn register(name: &str, incarnation: u64, slots: u32) -> Event {
    Event::Register {
        taskmanager: id(name),
        incarnation: Incarnation(incarnation),
        slots,
    }
}

fn request(job: JobId, epoch: u64, parallelism: u32) -> Event {
    Event::Request {
        job,
        epoch: Epoch(epoch),
        demand: SlotDemand::of(&source_and_sink(parallelism)),
        previous: BTreeMap::new(),
    }
}

fn lost(name: &str, incarnation: u64) -> Event {
    Event::Lost {
        taskmanager: id(name),
        incarnation: Incarnation(incarnation),
    }
}

struct Script {
    pool: SlotPool,
}

impl Script {
    fn new(events: Vec<Event>) -> Self {
        let mut script = Self {
            pool: SlotPool::new(Duration::from_secs(300)),
        };
        for event in events {
            script.at(0, event);
        }
        script
    }

    fn at(&mut self, seconds: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let now = MonoTime::from_millis(seconds * 1000);
        self.pool.step(now, event, &mut actions);
        assert!(self.pool.deadline() > now);
        actions
    }
}

/// `taskmanager/slot` of every subtask, in order.
fn places(actions: &[Action]) -> Vec<String> {
    let [Action::Allocated { slots, .. }] = actions else {
        panic!("expected one allocation, found {actions:?}");
    };
    slots.values().map(ToString::to_string).collect()
}

// Proves B13.1.
#[test]
fn slots_needed_are_the_sum_over_sharing_groups_of_the_highest_parallelism() {
    let mut alone = vertex(2, "alone", 2, &[(1, Connection::AllToAll)]);
    alone.slot_sharing_group = "b".to_owned();
    let topology = Topology::new(vec![
        vertex(0, "source", 1, &[]),
        vertex(1, "map", 4, &[(0, Connection::AllToAll)]),
        alone,
    ])
    .unwrap();
    let demand = SlotDemand::of(&topology);
    assert_eq!(demand.count(), 2 + 4);
    let sharing: Vec<usize> = demand.slots.iter().map(Vec::len).collect();
    assert_eq!(sharing, [1, 1, 2, 1, 1, 1]);
}

#[test]
fn subtasks_of_one_index_share_a_slot_and_slots_are_spread_over_taskmanagers() {
    let mut script = Script::new(vec![register("a", 1, 2), register("b", 1, 2)]);
    let actions = script.at(1, request(JOB, 1, 2));
    assert_eq!(places(&actions), ["a/0", "b/0", "a/0", "b/0"]);
}

#[test]
fn a_job_waits_for_slots_and_gets_them_when_a_taskmanager_comes() {
    let mut script = Script::new(vec![register("a", 1, 1)]);
    assert_eq!(script.at(1, request(JOB, 1, 2)), []);
    let actions = script.at(9, register("b", 1, 1));
    assert_eq!(places(&actions[1..]), ["a/0", "b/0", "a/0", "b/0"]);
}

// Proves F9, as far as the pool goes.
#[test]
fn a_job_that_waited_five_minutes_is_told_what_is_missing() {
    let mut script = Script::new(vec![register("a", 1, 1), request(JOB, 1, 3)]);
    assert_eq!(script.at(299, Event::Tick), []);
    let actions = script.at(300, Event::Tick);
    let [Action::Unavailable { epoch, failure, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(*epoch, Epoch(1));
    assert_eq!(failure.kind, FailureKind::NoResourceAvailable);
    assert!(
        failure.message.contains("needs 3 slots, and of 1"),
        "{failure}"
    );
    assert!(failure.remedy.as_ref().unwrap().contains("2 more slots"));
    assert_eq!(script.at(900, Event::Tick), []);
}

#[test]
fn a_restarted_job_goes_back_to_where_it_was() {
    let mut script = Script::new(vec![
        register("a", 1, 1),
        register("b", 1, 1),
        register("c", 1, 1),
    ]);
    let first = script.at(1, request(JOB, 1, 1));
    assert_eq!(places(&first), ["a/0", "a/0"]);
    script.at(
        2,
        Event::Release {
            job: JOB,
            epoch: Epoch(1),
        },
    );
    let previous = source_and_sink(1)
        .subtasks()
        .map(|s| (s, id("c")))
        .collect();
    let again = script.at(
        3,
        Event::Request {
            job: JOB,
            epoch: Epoch(2),
            demand: SlotDemand::of(&source_and_sink(1)),
            previous,
        },
    );
    assert_eq!(places(&again), ["c/0", "c/0"]);
}

#[test]
fn an_abandoned_slot_is_given_to_nobody_until_it_was_reaped() {
    let mut script = Script::new(vec![register("a", 1, 1), request(JOB, 1, 1)]);
    let slot = SlotRef {
        taskmanager: id("a"),
        incarnation: Incarnation(1),
        index: SlotIndex(0),
    };
    script.at(1, Event::Abandon { slot: slot.clone() });
    script.at(
        1,
        Event::Release {
            job: JOB,
            epoch: Epoch(1),
        },
    );
    assert_eq!(script.at(2, request(JOB, 2, 1)), []);
    let freed = script.at(3, Event::Freed { slot: slot.clone() });
    assert_eq!(places(&freed), ["a/0", "a/0"]);
    // Said twice: the slot is in use again and stays so.
    script.at(4, Event::Freed { slot });
    assert_eq!(script.at(5, request(OTHER, 1, 1)), []);
}

/// Proves fence F18.
#[test]
fn a_second_process_with_the_same_id_is_refused_until_the_first_is_gone() {
    let mut script = Script::new(vec![register("a", 1, 1)]);
    assert!(matches!(
        script.at(1, register("a", 2, 1)).as_slice(),
        [Action::Refused {
            reason: RegistrationRefusal::DuplicateIdentity { .. },
            ..
        }]
    ));
    script.at(2, lost("a", 1));
    assert!(matches!(
        script.at(3, register("a", 2, 1)).as_slice(),
        [Action::Registered { .. }]
    ));
}

// Proves F154, as far as registration goes.
#[test]
fn a_process_that_was_declared_dead_cannot_come_back_as_itself() {
    let mut script = Script::new(vec![register("a", 1, 1), lost("a", 1)]);
    let actions = script.at(1, register("a", 1, 1));
    let [Action::Refused { reason, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert!(reason.to_string().contains("declared dead"), "{reason}");
}

#[test]
fn a_lost_message_about_an_older_life_does_not_touch_the_present_one() {
    let mut script = Script::new(vec![
        register("a", 1, 1),
        lost("a", 1),
        register("a", 2, 1),
        lost("a", 1),
    ]);
    assert_eq!(places(&script.at(1, request(JOB, 1, 1))), ["a/0", "a/0"]);
}

#[test]
fn registering_twice_keeps_what_runs_there() {
    let mut script = Script::new(vec![register("a", 1, 1), request(JOB, 1, 1)]);
    script.at(1, register("a", 1, 1));
    assert_eq!(script.pool.slots(), (1, 0));
}

#[test]
fn a_newer_epoch_takes_over_the_slots_of_the_older_and_an_older_request_is_late() {
    let mut script = Script::new(vec![register("a", 1, 1), request(JOB, 1, 1)]);
    assert_eq!(places(&script.at(1, request(JOB, 2, 1))), ["a/0", "a/0"]);
    assert_eq!(script.at(2, request(JOB, 1, 1)), []);
    script.at(
        3,
        Event::Release {
            job: JOB,
            epoch: Epoch(1),
        },
    );
    assert_eq!(
        script.pool.slots(),
        (1, 0),
        "of an older epoch: nothing to release"
    );
}

#[test]
fn a_draining_taskmanager_gets_no_new_job() {
    let mut script = Script::new(vec![
        register("a", 1, 2),
        Event::Draining {
            taskmanager: id("a"),
        },
    ]);
    assert_eq!(script.at(1, request(JOB, 1, 1)), []);
}

#[test]
fn first_come_first_served_but_nobody_waits_for_what_cannot_be() {
    let mut script = Script::new(vec![register("a", 1, 1), request(JOB, 1, 2)]);
    assert_eq!(places(&script.at(1, request(OTHER, 1, 1))), ["a/0", "a/0"]);
}
