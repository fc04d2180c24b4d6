//! What judges a run is judged: each thing that must not be is shown to it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use millstream_coordination::chain::{
    CheckpointIds, CompletedCheckpoint, Entry, EntryKind, EntryNumber, TerminalState, WriterNonce,
};
use millstream_env::fs::{Fs, MemoryFs};
use millstream_types::{CheckpointId, Checksum, Epoch, JobId, ObjectName};
use object_store::ObjectStoreExt;

use crate::chain::ChainWatch;
use crate::host::Control;
use crate::journal::{Journal, Restored};
use crate::leftovers::left_over;
use crate::options::{OUTPUT, Options};
use crate::output::OutputWatch;
use crate::recorder::Recorder;

const JOB: JobId = JobId::from_bytes([7; 16]);

/// With the ids of this block.
fn claim(block: u64) -> EntryKind {
    let ids = CheckpointIds::block(CheckpointId(1 + 32 * block), 32);
    EntryKind::Claim { ids }
}

/// A chain of these epochs and kinds, from number 1 on.
fn chain(entries: &[(u64, EntryKind)]) -> Vec<Entry> {
    let mut prev = Entry::root(JOB);
    let numbered = (1..).zip(entries);
    let chain = numbered.map(|(number, (epoch, kind))| {
        let entry = Entry {
            number: EntryNumber(number),
            prev,
            epoch: Epoch(*epoch),
            nonce: WriterNonce(9),
            kind: kind.clone(),
        };
        prev = entry.hash();
        entry
    });
    chain.collect()
}

fn put(store: &Recorder, name: &str, bytes: Vec<u8>) {
    let path = object_store::path::Path::from(format!("{JOB}/{name}"));
    block_on(store.put(&path, Bytes::from(bytes).into())).unwrap();
}

fn judged(entries: &[Entry]) -> Result<(), String> {
    let store = Recorder::default();
    for entry in entries {
        let name = format!("chain/{:020}", entry.number.0);
        put(&store, &name, entry.canonical_bytes());
    }
    ChainWatch::new(JOB, 2).look(&store)
}

fn assert_found(result: Result<(), String>, rule: &str) {
    let violation = result.unwrap_err();
    assert!(violation.starts_with(rule), "{violation}");
}

#[test]
fn a_chain_must_have_no_gap_and_rising_epochs_and_an_end() {
    let terminal = EntryKind::Terminal(TerminalState::Finished);
    let good = chain(&[(1, claim(1)), (2, claim(2)), (2, terminal.clone())]);
    assert_eq!(judged(&good), Ok(()));
    assert_found(judged(&good[1..]), "I8");
    assert_found(judged(&[good[0].clone(), good[2].clone()]), "I8");
    assert_found(judged(&chain(&[(1, claim(1)), (1, claim(1))])), "I8");
    assert_found(
        judged(&chain(&[(1, claim(1)), (2, terminal.clone())])),
        "I8",
    );
    let again = chain(&[(1, claim(1)), (2, claim(1))]);
    assert_found(judged(&again), "I9");
    let after = chain(&[(1, claim(1)), (1, terminal), (2, claim(2))]);
    assert_found(judged(&after), "I18");
    let mut torn = good.clone();
    torn[1].prev = Checksum(0);
    assert_found(judged(&torn), "I8");
}

#[test]
fn a_checkpoint_must_have_its_metadata_and_a_name_one_content() {
    let completed = EntryKind::Completed(CompletedCheckpoint {
        id: CheckpointId(1),
        metadata: ObjectName::new("chk-1/1-00000000000000ff/_metadata").unwrap(),
        checksum: Checksum(1),
    });
    assert_found(judged(&chain(&[(1, claim(1)), (1, completed)])), "I9");
    let store = Recorder::default();
    put(
        &store,
        "chk-1/1-00000000000000ff/v0.0-00000000000000ff",
        vec![1],
    );
    put(
        &store,
        "chk-1/1-00000000000000ff/v0.0-00000000000000ff",
        vec![2],
    );
    assert_found(ChainWatch::new(JOB, 2).look(&store), "F9");
}

#[test]
fn an_epoch_must_begin_from_what_was_newest_at_its_claim() {
    let store = Recorder::default();
    let entry = &chain(&[(1, claim(1))])[0];
    put(
        &store,
        "chain/00000000000000000001",
        entry.canonical_bytes(),
    );
    let mut watch = ChainWatch::new(JOB, 2);
    watch.look(&store).unwrap();
    let restored = |epoch, checkpoint| Restored { epoch, checkpoint };
    assert_eq!(watch.check_restore(restored(1, None)), Ok(()));
    assert_found(watch.check_restore(restored(1, Some(3))), "I10");
    assert_found(watch.check_restore(restored(2, None)), "I10");
}

#[test]
fn what_is_called_completed_must_be_on_the_chain() {
    let watch = ChainWatch::new(JOB, 2);
    assert_found(watch.check_completion(1), "F5");
}

#[test]
fn a_nonce_must_be_in_one_name() {
    let names = |first: &str, second: &str| {
        let store = Recorder::default();
        put(&store, first, vec![1]);
        put(&store, second, vec![1]);
        ChainWatch::new(JOB, 2).look(&store)
    };
    let private = |subtask, nonce| format!("chk-1/1-00000000000000ff/v0.{subtask}-{nonce:016x}");
    assert_eq!(names(&private(0, 1), &private(1, 2)), Ok(()));
    assert_found(names(&private(0, 1), &private(1, 1)), "F9");
}

#[test]
fn a_taskmanager_must_not_go_back_to_an_epoch_nor_run_two_at_once() {
    let journal = Journal::default();
    let ready = |host: &str, epoch| {
        let line = format!("INFO serve name={host}: job process ready leader_epoch={epoch} a=b");
        journal.note(Duration::ZERO, &line);
    };
    ready("tm1", 3);
    ready("tm2", 2);
    journal.forget("tm1");
    ready("tm1", 2);
    assert_eq!(journal.obeyed_stale(), None);
    ready("tm2", 1);
    assert!(journal.obeyed_stale().unwrap().starts_with("F1: tm2"));

    let control = Control::new("tm1", true);
    for epoch in [1, 1, 2] {
        control.stages("out.0", epoch);
    }
    control.commits("out.0", 2);
    control.commits("out.1", 1);
    assert_eq!(control.accused(), None);
    control.commits("out.0", 1);
    assert!(control.accused().unwrap().starts_with("F13"));
    control.stages("out.1", 1);
    assert!(control.accused().unwrap().starts_with("F7"));
}

/// What a program is built with, by the words of cargo.
fn features(edges: &str) -> String {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["tree", "--workspace", "--locked", "--offline"])
        .args(["--edges", edges, "--invert", "millstream-types"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_program_is_built_with_rules_that_can_be_taken_away() {
    assert!(features("normal,dev,features").contains("\"sabotage\""));
    assert!(!features("normal,build,features").contains("sabotage"));
}

#[test]
fn output_must_be_right_and_must_stay() {
    let memory = MemoryFs::default();
    let files: &dyn Fs = &memory;
    files.create_dir_all(Path::new(OUTPUT)).unwrap();
    let mut watch = OutputWatch::new(&Options::of(1), memory.clone());
    let path =
        |n: u32| Path::new(OUTPUT).join(format!("part-out-00000-000000000{n}-0f-000000.csv"));
    files.write_new(&path(1), b"key,n,sum\n0,1,1\n").unwrap();
    assert_eq!(watch.look(), [""; 0]);
    assert_eq!(
        watch.promised_by().map(|(_, id)| id).collect::<Vec<_>>(),
        [1]
    );
    files.write_new(&path(2), b"key,n,sum\n0,2,4\n").unwrap();
    assert!(watch.look()[0].starts_with("wrong-sum"));
    files.remove(&path(1)).unwrap();
    assert!(watch.look()[1].starts_with("file-vanished"));
}

#[test]
fn what_a_power_cut_takes_must_come_back_as_it_was() {
    let (memory, contents) = (MemoryFs::default(), &b"key,n,sum\n0,1,1\n"[..]);
    let path = Path::new(OUTPUT).join("part-out-00000-0000000001-0f-000000.csv");
    let files: &dyn Fs = &memory;
    files.create_dir_durable(Path::new(OUTPUT)).unwrap();
    let write = |contents: &[u8]| files.write_new(&path, contents).unwrap();
    write(contents);
    let mut watch = OutputWatch::new(&Options::of(1), memory.clone());
    assert_eq!(watch.look(), [""; 0]);
    // The name was not durable.
    memory.crash();
    watch.power_cut();
    assert_eq!(watch.look(), [""; 0]);
    let gone = watch.conclude();
    assert!(
        gone.iter().any(|text| text.contains("did not come back")),
        "{gone:?}"
    );

    let mut watch = OutputWatch::new(&Options::of(1), memory.clone());
    write(contents);
    assert_eq!(watch.look(), [""; 0]);
    memory.crash();
    watch.power_cut();
    write(b"key,n,sum\n0,1,2\n");
    assert!(!watch.look().is_empty(), "it came back with other contents");
}

#[test]
fn what_is_left_of_a_job_that_ended_is_seen() {
    let dir = "chk-1/1-00000000000000aa";
    let kept = ["job", "chain/00000000000000000007", "README"];
    let left = [
        format!("{dir}/_metadata"),
        format!("{dir}/v0.0-00000000000000bb"),
        "shared/1-v0.0-00000000000000cc.sst".to_owned(),
    ];
    let store = Recorder::default();
    for name in kept.into_iter().chain(left.iter().map(String::as_str)) {
        put(&store, name, b"x".to_vec());
    }
    let mark = object_store::path::Path::from(format!("_uncleaned/{JOB}"));
    block_on(store.put(&mark, Bytes::from_static(b"x").into())).unwrap();
    let found = left_over(&store, JOB);
    assert!(found[0].contains("the result of"), "{found:?}");
    put(&store, "result", b"x".to_vec());
    let mut expected: Vec<_> = left.iter().map(|name| format!("{JOB}/{name}")).collect();
    expected.push(mark.to_string());
    let mut found = left_over(&store, JOB);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
