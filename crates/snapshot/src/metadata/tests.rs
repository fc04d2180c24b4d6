use std::sync::Arc;

use millstream_coordination::checkpoint::CheckpointKind;
use millstream_coordination::snapshot_types::{KeyedHandle, OperatorState, OperatorSubtaskState};
use millstream_testkit::Faults;
use millstream_types::{Epoch, KeyGroup, KeyGroupRange, MaxParallelism, VertexId, WallTime};
use prost::Message;

use super::*;
use crate::envelope::EnvelopeFault;
use crate::names::Nonce;
use crate::pb;
use crate::testing::{JOB, chaos, env};

const DIR: CheckpointDir = CheckpointDir {
    checkpoint: CheckpointId(7),
    epoch: Epoch(3),
    nonce: Nonce(0xc0ffee),
};

fn object(name: &str, contents: &[u8]) -> StateHandle {
    StateHandle::Object {
        name: ObjectName::new(name).unwrap(),
        size: contents.len() as u64,
        checksum: Checksum::of(contents),
    }
}

fn keyed(first: u16, last: u16, handle: StateHandle) -> KeyedHandle {
    KeyedHandle {
        range: KeyGroupRange::new(KeyGroup(first), KeyGroup(last)).unwrap(),
        handle,
    }
}

fn operator(parallelism: u32, subtasks: Vec<OperatorSubtaskState>) -> OperatorState {
    OperatorState {
        vertex: VertexId(1),
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        fully_finished: subtasks.iter().all(|subtask| subtask.finished),
        subtasks: (0..).zip(subtasks).collect(),
    }
}

fn metadata(operators: Vec<(&str, OperatorState)>) -> CheckpointMetadata {
    let uid = |uid: &str| OperatorUid::new(uid).unwrap();
    CheckpointMetadata {
        job: JOB,
        checkpoint: CompletedCheckpoint {
            id: CheckpointId(7),
            epoch: Epoch(3),
            kind: CheckpointKind::Periodic,
            triggered_at: WallTime(1_700_000_000_000),
            operators: operators
                .into_iter()
                .map(|(id, state)| (uid(id), state))
                .collect(),
        },
        operator_names: [(uid("counts"), "count(*) by word".to_owned())].into(),
        properties: [("state.backend".to_owned(), "rocksdb".to_owned())].into(),
    }
}

/// A keyed operator of two subtasks, and a source of which one subtask had finished.
fn sample() -> CheckpointMetadata {
    let state = |keyed: Vec<KeyedHandle>, operator: Vec<StateHandle>, finished: bool| {
        OperatorSubtaskState {
            keyed,
            operator,
            finished,
        }
    };
    let inline = StateHandle::Inline(Arc::from(&b"split 4 at row 17"[..]));
    let file = object(
        "chk-7/3-0000000000c0ffee/v1.0-0000000000000001",
        b"keyed state",
    );
    let shared = object("shared/3-v1.1-0000000000000002.sst", b"more keyed state");
    metadata(vec![
        (
            "counts",
            operator(
                2,
                vec![
                    state(vec![keyed(0, 63, file)], vec![], false),
                    state(vec![keyed(64, 127, shared)], vec![], false),
                ],
            ),
        ),
        (
            "lines",
            operator(
                2,
                vec![
                    state(vec![], vec![inline], false),
                    state(vec![], vec![], true),
                ],
            ),
        ),
    ])
}

#[test]
fn what_was_encoded_is_decoded() {
    let empty = metadata(vec![]);
    for metadata in [
        sample(),
        CheckpointMetadata {
            operator_names: BTreeMap::new(),
            ..empty
        },
    ] {
        assert_eq!(decode(&encode(&metadata).unwrap()), Ok(metadata));
    }
}

/// The file written by the first release stays readable for ever. It is compared byte by byte, so
/// that a change of the format is a decision: it needs a new version and a new file.
#[test]
fn the_golden_file_of_version_1_is_what_is_written_and_read() {
    let golden = include_bytes!("../../tests/golden/metadata-v1.bin");
    assert_eq!(encode(&sample()).unwrap(), golden);
    assert_eq!(decode(golden), Ok(sample()));
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let bytes = encode(&sample()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bytes).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "cut to {length}");
    }
}

#[test]
fn a_later_version_is_refused_with_both_numbers_and_a_remedy() {
    let mut bytes = encode(&sample()).unwrap();
    bytes[9] = 2;
    let fault = decode(&bytes).unwrap_err();
    assert_eq!(
        fault,
        EnvelopeFault::Version {
            found: 2,
            newest: 1
        }
        .into()
    );
    assert_eq!(
        fault.to_string(),
        "it has format version 2, this build reads 1 to 1"
    );
    let error = MetadataError::Fault {
        object: "s3://b/x".into(),
        fault,
    };
    assert!(
        error.remedy().contains("version of Millstream"),
        "{}",
        error.remedy()
    );
}

/// Alters the message of the sample, puts a valid frame around it, and decodes.
fn check_refused(alter: impl FnOnce(&mut pb::CheckpointMetadata), expected: &str) {
    let mut message = pb::CheckpointMetadata::from(&sample());
    alter(&mut message);
    let bytes = file::sealed(&message.encode_to_vec());
    let fault = decode(&bytes).unwrap_err().to_string();
    assert!(fault.contains(expected), "{fault}");
}

fn first_object(message: &mut pb::CheckpointMetadata) -> &mut pb::ObjectHandle {
    let keyed = &mut message.operators[0].subtasks[0].keyed[0];
    match keyed.handle.as_mut().unwrap().place.as_mut().unwrap() {
        pb::state_handle::Place::Object(object) => object,
        pb::state_handle::Place::Inline(_) => panic!("the sample has an object there"),
    }
}

// docs/spec/bad-input.md, checkpoint metadata at restore; fence F21.
#[test]
fn hostile_fields_are_refused_by_name() {
    check_refused(
        |m| m.job_id = vec![1; 15].into(),
        "CheckpointMetadata.job_id has 15 bytes",
    );
    check_refused(
        |m| m.checkpoint_id = 0,
        "CheckpointMetadata.checkpoint_id is 0",
    );
    check_refused(|m| m.kind = 99, "CheckpointMetadata.kind is 99");
    check_refused(
        |m| m.operators[1] = m.operators[0].clone(),
        "uid counts twice",
    );
    check_refused(
        |m| m.properties = vec![m.properties[0].clone(); 2],
        "\"state.backend\" twice",
    );
    check_refused(
        |m| m.operators[0].uid = "../x".into(),
        "OperatorMetadata.uid",
    );
    check_refused(
        |m| m.operators[0].max_parallelism = 40_000,
        "40000, outside 1 to 32768",
    );
    check_refused(
        |m| m.operators[0].parallelism = 0,
        "2 elements where parallelism is 0",
    );
    check_refused(
        |m| m.operators[0].parallelism = 129,
        "parallelism 129 is above",
    );
    check_refused(
        |m| drop(m.operators[0].subtasks.pop()),
        "1 elements where parallelism is 2",
    );
    let escape = |name: &'static str| {
        check_refused(|m| first_object(m).name = name.into(), "ObjectHandle.name");
    };
    for name in [
        "../other/x",
        "/etc/passwd",
        "a/../../b",
        "s3://b/x",
        "a%2f..",
        "",
    ] {
        escape(name);
    }
    check_refused(
        |m| first_object(m).checksum = vec![0; 4].into(),
        "has 4 bytes, not 16",
    );
    let handle = |m: &mut pb::CheckpointMetadata, handle| {
        m.operators[0].subtasks[0].keyed[0].handle = handle;
    };
    check_refused(|m| handle(m, None), "KeyedState.handle is missing");
    let nowhere = pb::StateHandle { place: None };
    check_refused(|m| handle(m, Some(nowhere)), "StateHandle.place is missing");
}

#[test]
fn key_groups_are_covered_once_each() {
    let keyed = |m: &mut pb::CheckpointMetadata, subtask: usize, first, last| {
        let keyed = &mut m.operators[0].subtasks[subtask].keyed[0];
        (keyed.first_key_group, keyed.last_key_group) = (first, last);
    };
    check_refused(
        |m| keyed(m, 1, 63, 127),
        "key group 63 of operator counts is in two pieces",
    );
    check_refused(
        |m| keyed(m, 1, 65, 127),
        "key group 64 of operator counts is in no piece",
    );
    check_refused(
        |m| keyed(m, 0, 1, 63),
        "key group 0 of operator counts is in no piece",
    );
    check_refused(
        |m| keyed(m, 1, 64, 126),
        "key group 127 of operator counts is in no piece",
    );
    check_refused(
        |m| keyed(m, 1, 64, 128),
        "is 128, and counts has 128 key groups",
    );
    check_refused(|m| keyed(m, 1, 70, 69), "makes 70..=69 no range");
    check_refused(|m| keyed(m, 1, 64, 70_000), "makes 64..=70000 no range");
    check_refused(
        |m| m.operators[0].subtasks[1].keyed.clear(),
        "key group 64 of operator counts",
    );
    let again = |m: &mut pb::CheckpointMetadata, first| {
        let subtask = &mut m.operators[0].subtasks[1];
        let mut file = subtask.keyed[0].clone();
        file.first_key_group = first;
        subtask.keyed.push(file);
    };
    check_refused(
        |m| again(m, 65),
        "key group 65 of operator counts is in two pieces",
    );
}

#[test]
fn several_files_of_one_subtask_and_range_are_one_piece() {
    let mut metadata = sample();
    let uid = OperatorUid::new("counts").unwrap();
    let operator = metadata.checkpoint.operators.get_mut(&uid).unwrap();
    let subtask = operator.subtasks.get_mut(&1).unwrap();
    subtask.keyed.push(subtask.keyed[0].clone());
    let bytes = encode(&metadata).unwrap();
    assert_eq!(decode(&bytes).unwrap(), metadata);
}

#[test]
fn only_finished_subtasks_may_have_no_keyed_state() {
    let mut metadata = sample();
    let uid = OperatorUid::new("counts").unwrap();
    let operator = metadata.checkpoint.operators.get_mut(&uid).unwrap();
    let subtask = operator.subtasks.get_mut(&1).unwrap();
    subtask.keyed.clear();
    let hole = MetadataFault::Hole {
        operator: "counts".into(),
        group: KeyGroup(64),
    };
    let mut finished = metadata.clone();
    assert_eq!(encode(&metadata), Err(hole));
    let operator = finished.checkpoint.operators.get_mut(&uid).unwrap();
    operator.subtasks.get_mut(&1).unwrap().finished = true;
    assert!(encode(&finished).is_ok());
}

#[test]
fn a_foreign_checkpoint_under_our_name_is_refused() {
    let other = JobId::from_bytes([9; 16]);
    let wrong_job = sample().check_identity(other, CheckpointId(7)).unwrap_err();
    assert!(matches!(
        wrong_job,
        MetadataFault::Identity { what: "job", .. }
    ));
    let wrong_id = sample().check_identity(JOB, CheckpointId(8)).unwrap_err();
    assert_eq!(
        wrong_id.to_string(),
        "it is of checkpoint 7, and 8 was asked for"
    );
    assert_eq!(sample().check_identity(JOB, CheckpointId(7)), Ok(()));
}

// B12: a moved directory restores.
#[tokio::test(start_paused = true)]
async fn stored_metadata_is_read_from_wherever_its_directory_is() {
    let env = env(1);
    let (_, store) = chaos(&env, Faults::NONE);
    let stored = write(&store.job(JOB), &DIR, &sample()).await.unwrap();
    let bytes = store
        .job(JOB)
        .get(&stored.name, METADATA_BYTES_MAX)
        .await
        .unwrap();
    assert_eq!(
        (stored.size, stored.checksum),
        (bytes.len() as u64, Checksum::of(&bytes))
    );

    let elsewhere = store.job(JobId::from_bytes([9; 16]));
    elsewhere.create(&stored.name, bytes).await.unwrap();
    let read = read(&elsewhere, &stored.name, Some(stored.checksum))
        .await
        .unwrap();
    assert_eq!(read, sample());
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_checksum_than_the_chain_has_is_corrupt() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let stored = write(&store, &DIR, &sample()).await.unwrap();
    let other = read(&store, &stored.name, Some(Checksum(1)))
        .await
        .unwrap_err();
    assert!(
        matches!(other, MetadataError::Store(StoreError::Corrupt { .. })),
        "{other}"
    );

    // What only the link altered is read again.
    objects.set_faults(Faults {
        bit_flip: 0.5,
        ..Faults::NONE
    });
    let mut n_good = 0;
    for _ in 0..40 {
        match read(&store, &stored.name, Some(stored.checksum)).await {
            Ok(metadata) => {
                assert_eq!(metadata, sample());
                n_good += 1;
            }
            Err(error) => assert!(error.may_be_the_link(), "{error}"),
        }
    }
    assert!(n_good > 20, "{n_good}");
}

// Fence F21: nothing starts before every object is known to be there.
#[tokio::test(start_paused = true)]
async fn verification_names_what_is_missing_or_of_another_length() {
    let (objects, store) = chaos(&env(1), Faults::NONE);
    let names: Vec<ObjectName> = sample().checkpoint.objects().cloned().collect();
    let missing = verify(&store, &sample()).await.unwrap_err();
    assert!(matches!(
        missing,
        MetadataError::Objects {
            n_bad: 2,
            n_objects: 2,
            ..
        }
    ));

    store.create(&names[0], "keyed state".into()).await.unwrap();
    store.create(&names[1], "short".into()).await.unwrap();
    let differs = verify(&store, &sample()).await.unwrap_err().to_string();
    assert!(
        differs.starts_with("checkpoint metadata names 1 objects of 2"),
        "{differs}"
    );
    assert!(
        differs.contains("shared/3-v1.1") && differs.contains("5 bytes"),
        "{differs}"
    );

    store.delete(&names[1..]).await.unwrap();
    store
        .create(&names[1], "more keyed state".into())
        .await
        .unwrap();
    verify(&store, &sample()).await.unwrap();

    // HND-063: a store that does not answer is no verdict.
    objects.set_faults(Faults {
        burst: 1.0,
        ..Faults::NONE
    });
    let outage = verify(&store, &sample()).await.unwrap_err();
    assert!(
        matches!(&outage, MetadataError::Store(error) if error.is_transient()),
        "{outage}"
    );
}
