use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_coordination::chain::{Entry, verify};
use millstream_coordination::checkpoint::CheckpointKind;
use millstream_coordination::snapshot_types;
use millstream_env::Env;
use millstream_testkit::{ChaosStore, Fault, Faults};
use millstream_types::WallTime;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;

use super::*;
use crate::local::DurableDirectory;
use crate::testing::{JOB, POLICY, chaos, env, over};

const BLOCK: NonZeroU32 = NonZeroU32::new(10).unwrap();

fn metadata_of(epoch: Epoch, id: CheckpointId) -> CheckpointMetadata {
    CheckpointMetadata {
        job: JOB,
        checkpoint: snapshot_types::CompletedCheckpoint {
            id,
            epoch,
            kind: CheckpointKind::Periodic,
            triggered_at: WallTime(0),
            operators: BTreeMap::new(),
        },
        operator_names: BTreeMap::new(),
        properties: BTreeMap::new(),
    }
}

/// Stores the metadata of a checkpoint, as the coordinator does before it appends.
async fn store_metadata(
    store: &Store,
    epoch: Epoch,
    id: CheckpointId,
) -> Result<CompletedCheckpoint, MetadataError> {
    let dir = store.new_checkpoint_dir(id, epoch);
    let stored = metadata::write(&store.job(JOB), &dir, &metadata_of(epoch, id)).await?;
    Ok(CompletedCheckpoint {
        id,
        metadata: stored.name,
        checksum: stored.checksum,
    })
}

async fn complete(
    chain: &ChainHandle,
    store: &Store,
    epoch: Epoch,
    id: u64,
) -> Result<CompletedCheckpoint, ChainFailure> {
    let completed = store_metadata(store, epoch, CheckpointId(id))
        .await
        .unwrap();
    chain.append_completed(completed.clone()).await?;
    Ok(completed)
}

/// Two jobmanagers on one store in memory.
fn rivals(env: &Env) -> (ChaosStore<InMemory>, [(Store, ChainHandle); 2]) {
    let (objects, one) = chaos(env, Faults::NONE);
    let other = over(&env.component("other"), objects.clone());
    let both = [one, other].map(|store| {
        let chain = ChainHandle::open(&store, JOB, BLOCK, env);
        (store, chain)
    });
    (objects, both)
}

#[tokio::test(start_paused = true)]
async fn a_restart_restores_from_the_newest_completed_checkpoint() {
    let (_, [(store, chain), (_, restarted)]) = rivals(&env(1));
    let first = chain.begin().await.unwrap();
    assert_eq!((first.epoch, first.restore), (Epoch(1), None));
    complete(&chain, &store, Epoch(1), 1).await.unwrap();
    let newest = complete(&chain, &store, Epoch(1), 2).await.unwrap();
    let ids = chain.reserve(BLOCK).await.unwrap();
    assert_eq!(
        (first.ids.end, ids.first, ids.end),
        (ids.first, CheckpointId(11), CheckpointId(21))
    );

    let second = restarted.begin().await.unwrap();
    let restore = second.restore.unwrap();
    assert_eq!(
        (second.epoch, second.ids.first),
        (Epoch(2), CheckpointId(21))
    );
    assert_eq!(
        (restore.id(), restore.point.checkpoint),
        (CheckpointId(2), newest)
    );
    assert_eq!(restore.metadata, metadata_of(Epoch(1), CheckpointId(2)));
}

// Fence F4; a deposed jobmanager cannot complete a checkpoint (conformance F151).
#[tokio::test(start_paused = true)]
async fn whoever_lost_the_claim_is_fenced() {
    let (_, [(store, chain), (_, rival)]) = rivals(&env(1));
    chain.begin().await.unwrap();
    rival.begin().await.unwrap();
    let fenced = complete(&chain, &store, Epoch(1), 1).await.unwrap_err();
    assert!(matches!(fenced, ChainFailure::Fenced { .. }), "{fenced}");
    assert!(
        fenced
            .to_string()
            .contains("was written by another, in epoch 2"),
        "{fenced}"
    );
    // Whoever asks later is told the same, as what was fenced may have been a deletion, which nobody
    // waits for.
    let after = chain
        .append_terminal(TerminalState::Failed)
        .await
        .unwrap_err();
    assert_eq!(after.to_string(), fenced.to_string());
    assert!(matches!(after, ChainFailure::Fenced { .. }), "{after}");
    assert_eq!(chain.begin().await.unwrap().epoch, Epoch(3));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_chain_tells_whether_the_claim_is_still_the_newest() {
    let env = env(1);
    let (objects, [(store, chain), (_, rival)]) = rivals(&env);
    let not_claimed = chain.confirm().await.unwrap_err();
    assert!(
        matches!(not_claimed, ChainFailure::Rejected { .. }),
        "{not_claimed}"
    );
    chain.begin().await.unwrap();
    complete(&chain, &store, Epoch(1), 1).await.unwrap();
    assert_eq!(chain.confirm().await.unwrap(), Epoch(1));
    // A store that does not answer is no verdict: the look waits for it, and what comes behind it too.
    objects.set_faults(Faults {
        read_error: 1.0,
        ..Faults::NONE
    });
    let look = {
        let chain = chain.clone();
        env.spawner()
            .spawn("look", async move { chain.confirm().await })
    };
    env.clock().sleep(Duration::from_secs(100)).await;
    assert!(!look.is_finished());
    objects.heal();
    assert_eq!(look.await.unwrap().unwrap(), Epoch(1));

    rival.begin().await.unwrap();
    for _ in 0..2 {
        let fenced = chain.confirm().await.unwrap_err();
        assert!(matches!(fenced, ChainFailure::Fenced { .. }), "{fenced}");
    }
    assert_eq!(rival.confirm().await.unwrap(), Epoch(2));
}

// What was written lately is listed a while later: with a short chain, as every new job has, the
// listing may even be empty.
#[tokio::test(start_paused = true)]
async fn a_listing_that_is_behind_is_waited_for() {
    let env = env(1);
    let (objects, [(store, chain), (_, restarted)]) = rivals(&env);
    chain.begin().await.unwrap();
    complete(&chain, &store, Epoch(1), 1).await.unwrap();
    let boundary = chain.append_boundary(BLOCK).await.unwrap();
    crate::gc::prune_chain(&store.job(JOB), boundary.number)
        .await
        .unwrap();
    objects.set_faults(Faults {
        stale_list: 1.0,
        ..Faults::NONE
    });
    let before = env.clock().monotonic();
    let claimed = restarted.claim().await.unwrap();
    assert_eq!(claimed.restore.unwrap().id(), CheckpointId(1));
    let waited = env.clock().monotonic().saturating_since(before);
    assert!(waited < Duration::from_secs(12), "{waited:?}");
    assert!(objects.hits()[&Fault::StaleList] > 1);
}

// Fence F16; HND-062: a job that ended never comes back.
#[tokio::test(start_paused = true)]
async fn a_job_that_ended_cannot_be_claimed_again() {
    let (_, [(_, chain), (_, rival)]) = rivals(&env(1));
    chain.begin().await.unwrap();
    chain
        .append_terminal(TerminalState::Canceled)
        .await
        .unwrap();
    let refused = rival.begin().await.unwrap_err();
    let terminal = Refusal::Terminal {
        state: TerminalState::Canceled,
        completed: Vec::new(),
    };
    assert!(matches!(&refused, ChainFailure::Refused { refusal, .. } if *refusal == terminal));
    assert!(refused.remedy().contains("Submit the job anew"));
}

// F171: whoever cleans up after an ended job reads its chain and leaves it as it is.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_is_read_without_a_claim() {
    let (objects, [(store, chain), _]) = rivals(&env(1));
    let dir = store.job(JOB);
    assert_eq!(ended(&dir, JOB).await.unwrap(), None);
    let claimed = chain.begin().await.unwrap();
    complete(&chain, &store, claimed.epoch, 1).await.unwrap();
    complete(&chain, &store, claimed.epoch, 2).await.unwrap();
    assert_eq!(ended(&dir, JOB).await.unwrap(), None);
    chain.append_boundary(NonZeroU32::MIN).await.unwrap();
    let completed = chain.append_terminal(TerminalState::Canceled).await;
    let completed = completed.unwrap();
    assert_eq!(completed.len(), 1);
    let state = TerminalState::Canceled;
    let before = dir.list("chain", None, 100).await.unwrap().names;
    assert_eq!(
        ended(&dir, JOB).await.unwrap(),
        Some(Ended { state, completed })
    );
    assert_eq!(dir.list("chain", None, 100).await.unwrap().names, before);

    // The BOUNDARY is gone, which nobody deletes.
    dir.delete(&before[before.len() - 2..before.len() - 1])
        .await
        .unwrap();
    let error = ended(&dir, JOB).await.unwrap_err();
    assert!(
        matches!(error, EndedError::Chain(Refusal::Missing { .. })),
        "{error}"
    );
    objects.set_faults(Faults {
        burst: 1.0,
        ..Faults::NONE
    });
    let error = ended(&dir, JOB).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry, "{error}");
}

// Proves F153: a job object without a chain is a loss and never a new beginning.
#[tokio::test(start_paused = true)]
async fn a_job_whose_chain_is_gone_is_refused() {
    let (_, [(store, chain), (_, resumed)]) = rivals(&env(1));
    // Its object went with the chain, and somebody knows from elsewhere that it was stored.
    let refused = resumed.claim().await.unwrap_err();
    let no_chain = Refusal::NoChain;
    assert!(
        matches!(&refused, ChainFailure::Refused { refusal, .. } if *refusal == no_chain),
        "{refused}"
    );
    store
        .job(JOB)
        .create(&names::job_object(), "job".into())
        .await
        .unwrap();
    let refused = chain.begin().await.unwrap_err();
    assert!(
        matches!(
            &refused,
            ChainFailure::Refused {
                refusal: Refusal::NoChain,
                ..
            }
        ),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains(&format!("memory://test/cluster/{JOB}")),
        "{refused}"
    );
}

// HND-063: neither the older checkpoint nor an empty start in the place of the newest.
#[tokio::test(start_paused = true)]
async fn an_unreadable_newest_checkpoint_is_waited_for_and_never_passed_over() {
    let (objects, [(store, chain), (_, restarted)]) = rivals(&env(1));
    chain.begin().await.unwrap();
    complete(&chain, &store, Epoch(1), 1).await.unwrap();
    let newest = complete(&chain, &store, Epoch(1), 2).await.unwrap();

    let bytes = store.job(JOB).get(&newest.metadata, 1 << 20).await.unwrap();
    store
        .job(JOB)
        .delete(std::slice::from_ref(&newest.metadata))
        .await
        .unwrap();
    let gone = restarted.begin().await.unwrap_err();
    let ChainFailure::RestorePoint {
        checkpoint, source, ..
    } = &gone
    else {
        panic!("{gone}")
    };
    assert_eq!(*checkpoint, CheckpointId(2));
    assert!(source.to_string().contains("cannot be read"));

    store
        .job(JOB)
        .create(&newest.metadata, bytes)
        .await
        .unwrap();
    objects.set_faults(Faults {
        read_error: 0.5,
        ..Faults::NONE
    });
    let restore = restarted.begin().await.unwrap().restore.unwrap();
    assert_eq!(restore.id(), CheckpointId(2));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_store_says_so_and_ends_when_the_store_is_back() {
    let env = env(1);
    let (objects, [(_, chain), _]) = rivals(&env);
    chain.begin().await.unwrap();
    assert!(chain.trouble().is_none());
    objects.set_faults(Faults {
        error_before: 1.0,
        read_error: 1.0,
        ..Faults::NONE
    });
    let append = {
        let chain = chain.clone();
        env.spawner()
            .spawn("append", async move { chain.reserve(BLOCK).await })
    };
    env.clock().sleep(Duration::from_secs(300)).await;
    assert!(!append.is_finished());
    let trouble = chain.trouble().expect("the store fails");
    assert!(trouble.to_string().contains("/chain/"), "{trouble}");
    objects.heal();
    assert_eq!(append.await.unwrap().unwrap().first, CheckpointId(11));
    assert!(chain.trouble().is_none());
}

// Fence F6: entries below a BOUNDARY are deleted, the chain goes on, restore points are kept.
#[tokio::test(start_paused = true)]
async fn a_pruned_chain_is_claimed_as_before() {
    let (_, [(store, chain), (_, restarted)]) = rivals(&env(1));
    chain.begin().await.unwrap();
    for id in 1..=5 {
        complete(&chain, &store, Epoch(1), id).await.unwrap();
    }
    let boundary = chain
        .append_boundary(NonZeroU32::new(2).unwrap())
        .await
        .unwrap();
    assert_eq!(boundary.retained, [CheckpointId(4), CheckpointId(5)].into());
    assert_eq!(
        crate::gc::prune_chain(&store.job(JOB), boundary.number)
            .await
            .unwrap(),
        6
    );
    let claimed = restarted.begin().await.unwrap();
    assert_eq!(claimed.restore.unwrap().id(), CheckpointId(5));
}

#[tokio::test(start_paused = true)]
async fn a_new_claim_of_one_handle_gives_up_what_was_under_way() {
    let env = env(1);
    let (objects, [(_, chain), _]) = rivals(&env);
    chain.begin().await.unwrap();
    objects.set_faults(Faults {
        error_before: 1.0,
        read_error: 1.0,
        ..Faults::NONE
    });
    let append = {
        let chain = chain.clone();
        env.spawner()
            .spawn("append", async move { chain.reserve(BLOCK).await })
    };
    env.clock().sleep(Duration::from_secs(5)).await;
    objects.heal();
    assert_eq!(chain.begin().await.unwrap().epoch, Epoch(2));
    assert!(matches!(
        append.await.unwrap(),
        Err(ChainFailure::GivenUp { .. })
    ));
}

/// What the rivals were told, by entry: the metadata of the checkpoint that they appended.
type Announced = Arc<Mutex<BTreeMap<EntryNumber, CompletedCheckpoint>>>;

/// Claims, completes some checkpoints, and claims again when fenced or tired, until enough
/// checkpoints completed between all rivals.
async fn compete(
    env: Env,
    store: Store,
    chain: ChainHandle,
    announced: Announced,
    n_wanted: usize,
) {
    while announced.lock().len() < n_wanted {
        let Ok(claimed) = chain.begin().await else {
            env.clock()
                .sleep(env.rng().jitter(Duration::from_secs(1), 0.9))
                .await;
            continue;
        };
        for id in claimed.ids.first.0..claimed.ids.first.0 + env.rng().range(1..6) {
            let stored = store_metadata(&store, claimed.epoch, CheckpointId(id)).await;
            let Ok(completed) = stored else { break };
            match chain.append_completed(completed.clone()).await {
                Ok(number) => {
                    let before = announced.lock().insert(number, completed);
                    assert_eq!(before, None, "entry {number} was announced to two owners");
                }
                Err(ChainFailure::Fenced { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        env.clock()
            .sleep(env.rng().jitter(Duration::from_secs(2), 0.9))
            .await;
    }
}

async fn whole_chain(store: &Store) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 1.. {
        match store.job(JOB).get(&names::chain(number), 1 << 20).await {
            Ok(bytes) => entries.push(Entry::from_canonical_bytes(&bytes).unwrap()),
            Err(StoreError::NotFound { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    entries
}

/// Runs two rivals until 20 checkpoints are complete; the chain must then say what they were told.
async fn check_rivals(env: &Env, stores: [Store; 2], heal: impl FnOnce(), what: &str) {
    let announced = Announced::default();
    let run = |index: usize| {
        let env = env.component(&format!("rival-{index}"));
        let chain = ChainHandle::open(&stores[index], JOB, BLOCK, &env);
        Box::pin(compete(
            env,
            stores[index].clone(),
            chain,
            announced.clone(),
            20,
        ))
    };
    let both = async { futures::join!(run(0), run(1)) };
    // No livelock: this is a hundred times what a run without faults takes.
    let ended = env.clock().timeout(Duration::from_secs(3_600), both).await;
    ended.unwrap_or_else(|_| panic!("{what}: no progress, {} entries", announced.lock().len()));
    heal();
    env.clock().sleep(Duration::from_secs(10)).await;

    let entries = whole_chain(&stores[0]).await;
    verify(JOB, &entries).unwrap_or_else(|error| panic!("{what}: {error}"));
    for (number, completed) in announced.lock().iter() {
        let entry = &entries[number.0 as usize - 1];
        assert_eq!(
            entry.kind,
            EntryKind::Completed(completed.clone()),
            "{what}: {number:?}"
        );
    }
}

// I8, I10; fences F3 to F5: no double owner, nothing announced that is not in the chain, and no
// livelock, whatever subset of faults the store has.
#[tokio::test(start_paused = true)]
async fn two_rivals_agree_on_the_chain_under_every_mix_of_faults() {
    let mut hits: BTreeMap<Fault, u64> = BTreeMap::new();
    for seed in 0..24 {
        let env = env(seed);
        let (objects, one) = chaos(&env, Faults::swarm(&env.rng().fork("faults")));
        let other = over(&env.component("other"), objects.clone());
        let heal = || objects.heal();
        check_rivals(&env, [one, other], heal, &format!("seed {seed}")).await;
        for (fault, n) in objects.hits() {
            *hits.entry(fault).or_default() += n;
        }
    }
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::LandsLate,
        Fault::ReadError,
        Fault::StaleList,
        Fault::Burst,
    ] {
        assert!(hits.contains_key(&fault), "{fault:?} never happened");
    }
}

#[tokio::test(start_paused = true)]
async fn two_rivals_agree_on_the_chain_in_a_local_directory() {
    for seed in 0..4 {
        let env = env(seed);
        let stores = ["one", "other"].map(|name| {
            let env = env.component(name);
            let objects = Arc::new(DurableDirectory::new("/ckpt".into(), &env));
            Store::new(objects, "/ckpt", Path::default(), &env, POLICY)
        });
        check_rivals(&env, stores, || {}, &format!("directory, seed {seed}")).await;
    }
}
