//! Snapshots anywhere, and splits anywhere: every record comes once.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use arrow::datatypes::DataType;
use millstream_env::fs::Fs;
use millstream_graph::{BadRecordPolicy, Compression, FileFormat, FileSource};
use millstream_operator::{Budget, ReaderOutput, Split, SplitReader};
use millstream_types::MonoTime;
use proptest::prelude::*;

use crate::FileReader;
use crate::source::split::FileSplit;
use crate::testing::{discover, drain, files, poll, reader, schema, source, text};

use super::packed::gzip;
use super::{CSV, json_source};

#[test]
fn a_poll_ends_though_it_found_nothing_to_hand_out() {
    let mut contents = vec![b'x'; 5 << 20];
    contents.extend(b"\nafter");
    let fs = files(&[("/d/a", &contents)]);
    let config = FileSource {
        split_bytes: 1 << 30,
        on_error: BadRecordPolicy::Skip,
        ..text("/d/a")
    };
    let splits = discover(&fs, &config).unwrap().splits;
    let mut reader = reader(&fs, &config, splits);
    let budget = Budget {
        rows: 10,
        bytes: 1000,
    };
    let first = reader.poll_batch(budget, MonoTime::ZERO, Waker::noop());
    assert!(first.is_pending());
    // A checkpoint now goes on at the start of the long line: its end is found again.
    let restored = reader.snapshot().unwrap();
    assert_eq!(drain(&mut reader, budget).unwrap().rows(), ["after"]);
    let mut again = crate::testing::reader(&fs, &config, restored);
    let found = drain(&mut again, budget).unwrap();
    assert_eq!(
        (found.rows(), found.bad_records),
        (vec!["after".to_owned()], 1)
    );
}

#[test]
fn damaged_or_newer_state_is_refused_by_name() {
    let fs = files(&[("/d/a", b"1\n")]);
    let good = discover(&fs, &text("/d/a")).unwrap().splits.remove(0);
    assert_eq!(FileSplit::decode(&good).unwrap().encode(), good);
    let mut newer = good.state.to_vec();
    newer[0] = 9;
    let cut = good.state[..good.state.len() - 1].to_vec();
    let long = [&good.state[..], &[0]].concat();
    for (state, why) in [
        (newer, "version 9"),
        (cut, "damaged"),
        (long, "damaged"),
        (vec![], "empty"),
    ] {
        let split = Split {
            id: good.id.clone(),
            state: state.into(),
        };
        let mut reader = FileReader::new(Arc::clone(&fs), text("/d/a"), "in");
        let error = reader.add_splits(vec![split]).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("/d/a:0+2"), "{error}");
    }
}

/// Everything, with a restore after each output; as rows and dead letters.
pub(super) fn read_with_restores(
    fs: &Arc<dyn Fs>,
    config: &FileSource,
    budget: Budget,
) -> Vec<String> {
    let mut splits = discover(fs, config).unwrap().splits;
    let mut found = Vec::new();
    loop {
        let mut reader = reader(fs, config, splits);
        match poll(&mut reader, budget).unwrap() {
            ReaderOutput::Batch(batch) => found.extend(crate::testing::rows(batch.records())),
            ReaderOutput::DeadLetters(batch) => found.extend(crate::testing::rows(batch.records())),
            ReaderOutput::SplitFinished(_) => {}
            ReaderOutput::Finished => return found,
            other => panic!("{other:?}"),
        }
        splits = reader.snapshot().unwrap();
    }
}

// Proves HND-048.
#[test]
fn a_restored_csv_reader_goes_on_behind_its_last_row_and_counts_no_header() {
    let mut contents = String::from("n,t\n");
    (1..=1000).for_each(|n| contents.push_str(&format!("{n},größe\n")));
    let fs = files(&[("/d/a.csv", contents.as_bytes())]);
    let columns = schema(&[("t", DataType::Utf8), ("n", DataType::Int64)]);
    let config = source("/d/a.csv", CSV, columns);
    let found = read_with_restores(
        &fs,
        &config,
        Budget {
            rows: 7,
            bytes: 1 << 20,
        },
    );
    let numbers = found
        .iter()
        .map(|row| row.strip_prefix("größe|").unwrap().parse::<u64>().unwrap());
    assert_eq!((found.len(), numbers.sum::<u64>()), (1000, 500_500));
}

/// The lines as the standard library cuts them.
fn lines(contents: &str) -> Vec<String> {
    contents.lines().map(str::to_owned).collect()
}

proptest! {
    /// A split at every boundary, and a restore at every position, give exactly the file's lines.
    #[test]
    fn splits_and_restores_anywhere_give_the_lines_of_the_file(
        contents in "([a-zé]{0,3}(\r\n|\n)?){0,12}",
        rows in 1usize..4,
    ) {
        // A carriage return that ends no line is text for both.
        let fs = files(&[("/d/a", contents.as_bytes())]);
        let whole = lines(&contents);
        let budget = Budget { rows, bytes: 1 << 20 };
        for split_bytes in 4..=contents.len().max(4) as u64 {
            let config = FileSource { split_bytes, ..text("/d/a") };
            prop_assert_eq!(&read_with_restores(&fs, &config, budget), &whole, "{}", split_bytes);
        }
        // Boundaries that the enumerator would not choose.
        let Some(first) = discover(&fs, &text("/d/a")).unwrap().splits.pop() else { return Ok(()) };
        let first = FileSplit::decode(&first).unwrap();
        for cut in 1..first.end {
            let halves = [(0, cut), (cut, first.end)];
            let halves = halves.map(|(from, to)| FileSplit::new(Path::new("/d/a"), from, to, first.pin).encode());
            let config = text("/d/a");
            let found = drain(&mut reader(&fs, &config, halves.to_vec()), budget).unwrap();
            prop_assert_eq!(&found.rows(), &whole, "cut at {}", cut);
        }
    }

    /// Rows and dead letters keep their order and come once, with restores between all of them.
    #[test]
    fn restores_between_rows_and_dead_letters_lose_and_double_nothing(
        records in prop::collection::vec(any::<bool>(), 0..20),
        (rows, split_bytes) in (1usize..4, 4u64..200),
    ) {
        let mut contents = String::new();
        let mut expected = Vec::new();
        for (index, is_good) in records.iter().enumerate() {
            if *is_good {
                contents.push_str(&format!("{{\"id\":{index}}}\n"));
                expected.push(format!("{index}|-"));
            } else {
                contents.push_str(&format!("[{index}]\n"));
                let line = index + 1;
                let what = "a JSON object is expected, not a list";
                expected.push(format!("in|/d/a|{line}|1|{what}|[{index}]"));
            }
        }
        let fs = files(&[("/d/a", contents.as_bytes())]);
        let config = FileSource {
            split_bytes,
            on_error: BadRecordPolicy::DeadLetter,
            ..json_source("/d/a")
        };
        let budget = Budget { rows, bytes: 1 << 20 };
        prop_assert_eq!(read_with_restores(&fs, &config, budget), expected);
    }

    /// Whatever the bytes are, reading ends, and restores between all outputs change neither rows
    /// nor dead letters.
    #[test]
    fn any_bytes_are_read_to_their_end_and_alike_with_restores(
        body in "([a-c,]|\"|\"\"|\n|\r\n|[{}:1é]|\"id\":){0,60}",
        broken in prop::option::of(any::<prop::sample::Index>()),
        (rows, max_line_bytes) in (1usize..4, 1u64..30),
        format in prop_oneof![Just(CSV), Just(FileFormat::Text), Just(FileFormat::JsonLines)],
        is_packed in any::<bool>(),
    ) {
        let mut contents = body.into_bytes();
        if let (Some(index), false) = (broken, contents.is_empty()) {
            let at = index.index(contents.len());
            contents[at] = 0xff;
        }
        let columns = match format {
            FileFormat::Text => schema(&[("line", DataType::Utf8)]),
            FileFormat::JsonLines => schema(&[("id", DataType::Int64), ("a", DataType::Utf8)]),
            FileFormat::Csv { .. } => {
                contents.splice(0..0, *b"id,a\n");
                schema(&[("id", DataType::Utf8), ("a", DataType::Utf8)])
            }
            FileFormat::Parquet => unreachable!("not among the formats"),
        };
        let compression = match is_packed {
            true => Compression::Gzip,
            false => Compression::None,
        };
        let contents = if is_packed { gzip(&contents) } else { contents };
        let fs = files(&[("/d/a", &contents)]);
        let config = FileSource {
            split_bytes: 16,
            on_error: BadRecordPolicy::DeadLetter,
            max_line_bytes: max_line_bytes.max(4),
            compression,
            ..source("/d/a", format, columns)
        };
        let budget = Budget { rows, bytes: 1 << 20 };
        let restored = read_with_restores(&fs, &config, budget);
        let splits = discover(&fs, &config).unwrap().splits;
        let straight = drain(&mut reader(&fs, &config, splits), budget).unwrap();
        let (letters, rows): (Vec<String>, Vec<String>) =
            restored.into_iter().partition(|row| row.starts_with("in|/d/a|"));
        prop_assert_eq!(rows, straight.rows());
        prop_assert_eq!(letters, straight.letters());
    }

    /// CSV is read as the `csv` crate reads it, and with restores at every record.
    #[test]
    fn csv_agrees_with_another_reader(
        table in prop::collection::vec(("[a-z\",;\r\n é]{1,8}", "[a-z\"\n,]{1,4}"), 1..12),
        rows in 1usize..4,
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["x", "y"]).unwrap();
        for (x, y) in &table {
            writer.write_record([x, y]).unwrap();
        }
        let contents = writer.into_inner().unwrap();
        let fs = files(&[("/d/a", &contents)]);
        let config = source("/d/a", CSV, schema(&[("x", DataType::Utf8), ("y", DataType::Utf8)]));
        let expected: Vec<String> = table.iter().map(|(x, y)| format!("{x}|{y}")).collect();
        let budget = Budget { rows, bytes: 1 << 20 };
        prop_assert_eq!(read_with_restores(&fs, &config, budget), expected);
    }
}
