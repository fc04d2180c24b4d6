use millstream_types::WallTime;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutMode};

use super::*;

fn store(faults: Faults) -> (ChaosStore<InMemory>, Clock) {
    let clock = Clock::simulated(WallTime(0));
    let rng = Rng::from_seed(7);
    (
        ChaosStore::new(InMemory::new(), faults, clock.clone(), rng),
        clock,
    )
}

async fn create(store: &dyn ObjectStore, name: &str, bytes: &'static [u8]) -> Result<PutResult> {
    let payload = PutPayload::from_static(bytes);
    store
        .put_opts(&Path::from(name), payload, PutMode::Create.into())
        .await
}

async fn listed(store: &dyn ObjectStore) -> Vec<String> {
    let metas: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
    metas
        .into_iter()
        .map(|meta| meta.location.to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_error_before_leaves_nothing_and_an_error_after_leaves_the_object() {
    let (store, _) = store(Faults {
        error_before: 1.0,
        ..Faults::NONE
    });
    assert!(create(&store, "a", b"1").await.is_err());
    assert!(store.inner().head(&Path::from("a")).await.is_err());

    store.set_faults(Faults {
        error_after: 1.0,
        ..Faults::NONE
    });
    assert!(create(&store, "a", b"1").await.is_err());
    assert!(store.inner().head(&Path::from("a")).await.is_ok());
    assert_eq!(store.hits()[&Fault::ErrorAfter], 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_write_is_seen_once_its_time_has_come_and_loses_against_an_earlier_one() {
    let (store, clock) = store(Faults {
        lands_late: 1.0,
        ..Faults::NONE
    });
    assert!(create(&store, "a", b"late").await.is_err());
    assert!(create(&store, "b", b"late").await.is_err());
    store.heal();
    assert!(store.head(&Path::from("a")).await.is_err());
    create(&store, "b", b"early").await.unwrap();

    clock.sleep(Duration::from_secs(5)).await;
    let read = |name: &'static str| {
        let store = store.clone();
        async move {
            store
                .get(&Path::from(name))
                .await
                .unwrap()
                .bytes()
                .await
                .unwrap()
        }
    };
    assert_eq!(read("a").await.as_ref(), b"late");
    assert_eq!(read("b").await.as_ref(), b"early");
}

#[tokio::test(start_paused = true)]
async fn a_stale_listing_leaves_out_what_is_new_and_only_that() {
    let (store, clock) = store(Faults {
        stale_list: 1.0,
        ..Faults::NONE
    });
    create(&store, "old", b"").await.unwrap();
    clock.sleep(Duration::from_secs(6)).await;
    create(&store, "new", b"").await.unwrap();
    assert_eq!(listed(&store).await, ["old"]);
    store.heal();
    assert_eq!(listed(&store).await, ["new", "old"]);
}

#[tokio::test(start_paused = true)]
async fn during_a_burst_every_request_fails_and_then_it_is_over() {
    let (store, clock) = store(Faults {
        burst: 1.0,
        ..Faults::NONE
    });
    assert!(create(&store, "a", b"").await.is_err());
    store.shared.state.lock().faults.burst = 0.0;
    assert!(store.list(None).try_collect::<Vec<_>>().await.is_err());
    clock.sleep(Duration::from_secs(2)).await;
    create(&store, "a", b"").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reads_are_cut_or_altered_by_one_bit() {
    let (store, _) = store(Faults::NONE);
    create(&store, "a", &[0; 100]).await.unwrap();
    let read = || async {
        store
            .get(&Path::from("a"))
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
    };

    store.set_faults(Faults {
        bit_flip: 1.0,
        ..Faults::NONE
    });
    let flipped: u32 = read().await.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(flipped, 1);

    store.set_faults(Faults {
        short_read: 1.0,
        ..Faults::NONE
    });
    assert!(read().await.len() < 100);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_faults() {
    async fn run(seed: u64) -> Vec<bool> {
        let clock = Clock::simulated(WallTime(0));
        let rng = Rng::from_seed(seed);
        let faults = Faults {
            error_before: 0.3,
            error_after: 0.3,
            ..Faults::NONE
        };
        let store = ChaosStore::new(InMemory::new(), faults, clock, rng);
        let mut outcomes = Vec::new();
        for n in 0..50 {
            outcomes.push(create(&store, &format!("o{n}"), b"").await.is_ok());
        }
        outcomes
    }
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_lie_about_before_it_is_served_or_its_answer_afterwards() {
    let stalled = Faults {
        stall_range: Duration::from_secs(5)..Duration::from_secs(6),
        ..Faults::NONE
    };
    let (store, clock) = store(Faults {
        stall: 1.0,
        ..stalled.clone()
    });
    let limit = Duration::from_secs(1);
    let waited = clock.timeout(limit, create(&store, "a", b"1")).await;
    assert!(waited.is_err());
    store.set_faults(Faults {
        answer_stall: 1.0,
        ..stalled
    });
    let waited = clock.timeout(limit, create(&store, "b", b"1")).await;
    assert!(waited.is_err());
    assert_eq!(listed(store.inner()).await, ["b"]);
    let hits = store.hits();
    assert_eq!((hits[&Fault::Stall], hits[&Fault::AnswerStall]), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn every_request_takes_its_time_on_the_store_s_clock() {
    let (store, clock) = store(Faults {
        latency: Duration::from_millis(20)..Duration::from_millis(30),
        ..Faults::NONE
    });
    create(&store, "a", b"1").await.unwrap();
    let passed = clock.monotonic().as_millis();
    assert!((20..32).contains(&passed), "{passed}");
}
