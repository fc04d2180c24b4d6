use proptest::prelude::*;

use super::*;

fn split(name: &str) -> Split {
    Split {
        id: SplitId(name.into()),
        payload: Arc::from(name.as_bytes()),
        target: SplitTarget::Any,
        is_unbounded: false,
    }
}

fn discovered(names: &[&str]) -> Event {
    Event::Discovered(names.iter().map(|name| split(name)).collect())
}

fn opened(reader: u32, restored: Option<u64>, unfinished: u64) -> Event {
    Event::Opened {
        reader,
        restored: restored.map(CheckpointId),
        unfinished,
    }
}

fn finished(reader: u32, total: u64) -> Event {
    Event::Finished { reader, total }
}

fn barrier(id: u64) -> Event {
    Event::Barrier(CheckpointId(id))
}

/// `reader:split` of every assignment, `end`, `restart`.
fn step(machine: &mut SplitAssignment, event: Event) -> Vec<String> {
    let mut actions = Vec::new();
    machine.step(event, &mut actions);
    actions
        .into_iter()
        .map(|action| match action {
            Action::Assign { reader, split } => format!("{reader}:{}", split.id),
            Action::End => "end".to_owned(),
            Action::RestartEnumerator { reader, .. } => format!("restart by {reader}"),
        })
        .collect()
}

fn with_open_readers(readers: u32) -> SplitAssignment {
    let mut machine = SplitAssignment::new(readers);
    for reader in 0..readers {
        assert_eq!(step(&mut machine, opened(reader, None, 0)), [""; 0]);
    }
    machine
}

#[test]
fn splits_go_to_whoever_has_the_fewest_and_one_ahead_at_most() {
    let mut machine = with_open_readers(2);
    let assigned = step(&mut machine, discovered(&["a", "b", "c", "d", "e", "f"]));
    assert_eq!(assigned, ["0:a", "1:b", "0:c", "1:d"]);
    assert_eq!(step(&mut machine, finished(1, 1)), ["1:e"]);
    assert_eq!(step(&mut machine, finished(1, 1)), [""; 0], "said twice");
    assert_eq!(step(&mut machine, finished(1, 3)), ["1:f"]);
}

#[test]
fn a_split_that_names_its_reader_goes_there_however_busy_that_is() {
    let mut machine = with_open_readers(2);
    let named = |name: &str, reader| Split {
        target: SplitTarget::Reader(reader),
        ..split(name)
    };
    let splits = vec![named("a", 1), named("b", 1), named("c", 1), named("d", 5)];
    let assigned = step(&mut machine, Event::Discovered(splits));
    assert_eq!(assigned, ["1:a", "1:b", "1:c", "1:d"]);
}

#[test]
fn unbounded_splits_are_spread_evenly_at_once() {
    let mut machine = with_open_readers(2);
    let unbounded = |name: &str| Split {
        is_unbounded: true,
        ..split(name)
    };
    let splits = ["a", "b", "c", "d", "e", "f"].map(unbounded).to_vec();
    let assigned = step(&mut machine, Event::Discovered(splits));
    assert_eq!(assigned, ["0:a", "1:b", "0:c", "1:d", "0:e", "1:f"]);
}

#[test]
fn a_split_that_was_seen_is_no_new_one() {
    let mut machine = with_open_readers(1);
    assert_eq!(step(&mut machine, discovered(&["a"])), ["0:a"]);
    assert_eq!(step(&mut machine, discovered(&["a", "b"])), ["0:b"]);
}

#[test]
fn the_end_comes_once_when_every_split_is_finished() {
    let mut machine = with_open_readers(1);
    step(&mut machine, discovered(&["a", "b"]));
    assert_eq!(step(&mut machine, Event::DiscoveryOver), [""; 0]);
    assert_eq!(step(&mut machine, finished(0, 1)), [""; 0]);
    assert_eq!(step(&mut machine, finished(0, 2)), ["end"]);
    assert_eq!(step(&mut machine, finished(0, 2)), [""; 0]);
}

#[test]
fn a_source_without_splits_ends_when_its_readers_are_there() {
    let mut machine = SplitAssignment::new(2);
    assert_eq!(step(&mut machine, Event::DiscoveryOver), [""; 0]);
    step(&mut machine, opened(0, None, 0));
    assert_eq!(step(&mut machine, opened(1, None, 0)), ["end"]);
}

// Proves F156, for the restart of the whole source.
#[test]
fn a_split_is_in_the_snapshot_of_the_enumerator_or_of_the_reader() {
    let mut machine = with_open_readers(1);
    step(&mut machine, discovered(&["a", "b", "c"]));
    let state = machine.snapshot();
    step(&mut machine, barrier(1));
    assert_eq!(
        step(&mut machine, finished(0, 1)),
        ["0:c"],
        "after the barrier"
    );
    // The reader restored a and b; c was assigned after the barrier and is assigned again.
    let mut restored = SplitAssignment::restore(1, state, CheckpointId(1));
    assert_eq!(step(&mut restored, opened(0, Some(1), 2)), [""; 0]);
    assert_eq!(step(&mut restored, finished(0, 1)), ["0:c"]);
    assert_eq!(step(&mut restored, discovered(&["a", "b", "c"])), [""; 0]);
}

// What F41 asks of splits: given back once, exactly those after the restored checkpoint.
#[test]
fn a_reset_reader_gives_back_what_was_sent_after_the_barrier_it_was_reset_to() {
    let mut machine = with_open_readers(2);
    step(&mut machine, discovered(&["a", "b", "c", "d"]));
    step(&mut machine, barrier(1));
    step(&mut machine, Event::Completed(CheckpointId(1)));
    step(&mut machine, finished(0, 2));
    assert_eq!(
        step(&mut machine, discovered(&["e", "f", "g"])),
        ["0:e", "0:f"]
    );
    step(&mut machine, barrier(2));
    assert_eq!(step(&mut machine, finished(0, 3)), ["0:g"]);
    // Back to 1, where it had a and c unfinished: e, f and g return and wait for room.
    assert_eq!(step(&mut machine, opened(0, Some(1), 2)), [""; 0]);
    assert_eq!(step(&mut machine, finished(0, 2)), ["0:e", "0:f"]);
    // The other reader may take what was returned.
    assert_eq!(step(&mut machine, finished(1, 2)), ["1:g"]);
}

#[test]
fn a_reader_reset_to_where_nobody_remembers_restarts_the_enumerator() {
    let mut machine = with_open_readers(1);
    step(&mut machine, discovered(&["a", "b"]));
    for id in [1, 2] {
        step(&mut machine, barrier(id));
        step(&mut machine, Event::Completed(CheckpointId(id)));
    }
    assert_eq!(step(&mut machine, opened(0, Some(1), 0)), ["restart by 0"]);
    assert_eq!(step(&mut machine, opened(0, None, 0)), ["restart by 0"]);
    assert_eq!(step(&mut machine, opened(0, Some(2), 2)), [""; 0]);
}

#[test]
fn a_reader_that_restored_more_than_its_enumerator_restarts_it() {
    let mut machine = SplitAssignment::new(1);
    assert_eq!(step(&mut machine, opened(0, Some(4), 1)), ["restart by 0"]);
}

#[test]
fn events_of_readers_that_do_not_exist_change_nothing() {
    let mut machine = with_open_readers(1);
    let before = machine.clone();
    step(&mut machine, opened(7, None, 0));
    step(&mut machine, finished(7, 9));
    assert_eq!(machine, before);
}

/// What readers have read, against a model of the whole source: whatever is reset to whichever
/// checkpoint, no split is lost and none is with two readers.
#[derive(Clone, Default)]
struct ModelReader {
    unfinished: Vec<String>,
    finished_total: u64,
    done: Vec<String>,
    snapshots: BTreeMap<u64, (Vec<String>, Vec<String>)>,
}

fn take(readers: &mut [ModelReader], assigned: Vec<String>) {
    for text in assigned.iter().filter(|text| text.contains(':')) {
        let (reader, name) = text.split_once(':').unwrap();
        readers[reader.parse::<usize>().unwrap()]
            .unfinished
            .push(name.to_owned());
    }
}

proptest! {
    #[test]
    fn no_split_is_lost_or_read_by_two_whatever_is_reset(
        script in prop::collection::vec((0u8..6, 0usize..3), 1..80)
    ) {
        let mut machine = with_open_readers(3);
        let mut readers = vec![ModelReader::default(); 3];
        let (mut next_split, mut next_barrier, mut completed) = (0, 1u64, 0u64);
        // A restart aborts every pending checkpoint: those never complete.
        let mut aborted = 0u64;
        for (what, reader) in script {
            let assigned = match what {
                0 => {
                    let name = format!("s{next_split}");
                    next_split += 1;
                    step(&mut machine, discovered(&[&name]))
                }
                1 | 2 => {
                    let state = &mut readers[reader];
                    if state.unfinished.is_empty() {
                        continue;
                    }
                    let name = state.unfinished.remove(0);
                    state.done.push(name);
                    state.finished_total += 1;
                    step(&mut machine, finished(reader as u32, state.finished_total))
                }
                3 => {
                    for state in &mut readers {
                        let snapshot = (state.unfinished.clone(), state.done.clone());
                        state.snapshots.insert(next_barrier, snapshot);
                    }
                    next_barrier += 1;
                    step(&mut machine, barrier(next_barrier - 1))
                }
                4 => {
                    if next_barrier - 1 <= aborted {
                        continue;
                    }
                    completed = next_barrier - 1;
                    step(&mut machine, Event::Completed(CheckpointId(completed)))
                }
                _ => {
                    if completed == 0 {
                        continue;
                    }
                    aborted = next_barrier - 1;
                    let state = &mut readers[reader];
                    (state.unfinished, state.done) = state.snapshots[&completed].clone();
                    state.finished_total = 0;
                    let unfinished = state.unfinished.len() as u64;
                    step(&mut machine, opened(reader as u32, Some(completed), unfinished))
                }
            };
            take(&mut readers, assigned);
            let mut all: Vec<String> = readers
                .iter()
                .flat_map(|state| state.unfinished.iter().chain(&state.done).cloned())
                .chain(machine.waiting.iter().map(|split| split.id.to_string()))
                .collect();
            all.sort();
            let mut expected: Vec<_> = (0..next_split).map(|n| format!("s{n}")).collect();
            expected.sort();
            prop_assert_eq!(all, expected);
        }
    }
}
