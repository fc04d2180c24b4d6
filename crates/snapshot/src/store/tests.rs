use std::time::Duration;

use bytes::Bytes;
use millstream_testkit::{Fault, Faults};
use millstream_types::{Checksum, StateHandle};
use object_store::{ObjectStoreExt, PutPayload};

use super::*;
use crate::error::Mismatch;
use crate::names;
use crate::testing::{JOB, POLICY, chaos, env};

fn name(number: u64) -> ObjectName {
    names::chain(number)
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn what_was_created_is_read_and_never_replaced() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    store.create(&name(1), bytes("ours")).await.unwrap();
    // The same bytes again: an earlier attempt of ours.
    store.create(&name(1), bytes("ours")).await.unwrap();
    let other = store.create(&name(1), bytes("other")).await.unwrap_err();
    assert!(matches!(other, StoreError::Taken { .. }), "{other}");
    assert_eq!(store.get(&name(1), 100).await.unwrap(), bytes("ours"));
    assert_eq!(
        other.to_string(),
        "memory://test/cluster/chain/00000000000000000001 exists already and was written by another"
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_have_directories_of_their_own() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    store.job(JOB).create(&name(1), bytes("x")).await.unwrap();
    assert_eq!(store.head(&name(1)).await.unwrap(), None);
    let path = Path::from(format!("cluster/{JOB}/chain/00000000000000000001"));
    assert!(objects.inner().head(&path).await.is_ok());
    assert_eq!(store.list_jobs().await.unwrap(), [JOB]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_made_and_reported_as_failed_is_found_by_reading_back() {
    let (objects, store) = chaos(
        &env(1),
        Faults {
            error_after: 1.0,
            ..Faults::NONE
        },
    );
    store.create(&name(1), bytes("ours")).await.unwrap();
    assert!(objects.hits().contains_key(&Fault::ErrorAfter));
}

// HND-067: a store that answers nothing but 503 is an error with its name, in bounded time.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_in_an_open_outcome_within_the_limits() {
    let env = env(1);
    let (_, store) = chaos(
        &env,
        Faults {
            burst: 1.0,
            ..Faults::NONE
        },
    );
    let started_at = env.clock().monotonic();
    let error = store.create(&name(1), bytes("ours")).await.unwrap_err();
    assert_eq!(error.outcome(), WriteOutcome::MayHaveHappened);
    assert!(error.is_transient() && error.to_string().contains("memory://test/cluster/chain"));
    // The create, then the read-back.
    assert!(env.clock().monotonic() - started_at <= 2 * POLICY.operation_timeout);
    assert!(store.counters().attempts <= u64::from(2 * POLICY.attempts_max));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_at_the_deadline() {
    let env = env(1);
    let hour = Duration::from_secs(3_600);
    let faults = Faults {
        delay: 1.0,
        delay_range: hour..2 * hour,
        ..Faults::NONE
    };
    let (_, store) = chaos(&env, faults);
    let started_at = env.clock().monotonic();
    let error = store.get(&name(1), 100).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable { source: None, .. }),
        "{error}"
    );
    assert_eq!(error.outcome(), WriteOutcome::DidNotHappen);
    assert!(env.clock().monotonic() - started_at <= POLICY.operation_timeout);
}

#[tokio::test(start_paused = true)]
async fn a_late_write_is_never_taken_for_anothers() {
    for seed in 0..20 {
        let env = env(seed);
        let (objects, store) = chaos(
            &env,
            Faults {
                lands_late: 0.7,
                ..Faults::NONE
            },
        );
        let created = store.create(&name(1), bytes("ours")).await;
        if let Err(error) = &created {
            assert_eq!(
                error.outcome(),
                WriteOutcome::MayHaveHappened,
                "seed {seed}: {error}"
            );
        }
        objects.heal();
        env.clock().sleep(Duration::from_secs(10)).await;
        assert_eq!(
            store.get(&name(1), 100).await.unwrap(),
            bytes("ours"),
            "seed {seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn altered_and_cut_bytes_are_never_handed_out() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let (size, checksum) = (4, Checksum::of(b"ours"));
    store.create(&name(1), bytes("ours")).await.unwrap();

    objects.set_faults(Faults {
        bit_flip: 1.0,
        ..Faults::NONE
    });
    let corrupt = store
        .get_verified(&name(1), size, checksum)
        .await
        .unwrap_err();
    let StoreError::Corrupt {
        object,
        mismatch: Mismatch::Checksum { expected, .. },
    } = corrupt
    else {
        panic!("{corrupt}");
    };
    assert!(object.ends_with("chain/00000000000000000001"));
    assert_eq!(expected, checksum);

    objects.set_faults(Faults {
        short_read: 1.0,
        ..Faults::NONE
    });
    let short = store
        .get_verified(&name(1), size, checksum)
        .await
        .unwrap_err();
    assert!(short.is_transient(), "{short}");

    // One bad read is the link's fault.
    objects.set_faults(Faults {
        bit_flip: 0.3,
        short_read: 0.3,
        ..Faults::NONE
    });
    let mut n_good = 0;
    for _ in 0..50 {
        match store.get_verified(&name(1), size, checksum).await {
            Ok(read) => {
                assert_eq!(read, bytes("ours"));
                n_good += 1;
            }
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "{error}"),
        }
    }
    assert!(n_good > 30, "{n_good}");
}

#[tokio::test(start_paused = true)]
async fn a_longer_object_than_expected_is_not_read() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    store
        .create(&name(1), bytes("much too long"))
        .await
        .unwrap();
    let error = store.get(&name(1), 4).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains("13 bytes"));
}

#[tokio::test(start_paused = true)]
async fn a_large_object_appears_when_it_is_finished_and_reads_back_verified() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let contents: Vec<u8> = (0..10_500_u32).map(|i| (i % 251) as u8).collect();
    let mut upload = store.upload(&name(1));
    for chunk in contents.chunks(700) {
        upload.write(Bytes::copy_from_slice(chunk)).await.unwrap();
        assert_eq!(store.head(&name(1)).await.unwrap(), None);
    }
    let handle = upload.finish().await.unwrap();
    let (size, checksum) = (10_500, Checksum::of(&contents));
    assert_eq!(
        handle,
        StateHandle::Object {
            name: name(1),
            size,
            checksum
        }
    );

    let mut reader = store.reader(&name(1), size, checksum);
    let mut read = Vec::new();
    while let Some(part) = reader.next().await.unwrap() {
        read.extend_from_slice(&part);
    }
    assert_eq!(read, contents);
}

#[tokio::test(start_paused = true)]
async fn a_reader_ends_with_an_error_if_any_byte_differs_from_the_handle() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let mut upload = store.upload(&name(1));
    upload.write(Bytes::from(vec![7; 5_000])).await.unwrap();
    upload.finish().await.unwrap();

    let mut changed = vec![7; 5_000];
    changed[4_321] = 8;
    let mut reader = store.reader(&name(1), 5_000, Checksum::of(&changed));
    let ended = loop {
        match reader.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("verified"),
            Err(error) => break error,
        }
    };
    assert!(matches!(
        ended,
        StoreError::Corrupt {
            mismatch: Mismatch::Checksum { .. },
            ..
        }
    ));

    let mut reader = store.reader(&name(1), 5_001, Checksum::of(&changed));
    let ended = reader.next().await.unwrap_err();
    let expected = Mismatch::Length {
        expected: 5_001,
        found: 5_000,
    };
    assert!(matches!(ended, StoreError::Corrupt { mismatch, .. } if mismatch == expected));
}

#[tokio::test(start_paused = true)]
async fn a_failed_part_fails_the_upload_and_nothing_appears() {
    let (objects, store) = chaos(
        &env(1),
        Faults {
            part_error: 1.0,
            ..Faults::NONE
        },
    );
    let mut upload = store.upload(&name(1));
    let mut written = Ok(());
    while written.is_ok() {
        written = upload.write(Bytes::from(vec![7; 900])).await;
    }
    assert_eq!(written.unwrap_err().outcome(), WriteOutcome::DidNotHappen);
    drop(upload);
    objects.heal();
    assert_eq!(store.head(&name(1)).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_upload_whose_completion_was_reported_as_failed_is_found_by_its_length() {
    let (objects, store) = chaos(
        &env(1),
        Faults {
            error_after: 1.0,
            ..Faults::NONE
        },
    );
    let mut upload = store.upload(&name(1));
    upload.write(Bytes::from(vec![7; 2_500])).await.unwrap();
    assert_eq!(upload.finish().await.unwrap().size(), 2_500);
    assert_eq!(objects.hits()[&Fault::ErrorAfter], 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_paged_and_leaves_foreign_names_alone() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    for number in 1..=5 {
        store.create(&name(number), bytes("x")).await.unwrap();
    }
    let foreign = Path::from("cluster/chain/00000000000000000003 (copy)");
    objects
        .inner()
        .put(&foreign, PutPayload::from_static(b"x"))
        .await
        .unwrap();

    let (mut names, mut after, mut n_pages) = (Vec::new(), None, 0);
    loop {
        let page = store.list("chain", after.as_ref(), 2).await.unwrap();
        names.extend(page.names);
        n_pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, (1..=5).map(name).collect::<Vec<_>>());
    assert_eq!((n_pages, store.counters().foreign_names), (3, 1));
    let rest = store
        .list("chain", Some(&store.mark(&name(4))), 10)
        .await
        .unwrap();
    assert_eq!(rest.names, [name(5)]);
    assert!(objects.inner().head(&foreign).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn deleting_goes_on_until_everything_is_gone_and_missing_objects_are_gone() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let names: Vec<_> = (1..=20).map(name).collect();
    for name in &names {
        store.create(name, bytes("x")).await.unwrap();
    }
    objects.set_faults(Faults {
        delete_error: 0.3,
        ..Faults::NONE
    });
    store.delete(&names).await.unwrap();
    store.delete(&names).await.unwrap();
    objects.heal();
    assert_eq!(store.list("", None, 10).await.unwrap(), Listing::default());
}
