use millstream_testkit::Faults;
use millstream_types::{SubtaskId, VertexId};

use super::*;
use crate::names::{CheckpointDir, Nonce};
use crate::testing::{chaos, env};

const SUBTASK: SubtaskId = SubtaskId::new(VertexId(1), 0);

fn dir(checkpoint: u64, epoch: u64, nonce: u64) -> CheckpointDir {
    let (checkpoint, epoch) = (CheckpointId(checkpoint), Epoch(epoch));
    CheckpointDir {
        checkpoint,
        epoch,
        nonce: Nonce(nonce),
    }
}

fn deletion(objects: Vec<ObjectName>, sweep: bool) -> Deletion {
    let (checkpoint, epoch) = (CheckpointId(7), Epoch(3));
    Deletion {
        ticket: 1,
        checkpoint,
        epoch,
        objects,
        sweep,
    }
}

/// What a crash leaves of an object that was being written, where storage is a directory.
fn unfinished(name: &ObjectName) -> ObjectName {
    let (folder, file) = name.as_str().rsplit_once('/').unwrap();
    ObjectName::new(&format!("{folder}/.{file}.00000000000000aa.tmp")).unwrap()
}

async fn stored(names: &[ObjectName]) -> Store {
    let (_, store) = chaos(&env(1), Faults::NONE);
    for name in names {
        store.create(name, "x".into()).await.unwrap();
    }
    store
}

async fn left(store: &Store) -> Vec<ObjectName> {
    store.list("", None, 100).await.unwrap().names
}

// HND-069: what a failed checkpoint left behind goes, also what nobody told of.
#[tokio::test(start_paused = true)]
async fn a_sweep_takes_all_tries_of_the_epoch_at_the_checkpoint_and_nothing_else() {
    let ours = [
        dir(7, 3, 1).private(SUBTASK, Nonce(1)),
        dir(7, 3, 1).metadata(),
        dir(7, 3, 2).private(SUBTASK, Nonce(2)),
        unfinished(&dir(7, 3, 2).private(SUBTASK, Nonce(7))),
    ];
    let others = [
        dir(7, 4, 1).private(SUBTASK, Nonce(3)),
        dir(8, 3, 1).private(SUBTASK, Nonce(4)),
        dir(70, 3, 1).private(SUBTASK, Nonce(5)),
        names::shared(Epoch(3), SUBTASK, Nonce(6)),
        ObjectName::new("chk-7/3-0000000000000001/notes.txt").unwrap(),
    ];
    let store = stored(&[&ours[..], &others[..]].concat()).await;
    let deleted = delete_checkpoint(&store, &deletion(vec![], true))
        .await
        .unwrap();
    assert_eq!(
        deleted,
        Deleted {
            n_objects: 4,
            kept: vec![]
        }
    );
    let mut expected = others.to_vec();
    expected.sort();
    assert_eq!(left(&store).await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_earlier_epochs_left_goes_and_what_the_chain_retains_stays() {
    let left_over = [
        dir(6, 2, 1).metadata(),
        dir(6, 2, 1).private(SUBTASK, Nonce(1)),
        dir(9, 2, 1).private(SUBTASK, Nonce(2)),
        names::shared(Epoch(2), SUBTASK, Nonce(7)),
        unfinished(&dir(9, 2, 1).private(SUBTASK, Nonce(3))),
        unfinished(&names::shared(Epoch(2), SUBTASK, Nonce(9))),
    ];
    let needed = [
        names::job_object(),
        names::chain(1),
        dir(7, 2, 1).metadata(),
        dir(7, 2, 2).private(SUBTASK, Nonce(3)),
        dir(11, 3, 1).private(SUBTASK, Nonce(4)),
        dir(12, 4, 1).private(SUBTASK, Nonce(5)),
        names::shared(Epoch(2), SUBTASK, Nonce(6)),
        names::shared(Epoch(3), SUBTASK, Nonce(8)),
        unfinished(&dir(12, 4, 1).private(SUBTASK, Nonce(6))),
        unfinished(&names::shared(Epoch(3), SUBTASK, Nonce(9))),
        unfinished(&names::chain(2)),
    ];
    let store = stored(&[&left_over[..], &needed[..]].concat()).await;
    let retained = [CheckpointId(7)].into();
    // Where it is not known which are in use, no shared one goes.
    assert_eq!(sweep(&store, Epoch(3), &retained, None).await.unwrap(), 5);
    let in_use = [names::shared(Epoch(2), SUBTASK, Nonce(6))].into();
    let swept = sweep(&store, Epoch(3), &retained, Some(&in_use)).await;
    assert_eq!(swept.unwrap(), 1);
    let mut expected = needed.to_vec();
    expected.sort();
    assert_eq!(left(&store).await, expected);
}

#[tokio::test(start_paused = true)]
async fn only_the_listed_objects_go_without_a_sweep_and_only_those_of_checkpoints() {
    let shared = names::shared(Epoch(3), SUBTASK, Nonce(6));
    let [told, untold] = [1, 2].map(|n| dir(7, 3, 1).private(SUBTASK, Nonce(n)));
    let hostile = [
        names::job_object(),
        names::chain(1),
        ObjectName::new("README").unwrap(),
    ];
    let store = stored(
        &[
            &[shared.clone(), told.clone(), untold.clone()],
            &hostile[..],
        ]
        .concat(),
    )
    .await;
    let objects = [&[shared, told], &hostile[..]].concat();
    let deleted = delete_checkpoint(&store, &deletion(objects.clone(), false))
        .await
        .unwrap();
    assert_eq!(
        deleted,
        Deleted {
            n_objects: 2,
            kept: hostile.to_vec()
        }
    );
    assert_eq!(left(&store).await.len(), 4);
    // The same again: what is gone is gone.
    assert_eq!(
        delete_checkpoint(&store, &deletion(objects, false))
            .await
            .unwrap()
            .n_objects,
        2
    );
}

// Fence F6: entries below the boundary go, the boundary and what follows stay.
#[tokio::test(start_paused = true)]
async fn the_chain_is_pruned_below_its_boundary() {
    let names: Vec<_> = (1..=9).map(names::chain).collect();
    let store = stored(&[&names[..], &[unfinished(&names::chain(3))]].concat()).await;
    assert_eq!(prune_chain(&store, EntryNumber(7)).await.unwrap(), 7);
    assert_eq!(left(&store).await, names[6..]);
    assert_eq!(prune_chain(&store, EntryNumber(7)).await.unwrap(), 0);
}
