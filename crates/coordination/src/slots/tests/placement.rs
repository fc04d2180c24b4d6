//! Who gets which slot, and whose slots are left alone.

use super::*;

fn release(job: JobId, epoch: u64) -> Event {
    Event::Release {
        job,
        epoch: Epoch(epoch),
    }
}

fn slot(name: &str, incarnation: u64) -> SlotRef {
    SlotRef {
        taskmanager: id(name),
        incarnation: Incarnation(incarnation),
        index: SlotIndex(0),
    }
}

/// A request of these vertices, each subtask of which ran on this taskmanager before.
fn request_back(topology: &Topology, before: &[(u32, u32, &str)]) -> Event {
    let previous = before
        .iter()
        .map(|(vertex, index, name)| (SubtaskId::new(VertexId(*vertex), *index), id(name)));
    Event::Request {
        job: JOB,
        epoch: Epoch(1),
        demand: SlotDemand::of(topology),
        previous: previous.collect(),
    }
}

#[test]
fn slots_are_taken_where_the_smaller_part_is_in_use() {
    let mut script = Script::new(vec![register("a", 1, 4), register("b", 1, 2)]);
    let actions = script.at(1, request(JOB, 1, 6));
    assert_eq!(
        places(&actions)[..6],
        ["a/0", "b/0", "a/1", "a/2", "b/1", "a/3"]
    );
}

#[test]
fn a_slot_goes_back_to_where_most_of_its_subtasks_were() {
    let topology = Topology::new(vec![
        vertex(0, "source", 1, &[]),
        vertex(1, "map", 1, &[(0, Connection::AllToAll)]),
        vertex(2, "sink", 1, &[(1, Connection::AllToAll)]),
    ])
    .unwrap();
    let before = [(0, 0, "a"), (1, 0, "b"), (2, 0, "b")];
    let mut script = Script::new(vec![register("a", 1, 1), register("b", 1, 1)]);
    let actions = script.at(1, request_back(&topology, &before));
    assert_eq!(places(&actions), ["b/0"; 3]);
}

#[test]
fn who_cannot_go_back_leaves_the_place_to_those_that_can() {
    let topology = source_and_sink(2);
    // Both were on `a`, which has one slot now; the second was on `b` in part.
    let before = [(0, 0, "a"), (0, 1, "a"), (1, 1, "b")];
    let mut script = Script::new(vec![
        register("a", 1, 1),
        register("b", 1, 1),
        register("c", 1, 1),
    ]);
    let actions = script.at(1, request_back(&topology, &before));
    assert_eq!(places(&actions), ["a/0", "b/0", "a/0", "b/0"]);
    // Nobody has a place on a taskmanager that is gone, full or leaving.
    let before = [(0, 0, "gone"), (0, 1, "a")];
    let draining = Event::Draining {
        taskmanager: id("a"),
    };
    let mut script = Script::new(vec![
        register("a", 1, 2),
        register("b", 1, 1),
        register("c", 1, 1),
        draining,
    ]);
    assert_eq!(script.pool.slots(), (4, 2));
    let actions = script.at(1, request_back(&topology, &before));
    assert_eq!(places(&actions), ["b/0", "c/0", "b/0", "c/0"]);
}

#[test]
fn what_a_job_releases_or_takes_over_is_its_own() {
    let mut script = Script::new(vec![
        register("a", 1, 1),
        register("b", 1, 1),
        request(OTHER, 5, 1),
    ]);
    // Epochs are counted for each job.
    assert_eq!(places(&script.at(1, request(JOB, 1, 1))), ["b/0", "b/0"]);
    assert_eq!(places(&script.at(2, request(JOB, 6, 1))), ["b/0", "b/0"]);
    script.at(3, release(JOB, 6));
    assert_eq!(script.pool.slots(), (2, 1));
    script.at(4, release(JOB, 9));
    assert_eq!(script.pool.slots(), (2, 1));
    script.at(5, release(OTHER, 9));
    assert_eq!(script.pool.slots(), (2, 2));
}

#[test]
fn a_release_of_an_older_epoch_does_not_end_the_wait_of_a_newer_one() {
    let mut script = Script::new(vec![request(JOB, 2, 1)]);
    script.at(1, release(JOB, 1));
    // Said again it is the same request: it keeps the time at which it gives up.
    script.at(100, request(JOB, 2, 1));
    assert_eq!(script.pool.deadline(), MonoTime::from_millis(300_000));
    script.at(200, release(JOB, 2));
    assert_eq!(script.pool.deadline(), MonoTime::NEVER);
    assert_eq!(
        script.at(201, register("a", 1, 1)).len(),
        1,
        "no allocation"
    );
}

#[test]
fn who_waits_longer_is_served_first() {
    let mut script = Script::new(vec![request(OTHER, 1, 1), request(JOB, 1, 1)]);
    let actions = script.at(1, register("a", 1, 1));
    assert!(matches!(
        actions[1..],
        [Action::Allocated { job: OTHER, .. }]
    ));
}

#[test]
fn what_is_said_of_an_older_life_of_a_taskmanager_does_not_touch_its_slots() {
    let mut script = Script::new(vec![
        register("a", 1, 1),
        lost("a", 1),
        register("a", 2, 1),
        lost("a", 9),
    ]);
    script.at(1, Event::Abandon { slot: slot("a", 1) });
    assert_eq!(script.pool.slots(), (1, 1));
    script.at(2, Event::Abandon { slot: slot("a", 2) });
    assert_eq!(script.pool.slots(), (1, 0));
    script.at(3, Event::Freed { slot: slot("a", 1) });
    assert_eq!(script.pool.slots(), (1, 0));
    script.at(4, Event::Freed { slot: slot("b", 1) });
    script.at(5, Event::Freed { slot: slot("a", 2) });
    assert_eq!(script.pool.slots(), (1, 1));
}

#[test]
fn sixteen_lives_of_a_taskmanager_are_known_to_be_over() {
    let lives = (1..=17).flat_map(|life| [register("a", life, 1), lost("a", life)]);
    let mut script = Script::new(lives.collect());
    let mut refused = |life| {
        let actions = script.at(1, register("a", life, 1));
        let is_refused = matches!(actions[..], [Action::Refused { .. }]);
        if !is_refused {
            script.at(1, lost("a", life));
        }
        is_refused
    };
    assert!(refused(2) && refused(17));
    assert!(!refused(1), "the first of seventeen is forgotten");
}

#[test]
fn a_taskmanager_without_slots_is_refused() {
    let actions = Script::new(vec![]).at(0, register("a", 1, 0));
    assert!(matches!(
        actions[..],
        [Action::Refused {
            reason: RegistrationRefusal::NoSlots { .. },
            ..
        }]
    ));
}
