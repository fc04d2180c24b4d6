use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millstream_env::Env;
use millstream_state::SnapshotSource;
use millstream_testkit::{Fault, Faults};
use millstream_types::{CheckpointId, VertexId};

use super::*;
use crate::download::{self, DownloadError};
use crate::names::Nonce;
use crate::testing::{JOB, chaos, env};

const SUBTASK: SubtaskId = SubtaskId::new(VertexId(1), 0);
const DIR: CheckpointDir = CheckpointDir {
    checkpoint: CheckpointId(7),
    epoch: Epoch(3),
    nonce: Nonce(0xc0ffee),
};
const PRIVATE: Placement = Placement::Private(DIR, SUBTASK);

fn contents(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8).collect()
}

fn summary(contents: &[u8]) -> SnapshotSummary {
    SnapshotSummary {
        checkpoint: CheckpointId(7),
        bytes: contents.len() as u64,
        n_entries: 1,
        checksum: Checksum::of(contents),
    }
}

/// Uploads as a snapshot thread does, in chunks of 300 bytes.
async fn upload(store: &Store, contents: &[u8]) -> Result<StateHandle, StoreError> {
    let uploader = SnapshotUploader::new(store.clone(), 1_000);
    let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Inline, StopSignal::new());
    for chunk in contents.chunks(300) {
        sink.write(Bytes::copy_from_slice(chunk)).unwrap();
    }
    sink.finish(&summary(contents)).unwrap();
    upload.run().await
}

#[tokio::test(start_paused = true)]
async fn little_state_is_inlined_and_more_becomes_an_object() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    for size in [0, 1, 999, 1_000] {
        let handle = upload(&store, &contents(size)).await.unwrap();
        assert_eq!(handle, StateHandle::Inline(contents(size).into()));
    }
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
    let mut names = Vec::new();
    for size in [1_001, 2_000, 12_345] {
        let handle = upload(&store, &contents(size)).await.unwrap();
        let read = download::to_memory(&store, &handle, &StopSignal::new())
            .await
            .unwrap();
        assert_eq!(read.0, contents(size));
        assert!(
            handle
                .object()
                .unwrap()
                .as_str()
                .starts_with("chk-7/3-0000000000c0ffee/v1.0-")
        );
        names.push(handle.object().unwrap().clone());
    }
    names.sort();
    assert_eq!(store.list("", None, 10).await.unwrap().names, names);
}

#[tokio::test(start_paused = true)]
async fn shared_state_is_named_apart() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let uploader = SnapshotUploader::new(store, 0);
    let placement = Placement::Shared(Epoch(3), SUBTASK);
    let handle = uploader
        .upload(placement, "sst".into(), StopSignal::new())
        .await
        .unwrap();
    assert!(
        handle
            .object()
            .unwrap()
            .as_str()
            .starts_with("shared/3-v1.0-")
    );
}

#[tokio::test]
async fn a_snapshot_thread_waits_for_a_slow_upload() {
    let env = Env::real("test");
    let (_, store) = chaos(
        &env,
        Faults {
            delay: 1.0,
            ..Faults::NONE
        },
    );
    let uploader = SnapshotUploader::new(store.clone(), 1_000);
    let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Thread, StopSignal::new());
    let written = contents(60_000);
    let thread = env.spawner().thread("snapshot", move || {
        for chunk in written.chunks(500) {
            sink.write(Bytes::copy_from_slice(chunk))?;
        }
        sink.finish(&summary(&written))
    });
    let handle = upload.run().await.unwrap();
    thread.await.unwrap().unwrap();
    let read = download::to_memory(&store, &handle, &StopSignal::new())
        .await
        .unwrap();
    assert_eq!(read.0, contents(60_000));
}

// B10.13: an upload is aborted with its checkpoint, within a second.
#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_upload_at_once_and_leaves_nothing() {
    let env = env(1);
    let hour = Duration::from_secs(3_600);
    let slow = Faults {
        delay: 1.0,
        delay_range: hour..2 * hour,
        ..Faults::NONE
    };
    let (objects, store) = chaos(&env, Faults::NONE);
    let uploader = SnapshotUploader::new(store.clone(), 1_000);
    let cancel = StopSignal::new();
    let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Inline, cancel.clone());
    let upload = env.spawner().spawn("upload", upload.run());
    sink.write(contents(5_500).into()).unwrap();
    env.clock().sleep(Duration::from_secs(1)).await;
    objects.set_faults(slow);
    sink.write(contents(5_500).into()).unwrap();
    env.clock().sleep(Duration::from_secs(1)).await;

    cancel.cancel();
    let ended = env
        .clock()
        .timeout(Duration::from_secs(1), upload)
        .await
        .expect("in time");
    assert!(matches!(ended.unwrap(), Err(StoreError::Cancelled { .. })));
    assert!(matches!(
        sink.write("more".into()),
        Err(SinkError::Cancelled)
    ));
    objects.heal();
    env.clock().sleep(3 * hour).await;
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
}

// Proves F68: with parts stored, parts on their way, and whichever end gives up.
#[tokio::test(start_paused = true)]
async fn an_upload_that_is_aborted_leaves_no_parts_in_the_store_after_a_second() {
    let env = env(1);
    let latency = Duration::from_millis(300)..Duration::from_millis(301);
    let (objects, store) = chaos(
        &env,
        Faults {
            latency,
            ..Faults::NONE
        },
    );
    let mut n_begun = 0;
    for millis in [50, 350, 650, 1_000, 1_700] {
        for drops_the_sink in [false, true] {
            let uploader = SnapshotUploader::new(store.clone(), 1_000);
            let cancel = StopSignal::new();
            let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Inline, cancel.clone());
            let upload = env.spawner().spawn("upload", upload.run());
            sink.write(contents(50_500).into()).unwrap();
            env.clock().sleep(Duration::from_millis(millis)).await;
            assert!(!upload.is_finished(), "it is on its way");
            if drops_the_sink {
                drop(sink);
            } else {
                cancel.cancel();
            }
            // Parts that were handed over already may be waited for.
            let limit = match drops_the_sink {
                true => Duration::from_secs(30),
                false => Duration::from_secs(1),
            };
            let ended = env.clock().timeout(limit, upload).await.expect("in time");
            assert!(matches!(ended.unwrap(), Err(StoreError::Cancelled { .. })));
            env.clock().sleep(Duration::from_secs(1)).await;
            assert_eq!(objects.uploads().n_open, 0, "{millis} ms: parts are left");
            n_begun = objects.uploads().n_begun;
        }
    }
    assert!(n_begun >= 8, "{n_begun}");
    assert!(objects.uploads().n_parts > 20, "{:?}", objects.uploads());
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_given_up_completes_nothing() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    let uploader = SnapshotUploader::new(store.clone(), 1_000);
    let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Inline, StopSignal::new());
    sink.write(contents(5_500).into()).unwrap();
    drop(sink);
    assert!(matches!(
        upload.run().await,
        Err(StoreError::Cancelled { .. })
    ));
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_those_of_the_snapshot_are_not_stored() {
    let (_, store) = chaos(&env(1), Faults::NONE);
    for size in [10, 5_500] {
        let uploader = SnapshotUploader::new(store.clone(), 1_000);
        let (mut sink, upload) = uploader.begin(PRIVATE, Pace::Inline, StopSignal::new());
        sink.write(contents(size).into()).unwrap();
        sink.finish(&SnapshotSummary {
            checksum: Checksum(1),
            ..summary(&contents(size))
        })
        .unwrap();
        assert!(matches!(
            upload.run().await,
            Err(StoreError::Corrupt { .. })
        ));
    }
    assert_eq!(store.list("", None, 10).await.unwrap().names, []);
}

// HND-067: under errors an upload either succeeds, whole, or fails; a restore likewise.
#[tokio::test(start_paused = true)]
async fn whatever_the_store_does_a_handle_reads_back_what_was_written() {
    let (mut n_stored, mut hits) = (0, std::collections::BTreeMap::<Fault, u64>::new());
    for seed in 0..60 {
        let env = env(seed);
        let faults = Faults {
            bit_flip: 0.02,
            ..Faults::swarm(&env.rng().fork("faults"))
        };
        let (objects, store) = chaos(&env, faults);
        let written = contents(1_500 + 400 * seed as usize);
        if let Ok(handle) = upload(&store, &written).await {
            n_stored += 1;
            match download::to_memory(&store, &handle, &StopSignal::new()).await {
                Ok(read) => assert_eq!(read.0, written, "seed {seed}"),
                Err(error) => assert!(!matches!(error, StoreError::NotFound { .. }), "seed {seed}"),
            }
            objects.heal();
            let read = download::to_memory(&store, &handle, &StopSignal::new()).await;
            assert_eq!(read.unwrap().0, written, "seed {seed}");
        }
        for (fault, n) in objects.hits() {
            *hits.entry(fault).or_default() += n;
        }
    }
    assert!(n_stored > 20, "{n_stored}");
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::LandsLate,
        Fault::PartError,
    ] {
        assert!(hits.contains_key(&fault), "{fault:?} never happened");
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_fetched_into_a_file_that_no_crash_leaves_behind() {
    let env = env(1);
    let (_, store) = chaos(&env, Faults::NONE);
    let fs = env.fs().clone();
    let (dir, stop) = (Path::new("/state"), StopSignal::new());
    let handle = upload(&store.job(JOB), &contents(5_500)).await.unwrap();
    let mut source = download::to_file(&store.job(JOB), &handle, dir, &env, &stop)
        .await
        .unwrap();
    assert!(fs.list(dir).unwrap().is_empty());
    let mut buffer = [0; 100];
    source.read_at(4_000, &mut buffer).unwrap();
    assert_eq!(
        (source.byte_len(), &buffer[..]),
        (5_500, &contents(5_500)[4_000..4_100])
    );
    assert!(source.read_at(5_450, &mut buffer).is_err());

    let StateHandle::Object { name, size, .. } = handle else {
        panic!("an object")
    };
    let wrong = StateHandle::Object {
        name,
        size,
        checksum: Checksum(1),
    };
    let bad = download::to_file(&store.job(JOB), &wrong, dir, &env, &stop)
        .await
        .unwrap_err();
    assert!(
        matches!(bad, DownloadError::Store(StoreError::Corrupt { .. })),
        "{bad}"
    );

    stop.cancel();
    let inline = StateHandle::Inline(Arc::from(&b"x"[..]));
    let stopped = download::to_file(&store, &inline, dir, &env, &stop)
        .await
        .unwrap_err();
    assert!(
        matches!(stopped, DownloadError::Store(StoreError::Cancelled { .. })),
        "{stopped}"
    );
}
