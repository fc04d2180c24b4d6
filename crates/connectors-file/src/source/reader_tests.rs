use std::path::Path;

use arrow::datatypes::DataType;
use millstream_env::fs::RealFs;
use millstream_graph::{BadRecordPolicy, FileFormat, dead_letter_schema};
use millstream_operator::ErrorKind;
use proptest::prelude::*;

use crate::testing::{
    BUDGET, discover, drain, files, poll, put, read, reader, schema, source, text,
};

use super::*;

const CSV: FileFormat = FileFormat::Csv { delimiter: b',' };

fn csv_source(path: &str) -> FileSource {
    source(
        path,
        CSV,
        schema(&[("id", DataType::Int64), ("t", DataType::Utf8)]),
    )
}

fn json_source(path: &str) -> FileSource {
    source(
        path,
        FileFormat::JsonLines,
        schema(&[("id", DataType::Int64), ("name", DataType::Utf8)]),
    )
}

// Proves HND-036.
#[test]
fn byte_order_marks_line_ends_and_empty_lines_reach_no_row() {
    let fs = files(&[
        ("/d/a.csv", b"\xef\xbb\xbfid,t\r\n1,ann\r\n\r\n2,bob"),
        ("/d/a.txt", b"\xef\xbb\xbfred\r\n\r\nred blue\r\n"),
        ("/d/a.jsonl", b"\xef\xbb\xbf{\"id\":1}\r\n\r\n{\"id\":2}"),
    ]);
    assert_eq!(
        read(&fs, &csv_source("/d/a.csv")).unwrap().rows(),
        ["1|ann", "2|bob"]
    );
    assert_eq!(
        read(&fs, &text("/d/a.txt")).unwrap().rows(),
        ["red", "", "red blue"]
    );
    assert_eq!(
        read(&fs, &json_source("/d/a.jsonl")).unwrap().rows(),
        ["1|-", "2|-"]
    );

    // The byte order mark is the first split's, however short that is.
    let tiny = FileSource {
        split_bytes: 1,
        ..text("/d/a.txt")
    };
    assert_eq!(read(&fs, &tiny).unwrap().rows(), ["red", "", "red blue"]);
}

// Proves HND-036: the boundary between CR and LF.
#[test]
fn a_large_file_of_cr_lf_lines_has_exactly_its_lines() {
    let lines: Vec<String> = (0..40_000)
        .map(|n| format!("line {n} {}", "x".repeat(n % 37)))
        .collect();
    let contents = lines.join("\r\n");
    assert!(contents.len() > 1 << 20);
    let fs = files(&[("/d/a.txt", contents.as_bytes())]);
    let config = FileSource {
        split_bytes: 64 << 10,
        ..text("/d")
    };
    let splits = discover(&fs, &config).unwrap().splits;
    assert_eq!(splits.len(), contents.len().div_ceil(64 << 10));
    let budget = Budget {
        rows: 1000,
        bytes: 1 << 20,
    };
    let found = drain(&mut reader(&fs, &config, splits), budget).unwrap();
    assert_eq!(found.rows(), lines);
    assert!(found.batches.iter().all(|batch| batch.num_rows() <= 1000));
}

// Proves HND-040.
#[test]
fn a_line_break_in_quotes_ends_no_csv_record_at_any_split_size() {
    let mut contents = String::from("id,t\n");
    for id in 1..=10_000 {
        match (id % 2, id % 3) {
            (0, _) => contents.push_str(&format!("{id},\"one\ntwo, still one\"\n")),
            (_, 0) => contents.push_str(&format!("{id},\"a \"\"b\"\"\"\n")),
            _ => contents.push_str(&format!("{id},plain\n")),
        }
    }
    let fs = files(&[("/d/a.csv", contents.as_bytes())]);
    let config = FileSource {
        split_bytes: 8 << 10,
        ..csv_source("/d/a.csv")
    };
    let found = read(&fs, &config).unwrap();
    let rows = found.rows();
    let ids = rows
        .iter()
        .map(|row| row.split('|').next().unwrap().parse::<u64>().unwrap());
    assert_eq!((rows.len(), ids.sum::<u64>()), (10_000, 50_005_000));
    assert_eq!(rows.iter().filter(|row| row.contains('\n')).count(), 5000);
    assert_eq!(found.bad_records, 0);
}

// Proves HND-038 and HND-041: fail, skip and dead-letter.
#[test]
fn bad_records_fail_are_counted_or_become_dead_letters() {
    let json = b"{\"id\":1,\"name\":\"a\"}\n{\"id\":2}\n{\"id\":3,\"name\":null}\n{\"id\":4,\"name\":\"x\",\"name\":\"y\"}\n{\"id\":5,\"name\":\"z\",}\n[]\n\n{\"id\":6}\n";
    let csv =
        b"id,t\n1,\"he said \"\"hi\"\"\"\n2,\"\"\n3,\n4,\"a,b\"\n5,x,extra\n6,\"tail\n7,after\n";
    let fs = files(&[("/d/a.jsonl", json), ("/d/a.csv", csv)]);

    let error = read(&fs, &json_source("/d/a.jsonl")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::BadRecord);
    let error = error.to_string();
    assert!(
        error.starts_with(
            "bad record in \"/d/a.jsonl\", line 5, column 19 (byte 99): nothing follows"
        ),
        "{error}"
    );
    let error = read(&fs, &csv_source("/d/a.csv"))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("\"/d/a.csv\", line 6, column 5"), "{error}");

    let skip = |config| FileSource {
        on_error: BadRecordPolicy::Skip,
        ..config
    };
    let found = read(&fs, &skip(json_source("/d/a.jsonl"))).unwrap();
    assert_eq!(found.rows(), ["1|a", "2|-", "3|-", "4|y", "6|-"]);
    assert_eq!((found.bad_records, found.letters.len()), (2, 0));
    let found = read(&fs, &skip(csv_source("/d/a.csv"))).unwrap();
    // The quote that is not closed costs its line, not the rest of the file.
    assert_eq!(
        found.rows(),
        ["1|he said \"hi\"", "2|", "3|-", "4|a,b", "7|after"]
    );
    assert_eq!(found.bad_records, 2);

    let letters = |config| FileSource {
        on_error: BadRecordPolicy::DeadLetter,
        ..config
    };
    let found = read(&fs, &letters(json_source("/d/a.jsonl"))).unwrap();
    assert_eq!(found.rows(), ["1|a", "2|-", "3|-", "4|y", "6|-"]);
    assert_eq!(found.letters[0].schema(), dead_letter_schema());
    assert_eq!(
        found.letters(),
        [
            "in|/d/a.jsonl|5|19|nothing follows this comma but '}'|{\"id\":5,\"name\":\"z\",}",
            "in|/d/a.jsonl|6|1|a JSON object is expected, not a list|[]",
        ]
    );
    let found = read(&fs, &letters(csv_source("/d/a.csv"))).unwrap();
    let lines: Vec<String> = found.letters();
    assert!(
        lines[0].starts_with("in|/d/a.csv|6|5|the record has more than"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("in|/d/a.csv|7|3|a quote is not closed before"),
        "{lines:?}"
    );
}

#[test]
fn a_split_in_the_middle_still_names_the_line() {
    let mut contents = String::new();
    (1..=100).for_each(|n| contents.push_str(&format!("{{\"id\":{n}}}\n")));
    contents = contents
        .replace("{\"id\":77}", "{\"id\":x7}")
        .replace("{\"id\":90}", "{\"id\":9x}");
    let fs = files(&[("/d/a.jsonl", contents.as_bytes())]);
    let config = FileSource {
        split_bytes: 200,
        on_error: BadRecordPolicy::DeadLetter,
        ..json_source("/d/a.jsonl")
    };
    let found = read(&fs, &config).unwrap();
    let places: Vec<String> = found
        .letters()
        .iter()
        .map(|l| l.split('|').skip(2).take(2).collect::<Vec<_>>().join(":"))
        .collect();
    assert_eq!(places, ["77:7", "90:8"]);
    let error = read(
        &fs,
        &FileSource {
            on_error: BadRecordPolicy::Fail,
            ..config
        },
    );
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("line 77, column 7")
    );
}

// Proves HND-073: the lines around one that is too long are right.
#[test]
fn a_line_above_the_limit_is_passed_over_and_its_neighbours_stay() {
    let mut contents = b"before\n".to_vec();
    contents.extend(vec![b'x'; 6 << 20]);
    contents.extend(b"\nafter\n");
    let fs = files(&[("/d/a.txt", &contents)]);
    let whole = FileSource {
        split_bytes: 1 << 30,
        max_line_bytes: 8 << 20,
        ..text("/d")
    };
    let rows = read(&fs, &whole).unwrap().rows();
    assert_eq!(
        rows.iter().map(String::len).collect::<Vec<_>>(),
        [6, 6 << 20, 5]
    );

    for split_bytes in [1 << 30, 1 << 16] {
        let short = FileSource {
            split_bytes,
            max_line_bytes: 1 << 20,
            on_error: BadRecordPolicy::DeadLetter,
            ..text("/d")
        };
        let found = read(&fs, &short).unwrap();
        assert_eq!(found.rows(), ["before", "after"]);
        let letters = found.letters();
        let expected = "in|/d/a.txt|2|1|the record has 6291456 bytes, 1048576 are accepted|xxx";
        assert!(
            letters.len() == 1 && letters[0].starts_with(expected),
            "{}",
            letters[0]
        );
        assert!(letters[0].len() < 2000, "only its start is kept");
    }
}

#[test]
fn the_limit_is_exact_and_counts_no_line_end() {
    let fs = files(&[("/d/a.txt", b"12345\r\n123456\n12345\n123456\r\n12345")]);
    let config = FileSource {
        max_line_bytes: 5,
        on_error: BadRecordPolicy::Skip,
        ..text("/d")
    };
    let found = read(&fs, &config).unwrap();
    assert_eq!((found.rows().len(), found.bad_records), (3, 2));
}

#[test]
fn a_csv_record_above_the_limit_costs_itself_and_an_open_quote_its_line() {
    let long = "x\n".repeat(400_000);
    let closed = format!("id,t\n1,\"{long}\"\n2,b\n");
    let open = format!("id,t\n1,\"{long}2,b\n");
    let fs = files(&[
        ("/d/closed", closed.as_bytes()),
        ("/d/open", open.as_bytes()),
    ]);
    let config = |path| FileSource {
        max_line_bytes: 1000,
        on_error: BadRecordPolicy::Skip,
        ..csv_source(path)
    };
    let found = read(&fs, &config("/d/closed")).unwrap();
    assert_eq!(
        (found.rows(), found.bad_records),
        (vec!["2|b".to_owned()], 1)
    );
    // Every line behind the open quote is a record again, if a bad one.
    let found = read(&fs, &config("/d/open")).unwrap();
    assert_eq!(
        (found.rows(), found.bad_records),
        (vec!["2|b".to_owned()], 400_000)
    );
}

#[test]
fn text_that_is_not_utf8_names_the_byte() {
    let fs = files(&[("/d/a.txt", b"good\nb\xe4d\n")]);
    let error = read(&fs, &text("/d/a.txt")).err().unwrap().to_string();
    assert!(
        error.contains("line 2, column 2 (byte 6): the bytes here are not UTF-8"),
        "{error}"
    );
}

// Proves HND-049: files are immutable; a change is an error, never a mix of both contents.
#[test]
fn a_file_that_changes_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.txt");
    let name = path.to_str().unwrap();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let old: String = (1..=10).map(|n| format!("old{n}\n")).collect();
    let expect = |config: &FileSource, change: &dyn Fn(), how: &str| {
        let _ = fs.remove(&path);
        put(fs.as_ref(), name, old.as_bytes());
        let splits = discover(&fs, config).unwrap().splits;
        let mut before = reader(&fs, config, splits.clone());
        poll(&mut before, BUDGET).unwrap();
        let position = before.snapshot().unwrap();
        change();
        for splits in [splits, position] {
            let error = drain(&mut reader(&fs, config, splits), BUDGET)
                .err()
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::External);
            let error = error.to_string();
            assert!(error.contains(name) && error.contains(how), "{error}");
        }
    };
    let rewrite = |contents: &str| std::fs::write(&path, contents).unwrap();
    let config = text(name);
    expect(&config, &|| rewrite("new1\n"), "it had 51 bytes and has 5");
    expect(
        &config,
        &|| rewrite(&old.replace("old", "new")),
        "it starts with other bytes",
    );
    expect(
        &config,
        &|| rewrite(&format!("{old}more\n")),
        "it had 51 bytes and has 56",
    );
    expect(
        &config,
        &|| {
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        },
        "it was written again",
    );
    expect(
        &config,
        &|| std::fs::remove_file(&path).unwrap(),
        "cannot look at",
    );
}

#[test]
fn a_file_that_changes_while_it_is_open_is_noticed_before_its_bytes_are_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.txt");
    let name = path.to_str().unwrap();
    let contents = "a line of thirty-one characters\n".repeat(40_000);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    put(fs.as_ref(), name, contents.as_bytes());
    let config = FileSource {
        split_bytes: 1 << 30,
        ..text(name)
    };
    let splits = discover(&fs, &config).unwrap().splits;
    let mut reader = reader(&fs, &config, splits);
    poll(&mut reader, BUDGET).unwrap();
    std::fs::write(&path, contents.replace("line", "row!")).unwrap();
    std::fs::File::open(&path)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    let error = drain(&mut reader, BUDGET).err().unwrap().to_string();
    assert!(error.contains("changed while the job reads it"), "{error}");
}

#[test]
fn what_cannot_be_read_is_named_at_discovery() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    put(fs.as_ref(), &at("a.gz"), b"\x1f\x8b\x08rest");
    std::os::unix::fs::symlink("/nowhere/at/all", at("dangling")).unwrap();
    for (name, why) in [
        ("a.gz", "compressed with gzip"),
        ("dangling", "cannot open"),
    ] {
        let error = discover(&fs, &text(&at(name))).unwrap_err().to_string();
        assert!(error.contains(&at(name)) && error.contains(why), "{error}");
    }
    let error = discover(&fs, &text(&at("*.md"))).unwrap_err().to_string();
    assert!(
        error.contains("no file matches") && error.contains("*.md"),
        "{error}"
    );
}

#[test]
fn a_header_that_does_not_fit_fails_whatever_the_policy() {
    let fs = files(&[
        ("/d/a.csv", b"\n\nid,name\n1,a\n"),
        ("/d/b.csv", b"id,\"t"),
        ("/d/c.csv", b"\n\n"),
    ]);
    let config = |path| FileSource {
        on_error: BadRecordPolicy::Skip,
        ..csv_source(path)
    };
    let error = read(&fs, &config("/d/a.csv")).err().unwrap().to_string();
    assert!(
        error.contains("header of \"/d/a.csv\", line 3, column 1: the header has no field \"t\""),
        "{error}"
    );
    let error = read(&fs, &config("/d/b.csv")).err().unwrap().to_string();
    assert!(
        error.contains("header of \"/d/b.csv\", line 1, column 4: a quote"),
        "{error}"
    );
    assert!(read(&fs, &config("/d/c.csv")).unwrap().rows().is_empty());
}

#[test]
fn an_empty_file_has_no_split_and_no_row() {
    let fs = files(&[("/d/a", b""), ("/d/b", b"\xef\xbb\xbf"), ("/d/c", b"\n")]);
    assert_eq!(read(&fs, &text("/d")).unwrap().rows(), [""]);
}

#[test]
fn splits_are_read_in_turn_and_reported() {
    let fs = files(&[("/d/a", b"1\n2\n3\n4\n"), ("/d/b", b"5\n")]);
    let config = FileSource {
        split_bytes: 4,
        ..text("/d/*")
    };
    let found = read(&fs, &config).unwrap();
    assert_eq!(found.finished, ["/d/a:0+4", "/d/a:4+4", "/d/b:0+2"]);
    assert_eq!(found.rows(), ["1", "2", "3", "4", "5"]);
    let mut idle = FileReader::new(fs, config, "in");
    assert!(matches!(
        poll(&mut idle, BUDGET),
        Ok(ReaderOutput::WaitForSplits)
    ));
}

#[test]
fn a_budget_of_bytes_ends_a_batch() {
    let fs = files(&[("/d/a", "0123456789\n".repeat(100).as_bytes())]);
    let config = text("/d/a");
    let splits = discover(&fs, &config).unwrap().splits;
    let found = drain(
        &mut reader(&fs, &config, splits),
        Budget {
            rows: 1000,
            bytes: 140,
        },
    )
    .unwrap();
    assert_eq!(found.rows().len(), 100);
    assert!(found.batches.iter().all(|batch| batch.num_rows() <= 10));
}

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
fn read_with_restores(fs: &Arc<dyn Fs>, config: &FileSource, budget: Budget) -> Vec<String> {
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
