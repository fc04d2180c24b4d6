//! What becomes of the records of a file, good and bad.

use millstream_graph::{BadRecordPolicy, FileSource, dead_letter_schema};
use millstream_operator::{Budget, ErrorKind};

use crate::testing::{discover, drain, files, read, reader, text};

use super::{csv_source, json_source};

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

    let strict = |config| FileSource {
        fail_on_missing_field: true,
        ..config
    };
    let error = read(&fs, &strict(json_source("/d/a.jsonl"))).err().unwrap();
    assert!(
        error.to_string().starts_with(
            "bad record in \"/d/a.jsonl\", line 2, column 8 (byte 27): the object ends without"
        ),
        "{error}"
    );

    let skip = |config| FileSource {
        on_error: BadRecordPolicy::Skip,
        ..config
    };
    let found = read(&fs, &skip(strict(json_source("/d/a.jsonl")))).unwrap();
    assert_eq!(found.rows(), ["1|a", "3|-", "4|y"]);
    assert_eq!(found.bad_records, 4);
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
        let expected = "in|/d/a.txt|2|1|the record has 6291456 bytes, max-line accepts 1048576|xxx";
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

#[test]
fn odd_bytes_are_text_and_odd_line_ends_end_no_line() {
    let cases: [(&[u8], Vec<&str>); 7] = [
        (b"a\rb\nc\r\r\nd\re", vec!["a\rb", "c\r", "d\re"]),
        (b"\r\n\r\n", vec!["", ""]),
        (b"a\n\r", vec!["a", ""]),
        (b"\0\n a \0", vec!["\0", " a \0"]),
        (
            b"\xef\xbb\xbf\xef\xbb\xbfa\n\xef\xbb\xbfb",
            vec!["\u{feff}a", "\u{feff}b"],
        ),
        (b"\xef\xbb", vec![]),
        (
            "a\u{2028}b\u{85}c\u{b}d\n".as_bytes(),
            vec!["a\u{2028}b\u{85}c\u{b}d"],
        ),
    ];
    for (contents, expected) in cases {
        let fs = files(&[("/d/a", contents)]);
        for split_bytes in [4, 1 << 20] {
            let config = FileSource {
                split_bytes,
                on_error: BadRecordPolicy::Skip,
                ..text("/d/a")
            };
            assert_eq!(read(&fs, &config).unwrap().rows(), expected, "{contents:?}");
        }
    }
}

#[test]
fn latin_1_among_utf8_costs_its_own_lines_and_is_kept_as_a_dead_letter() {
    let fs = files(&[(
        "/d/a.csv",
        b"id,t\n1,gut\n2,gr\xf6\xdfe\n3,gr\xc3\xb6\xc3\x9fe\n4,\xc3\n",
    )]);
    let config = |on_error| FileSource {
        on_error,
        ..csv_source("/d/a.csv")
    };
    let found = read(&fs, &config(BadRecordPolicy::Skip)).unwrap();
    assert_eq!(
        (found.rows(), found.bad_records),
        (vec!["1|gut".into(), "3|größe".into()], 2)
    );
    let found = read(&fs, &config(BadRecordPolicy::DeadLetter)).unwrap();
    let expected = "in|/d/a.csv|3|5|the bytes here are not UTF-8|2,gr\u{fffd}\u{fffd}e";
    assert_eq!(found.letters()[0], expected);
    let error = read(&fs, &config(BadRecordPolicy::Fail)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::BadRecord);
    assert!(
        error.to_string().contains("line 3, column 5 (byte 15)"),
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
