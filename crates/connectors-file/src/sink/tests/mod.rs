//! A sink's files from writing to commit, and what happens when something goes wrong.

mod format;
mod parquet_files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, SchemaRef};
use millstream_batch::Batch;
use millstream_env::fs::{MemoryFs, RealFs};
use millstream_graph::{FileFormat, SinkFormat};
use millstream_operator::{CommitFailure, Committable, ErrorKind, OperatorInfo};
use millstream_types::{CheckpointId, Disposition, Epoch, MaxParallelism, OperatorUid};

use crate::testing::{files, put, read, schema, source};

use super::*;

const JOB: JobId = JobId::from_bytes([7; 16]);
const JSON: SinkFormat = SinkFormat::JsonLines;

fn info(subtask_index: u32, parallelism: u32) -> OperatorInfo {
    OperatorInfo {
        uid: OperatorUid::new("out.v1").unwrap(),
        name: "out".to_owned(),
        subtask_index,
        parallelism,
        max_parallelism: MaxParallelism::new(128).unwrap(),
        attempt: 0,
        epoch: Epoch(3),
        inputs: Vec::new(),
        output: schema(&[]),
    }
}

fn config(format: SinkFormat) -> FileSink {
    FileSink {
        path: "/out".to_owned(),
        format,
        roll_bytes: 1 << 20,
    }
}

fn numbers(range: std::ops::Range<i64>) -> Batch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
    Batch::new(RecordBatch::try_from_iter([("n", column)]).unwrap())
}

fn numbers_schema() -> SchemaRef {
    schema(&[("n", DataType::Int64)])
}

/// A sink of subtask `index` of 2 with its own attempt.
fn sink(fs: &Arc<dyn Fs>, config: &FileSink, index: u32, nonce: u64) -> TwoPhaseSink {
    let mut sink = file_sink(fs, config, &numbers_schema(), JOB).unwrap();
    sink.writer.open(&info(index, 2), nonce).unwrap();
    sink
}

fn names(fs: &dyn Fs, directory: &str) -> Vec<String> {
    let entries = fs.list(Path::new(directory)).unwrap_or_default();
    entries
        .into_iter()
        .map(|entry| entry.name.into_string().unwrap())
        .collect()
}

fn staged(fs: &dyn Fs) -> Vec<String> {
    names(fs, &format!("/out/.staging/{JOB}"))
}

fn visible(fs: &dyn Fs) -> Vec<String> {
    let mut names = names(fs, "/out");
    names.retain(|name| !name.starts_with('.'));
    names
}

fn contents(fs: &dyn Fs, path: &str) -> String {
    String::from_utf8(fs.read(Path::new(path), 1 << 30).unwrap()).unwrap()
}

fn commit_all(sink: &TwoPhaseSink, committables: &[Committable]) {
    committables
        .iter()
        .for_each(|c| sink.committer.commit(c).unwrap());
}

// Proves fence F15.
#[test]
fn rows_become_visible_with_the_commit_and_not_before() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 1, 0xabc);
    sink.writer.write(&numbers(0..3)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(4)).unwrap();
    assert_eq!((visible(fs.as_ref()).len(), promised.len()), (0, 1));
    commit_all(&sink, &promised);
    let name = "part-out.v1-00001-0000000004-0000000000000abc-000000.jsonl";
    assert_eq!(visible(fs.as_ref()), [name]);
    assert_eq!(promised[0].id, name);
    assert_eq!(
        contents(fs.as_ref(), &format!("/out/{name}")),
        "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n"
    );
    assert!(staged(fs.as_ref()).is_empty());
}

#[test]
fn a_period_without_rows_makes_no_file() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    sink.writer.write(&numbers(0..0)).unwrap();
    assert!(
        sink.writer
            .prepare_commit(CheckpointId(1))
            .unwrap()
            .is_empty()
    );
    assert!(staged(fs.as_ref()).is_empty());
}

// Proves HND-057.
#[test]
fn the_last_rows_are_committed_and_nothing_unfinished_is_left() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    sink.writer.write(&numbers(1..11)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    // The task is lost between the promise and the commit: another attempt makes it good.
    drop(sink);
    let mut second = self::sink(&fs, &config(JSON), 0, 2);
    commit_all(&second, &promised);
    second.committer.abort_leftovers(&info(0, 2), &promised);
    assert!(
        second
            .writer
            .prepare_commit(CheckpointId(2))
            .unwrap()
            .is_empty()
    );
    let source = source("/out", FileFormat::JsonLines, numbers_schema());
    let rows = read(&fs, &source).unwrap().rows();
    assert_eq!(rows, (1..11).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(staged(fs.as_ref()).is_empty());
}

// Proves fence F12.
#[test]
fn a_commit_may_be_repeated_at_any_step() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    sink.writer.write(&numbers(0..3)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    // Ended between link and removal.
    let staging = PathBuf::from(format!("/out/.staging/{JOB}")).join(&staged(fs.as_ref())[0]);
    fs.hard_link(&staging, &Path::new("/out").join(&promised[0].id))
        .unwrap();
    commit_all(&sink, &promised);
    let once = visible(fs.as_ref());
    commit_all(&sink, &promised);
    assert_eq!((visible(fs.as_ref()), staged(fs.as_ref()).len()), (once, 0));
}

#[test]
fn a_promise_that_cannot_be_kept_is_data_loss_and_names_the_file() {
    let expect_loss = |damage: &dyn Fn(&dyn Fs, &Path, &Path), why: &str| {
        let fs = files(&[]);
        let mut sink = sink(&fs, &config(JSON), 0, 1);
        sink.writer.write(&numbers(0..3)).unwrap();
        let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
        let staging = PathBuf::from(format!("/out/.staging/{JOB}")).join(&staged(fs.as_ref())[0]);
        let target = Path::new("/out").join(&promised[0].id);
        damage(fs.as_ref(), &staging, &target);
        let Err(CommitFailure::Lost(error)) = sink.committer.commit(&promised[0]) else {
            panic!("{why}");
        };
        assert_eq!(
            (error.kind(), error.disposition()),
            (ErrorKind::DataLoss, Disposition::FailJob)
        );
        let error = error.to_string();
        let name = &promised[0].id;
        assert!(
            error.starts_with("DATA_LOSS: ") && error.contains(name),
            "{error}"
        );
        assert!(error.contains(why), "{error}");
    };
    let write = |fs: &dyn Fs, path: &Path, bytes: &[u8]| put(fs, path.to_str().unwrap(), bytes);
    expect_loss(
        &|fs, staging, _| fs.remove(staging).unwrap(),
        "neither it nor its staging file",
    );
    expect_loss(
        &|fs, staging, _| {
            fs.remove(staging).unwrap();
            write(fs, staging, b"short");
        },
        "staging file has 5 bytes",
    );
    // A foreign file has the name: same length, other bytes; longer.
    for foreign in [
        &b"{\"n\":0}\n{\"n\":1}\n{\"n\":3}\n"[..],
        b"{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n\n",
    ] {
        expect_loss(
            &|fs, _, target| write(fs, target, foreign),
            "its name has other contents",
        );
    }
}

#[test]
fn what_was_promised_survives_a_power_cut() {
    let memory = MemoryFs::default();
    let fs: Arc<dyn Fs> = Arc::new(memory.clone());
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    sink.writer.write(&numbers(0..3)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    sink.writer.write(&numbers(3..6)).unwrap();
    memory.crash();
    assert_eq!(staged(fs.as_ref()).len(), 1, "only what was promised");
    commit_all(&sink, &promised);
    memory.crash();
    commit_all(&sink, &promised);
    let name = format!("/out/{}", promised[0].id);
    assert_eq!(
        contents(fs.as_ref(), &name),
        "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n"
    );
}

#[test]
fn files_roll_by_size_and_sort_in_the_order_of_their_rows() {
    let fs = files(&[]);
    let small = FileSink {
        roll_bytes: 20_000,
        ..config(JSON)
    };
    let mut sink = sink(&fs, &small, 0, u64::MAX);
    for checkpoint in 9..=11 {
        let from = (checkpoint as i64 - 9) * 5000;
        sink.writer.write(&numbers(from..from + 5000)).unwrap();
        let promised = sink
            .writer
            .prepare_commit(CheckpointId(checkpoint))
            .unwrap();
        assert!(promised.len() >= 3);
        commit_all(&sink, &promised);
    }
    for name in visible(fs.as_ref()) {
        let bytes = contents(fs.as_ref(), &format!("/out/{name}")).len();
        assert!(bytes < 40_000, "{bytes}");
    }
    let source = source("/out", FileFormat::JsonLines, numbers_schema());
    let rows = read(&fs, &source).unwrap().rows();
    assert_eq!(rows, (0..15_000).map(|n| n.to_string()).collect::<Vec<_>>());
}

// Proves fence F13: after a restore the promised files stay and the others go.
#[test]
fn leftovers_go_and_promised_and_foreign_files_stay() {
    let fs = files(&[]);
    let mut old = sink(&fs, &config(JSON), 0, 1);
    old.writer.write(&numbers(0..1)).unwrap();
    let promised = old.writer.prepare_commit(CheckpointId(1)).unwrap();
    let kept = staged(fs.as_ref());
    old.writer.write(&numbers(1..2)).unwrap();
    old.writer.prepare_commit(CheckpointId(2)).unwrap();
    old.writer.write(&numbers(2..3)).unwrap();
    let foreign = [
        // Another subtask, another sink, another parallelism, a later epoch, no file of a sink.
        "out.v1.00001-of-00002.0000000000000001.000000.jsonl",
        "other.00000-of-00002.0000000000000001.000000.jsonl",
        "x.out.v1.00000-of-00002.0000000000000001.000000.jsonl",
        "out.v1.00000-of-00003.0000000000000001.000000.jsonl",
        "out.v1.00000-of-00002.0000000004-0000000000000001.000000.jsonl",
        "out.v1.notes.txt",
    ];
    foreign
        .iter()
        .for_each(|name| put(fs.as_ref(), &format!("/out/.staging/{JOB}/{name}"), b"x"));
    // Of an earlier epoch, and of a version that wrote no epoch.
    for old in ["0000000002-0000000000000001", "0000000000000002"] {
        let name = format!("/out/.staging/{JOB}/out.v1.00000-of-00002.{old}.000000.jsonl");
        put(fs.as_ref(), &name, b"x");
    }
    put(
        fs.as_ref(),
        "/out/.staging/another-job/out.v1.00000-of-00002.0000000000000001.000000.jsonl",
        b"x",
    );
    put(fs.as_ref(), "/out/readme.txt", b"x");

    let next = sink(&fs, &config(JSON), 0, 2);
    next.committer.abort_leftovers(&info(0, 2), &promised);
    let mut expected: Vec<String> = foreign
        .iter()
        .map(|name| (*name).to_owned())
        .chain(kept)
        .collect();
    expected.sort();
    assert_eq!(staged(fs.as_ref()), expected);
    assert_eq!(names(fs.as_ref(), "/out/.staging/another-job").len(), 1);
    assert_eq!(visible(fs.as_ref()), ["readme.txt"]);

    // A promise that cannot be read: everything stays.
    let unreadable = Committable {
        id: "x".to_owned(),
        payload: vec![9].into(),
    };
    next.committer.abort_leftovers(&info(1, 2), &[unreadable]);
    assert_eq!(staged(fs.as_ref()), expected);
}

#[test]
fn giving_up_removes_what_was_not_promised() {
    let fs = files(&[]);
    let small = FileSink {
        roll_bytes: 1,
        ..config(JSON)
    };
    let mut sink = sink(&fs, &small, 0, 1);
    sink.writer.write(&numbers(0..1)).unwrap();
    sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    sink.writer.write(&numbers(1..2)).unwrap();
    let big = FileSink {
        roll_bytes: 1 << 20,
        ..small
    };
    let mut other = self::sink(&fs, &big, 1, 1);
    other.writer.write(&numbers(2..3)).unwrap();
    assert_eq!(staged(fs.as_ref()).len(), 3);
    sink.writer.abort();
    other.writer.abort();
    assert_eq!(staged(fs.as_ref()).len(), 1);
}

#[test]
fn a_full_disk_and_a_failing_one_are_named_with_a_remedy() {
    let memory = MemoryFs::default();
    let fs: Arc<dyn Fs> = Arc::new(memory.clone());
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    memory.set_capacity(Some(10));
    sink.writer.write(&numbers(0..100)).unwrap();
    let error = sink.writer.prepare_commit(CheckpointId(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.remedy().unwrap().contains("free space"), "{error}");
    assert!(
        error.to_string().contains("cannot write \"/out/.staging/"),
        "{error}"
    );
    memory.set_capacity(None);

    sink.writer.abort();
    sink.writer.write(&numbers(0..100)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(2)).unwrap();
    memory.set_sync_fails(true);
    let failure = sink.committer.commit(&promised[0]);
    assert!(
        matches!(failure, Err(CommitFailure::Retry(_))),
        "not known to be durable"
    );
    memory.set_sync_fails(false);
    commit_all(&sink, &promised);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let fs = files(&[("/out", b"a file")]);
    let mut sink = file_sink(&fs, &config(JSON), &numbers_schema(), JOB).unwrap();
    let error = sink.writer.open(&info(0, 1), 1).unwrap_err().to_string();
    assert!(
        error.contains("cannot create directory \"/out/.staging/"),
        "{error}"
    );
}

#[test]
fn rows_that_take_others_back_are_refused() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    let kinds = |kinds| numbers(0..2).with_kinds(UInt8Array::from(kinds)).unwrap();
    sink.writer.write(&kinds(vec![0, 2])).unwrap();
    let error = sink.writer.write(&kinds(vec![1, 2])).unwrap_err();
    assert!(
        error.to_string().contains("row 0 of a batch takes back"),
        "{error}"
    );
}

#[test]
fn damaged_promises_are_refused() {
    let fs = files(&[]);
    let mut sink = sink(&fs, &config(JSON), 0, 1);
    sink.writer.write(&numbers(0..1)).unwrap();
    let promised = sink
        .writer
        .prepare_commit(CheckpointId(1))
        .unwrap()
        .remove(0);
    let decoded = committable::PromisedFile::decode(&promised).unwrap();
    assert_eq!(decoded.encode(), promised);
    let outside = committable::PromisedFile {
        name: "../x".to_owned(),
        ..decoded
    }
    .encode();
    let mut newer = promised.payload.to_vec();
    newer[0] = 2;
    let cut = promised.payload[..promised.payload.len() - 1].to_vec();
    let with = |payload: Vec<u8>| Committable {
        id: promised.id.clone(),
        payload: payload.into(),
    };
    for bad in [outside, with(newer), with(cut), with(Vec::new())] {
        assert!(matches!(
            sink.committer.commit(&bad),
            Err(CommitFailure::Lost(_))
        ));
    }
}

#[test]
fn long_uids_fit_into_a_name_and_stay_apart() {
    let owner = |last: char| {
        let uid = OperatorUid::new(&format!("{}{last}", "u".repeat(254))).unwrap();
        names::Owner::new(&OperatorInfo { uid, ..info(0, 1) })
    };
    let name = owner('a').final_name(CheckpointId(1), 1, 0, "jsonl");
    assert!(name.len() <= 255 && owner('a').staging_name(Epoch(1), 1, 0, "jsonl").len() <= 255);
    assert_ne!(owner('a'), owner('b'));
}

#[test]
fn a_real_directory_is_written_and_committed_too() {
    let directory = tempfile::tempdir().unwrap();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let path = directory
        .path()
        .join("not/there/yet")
        .to_str()
        .unwrap()
        .to_owned();
    let config = FileSink {
        path: path.clone(),
        ..config(SinkFormat::Csv { delimiter: b';' })
    };
    let mut sink = sink(&fs, &config, 0, 1);
    sink.writer.write(&numbers(0..2)).unwrap();
    let promised = sink.writer.prepare_commit(CheckpointId(1)).unwrap();
    commit_all(&sink, &promised);
    assert_eq!(
        contents(fs.as_ref(), &format!("{path}/{}", promised[0].id)),
        "n\n0\n1\n"
    );
}
