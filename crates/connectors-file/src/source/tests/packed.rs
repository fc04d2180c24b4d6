//! Compressed files: members, frames, restores, and what is wrong with them.

use std::io::Write;
use std::sync::Arc;
use std::task::{Poll, Waker};

use flate2::write::GzEncoder;
use millstream_env::fs::Fs;
use millstream_graph::{BadRecordPolicy, Compression, FileSource};
use millstream_operator::{Budget, ErrorKind, ReaderOutput, SplitReader};
use millstream_types::MonoTime;

use crate::testing::{BUDGET, discover, drain, files, poll, read, reader, text};

use super::csv_source;
use super::restore::read_with_restores;

pub(super) fn gzip(contents: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}

fn zstd(contents: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(contents).unwrap();
    encoder.finish().unwrap()
}

/// One file, and what reading it gives.
fn read_one(name: &str, contents: &[u8]) -> Result<Vec<String>, String> {
    let fs = files(&[(name, contents)]);
    match read(&fs, &text(name)) {
        Ok(read) => Ok(read.rows()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::External);
            assert!(error.remedy().is_some(), "{error}");
            let error = error.to_string();
            assert!(error.contains(name), "{error}");
            Err(error)
        }
    }
}

// Proves HND-044: members are joined byte by byte, and so are frames.
#[test]
fn members_and_frames_are_one_text() {
    for pack in [gzip, zstd] {
        let packed = [pack(b"a\nb\nc"), pack(b""), pack(b"d\ne\n")].concat();
        let name = if pack(b"").starts_with(b"\x1f") {
            "/d/a.gz"
        } else {
            "/d/a.ZST"
        };
        assert_eq!(read_one(name, &packed).unwrap(), ["a", "b", "cd", "e"]);
        assert_eq!(read_one(name, &pack(b"\xef\xbb\xbfa\r\n")).unwrap(), ["a"]);
        assert!(read_one(name, &pack(b"")).unwrap().is_empty());
    }
    let skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    let packed = [&skippable[..], &zstd(b"a\n"), skippable, &zstd(b"b")].concat();
    assert_eq!(read_one("/d/a.zst", &packed).unwrap(), ["a", "b"]);
}

// Proves HND-044: a restore in the second member, and wherever else; the file is one split.
#[test]
fn every_line_of_two_members_comes_once_whatever_the_restores() {
    let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}")).collect();
    let member = |lines: &[String]| gzip(format!("{}\n", lines.join("\n")).as_bytes());
    let packed = [member(&lines[..50_000]), member(&lines[50_000..])].concat();
    let fs = files(&[("/d/a.gz", &packed)]);
    let config = FileSource {
        split_bytes: 1 << 10,
        ..text("/d")
    };
    assert_eq!(discover(&fs, &config).unwrap().splits.len(), 1);
    for rows in [7_919, 25_000] {
        let budget = Budget {
            rows,
            bytes: 1 << 20,
        };
        assert!(read_with_restores(&fs, &config, budget) == lines, "{rows}");
    }
}

// Proves HND-040 and HND-048 for gzip: quoted line ends, and a header that is counted once.
#[test]
fn a_packed_csv_file_is_restored_behind_its_last_row() {
    let mut contents = String::from("id,t\n");
    for id in 1..=10_000 {
        match (id % 2, id % 3) {
            (0, _) => contents.push_str(&format!("{id},\"one\ntwo, still öne\"\n")),
            (_, 0) => contents.push_str(&format!("{id},\"a \"\"b\"\"\"\n")),
            _ => contents.push_str(&format!("{id},plain\n")),
        }
    }
    for (name, packed) in [
        ("/d/a.csv.gz", gzip(contents.as_bytes())),
        ("/d/a.csv.zst", zstd(contents.as_bytes())),
    ] {
        let fs = files(&[(name, &packed)]);
        let budget = Budget {
            rows: 997,
            bytes: 1 << 20,
        };
        let rows = read_with_restores(&fs, &csv_source(name), budget);
        let ids = rows
            .iter()
            .map(|row| row.split('|').next().unwrap().parse::<u64>().unwrap());
        assert_eq!((rows.len(), ids.sum::<u64>()), (10_000, 50_005_000));
        assert_eq!(rows.iter().filter(|row| row.contains('\n')).count(), 5000);
    }
}

#[test]
fn a_quote_that_stays_open_costs_its_line_in_a_packed_file_too() {
    let fs = files(&[("/d/a.csv.gz", &gzip(b"id,t\n1,\"open\n2,b\n3,c\n"))]);
    let config = FileSource {
        on_error: BadRecordPolicy::Skip,
        ..csv_source("/d/a.csv.gz")
    };
    let found = read(&fs, &config).unwrap();
    assert_eq!(
        (found.rows(), found.bad_records),
        (vec!["2|b".into(), "3|c".into()], 1)
    );
}

#[test]
fn a_file_that_ends_early_is_an_error_that_says_where() {
    let contents = "some line of text\n".repeat(300);
    for (name, packed) in [
        ("/d/a.gz", gzip(contents.as_bytes())),
        ("/d/a.zst", zstd(contents.as_bytes())),
    ] {
        for cut in 0..packed.len() {
            let error = read_one(name, &packed[..cut]).unwrap_err();
            let expected = match cut {
                0 => "is empty, which no",
                1 if name == "/d/a.gz" => "is not compressed with gzip",
                _ => "data ends early",
            };
            assert!(error.contains(expected), "{cut}: {error}");
        }
        // The rows in front of the damage come out before it is found.
        let fs = files(&[(name, &packed[..packed.len() - 1])]);
        let splits = discover(&fs, &text(name)).unwrap().splits;
        let mut reader = reader(&fs, &text(name), splits);
        assert!(matches!(
            poll(&mut reader, BUDGET),
            Ok(ReaderOutput::Batch(_))
        ));
    }
}

#[test]
fn every_flipped_bit_is_found_or_changes_no_row() {
    let contents = "one\ntwo\nthree\n".repeat(3);
    let rows: Vec<&str> = contents.lines().collect();
    for (name, packed) in [
        ("/d/a.gz", gzip(contents.as_bytes())),
        ("/d/a.zst", zstd(contents.as_bytes())),
    ] {
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let fs = files(&[(name, &damaged)]);
            match read(&fs, &text(name)) {
                Ok(found) => assert_eq!(found.rows(), rows, "{name} {bit}"),
                // Unpacked, it may be no text, which shows before the checksum is reached.
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
            }
        }
        let garbage = [&packed[..], b"and more of another kind"].concat();
        let error = read_one(name, &garbage).unwrap_err();
        assert!(
            error.contains("is damaged, 42 bytes into what it holds"),
            "{error}"
        );
    }
}

#[test]
fn a_name_decides_and_an_option_decides_against_it() {
    let (gz, zst) = (gzip(b"a\n"), zstd(b"a\n"));
    for (name, contents, compression, expected) in [
        ("/d/a.gz", &gz, Compression::Auto, Ok("a")),
        ("/d/a.GZ", &gz, Compression::Auto, Ok("a")),
        ("/d/a.zst", &zst, Compression::Auto, Ok("a")),
        ("/d/a", &gz, Compression::Gzip, Ok("a")),
        ("/d/a", &zst, Compression::Zstd, Ok("a")),
        ("/d/a.gz", &b"a\n".to_vec(), Compression::None, Ok("a")),
        ("/d/a", &gz, Compression::Auto, Err("set compression: gzip")),
        (
            "/d/a.zst",
            &zst,
            Compression::None,
            Err("set compression: zstd"),
        ),
        (
            "/d/a.gz",
            &b"a\n".to_vec(),
            Compression::Auto,
            Err("set compression as the file is"),
        ),
        (
            "/d/a.zst",
            &gz,
            Compression::Auto,
            Err("set compression as the file is"),
        ),
        (
            "/d/a.gz",
            &zst,
            Compression::Auto,
            Err("set compression as the file is"),
        ),
        (
            "/d/a.gz",
            &vec![],
            Compression::Auto,
            Err("bring the whole file"),
        ),
    ] {
        let fs = files(&[(name, contents)]);
        let config = FileSource {
            compression,
            ..text(name)
        };
        match (read(&fs, &config), expected) {
            (Ok(found), Ok(row)) => assert_eq!(found.rows(), [row], "{name}"),
            (Err(error), Err(remedy)) => {
                assert!(error.remedy().unwrap().contains(remedy), "{name}: {error}");
                assert!(error.to_string().contains(name), "{error}");
            }
            (found, _) => panic!("{name}: {:?}", found.map(|found| found.rows()).err()),
        }
    }
}

#[test]
fn a_frame_that_wants_more_memory_than_the_limit_is_refused() {
    let frame = |log| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(b"a\n").unwrap();
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(read_one("/d/a.zst", &frame(27)).unwrap(), ["a"]);
    let error = read_one("/d/a.zst", &frame(28)).unwrap_err();
    assert!(error.contains("too much memory"), "{error}");
}

#[test]
fn unpacking_is_done_in_steps_however_much_it_gives() {
    let mut contents = vec![b'x'; 64 << 20];
    contents.extend(b"\nafter\n");
    let packed = gzip(&contents);
    assert!(packed.len() < 1 << 20);
    let fs = files(&[("/d/a.gz", &packed)]);
    let config = FileSource {
        on_error: BadRecordPolicy::Skip,
        ..text("/d/a.gz")
    };
    let splits = discover(&fs, &config).unwrap().splits;
    let mut first = reader(&fs, &config, splits);
    let pauses = |reader: &mut crate::FileReader| {
        let mut pauses = 0;
        loop {
            match reader.poll_batch(BUDGET, MonoTime::ZERO, Waker::noop()) {
                Poll::Pending => pauses += 1,
                Poll::Ready(output) => return (pauses, output.unwrap()),
            }
        }
    };
    let (paused, ReaderOutput::Batch(batch)) = pauses(&mut first) else {
        panic!("a row")
    };
    assert_eq!(crate::testing::rows(batch.records()), ["after"]);
    assert!(paused >= 40, "{paused}");
    // So is the way to a place that was reached before.
    let position = first.snapshot().unwrap();
    let (paused, output) = pauses(&mut reader(&fs, &config, position));
    assert!(matches!(output, ReaderOutput::SplitFinished(_)));
    assert!(paused >= 40, "{paused}");
}

#[test]
fn another_encoding_is_named_also_within_a_packed_file() {
    let utf16 = |text: &str, be: bool| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units
            .flat_map(|unit| {
                if be {
                    unit.to_be_bytes()
                } else {
                    unit.to_le_bytes()
                }
            })
            .collect()
    };
    for (be, encoding) in [(false, "UTF-16LE"), (true, "UTF-16BE")] {
        let plain = utf16("größe\n", be);
        for (name, contents) in [
            ("/d/a.txt", plain.clone()),
            ("/d/a.gz", gzip(&plain)),
            ("/d/a.zst", zstd(&plain)),
        ] {
            let error = read_one(name, &contents).unwrap_err();
            assert!(error.contains(&format!("is in {encoding}")), "{error}");
        }
    }
    let error = read_one("/d/a.txt", b"\xff\xfe\0\0a\0\0\0").unwrap_err();
    assert!(error.contains("UTF-32LE"), "{error}");
}

#[test]
fn a_packed_file_that_changes_is_said_to_have_changed_and_not_to_be_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.gz");
    let name = path.to_str().unwrap();
    let contents: String = (0..400_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(&path, gzip(contents.as_bytes())).unwrap();
    let fs: Arc<dyn Fs> = Arc::new(millstream_env::fs::RealFs);
    let splits = discover(&fs, &text(name)).unwrap().splits;
    let mut reader = reader(&fs, &text(name), splits);
    poll(&mut reader, BUDGET).unwrap();
    std::fs::write(&path, b"something else").unwrap();
    let error = drain(&mut reader, BUDGET).err().unwrap().to_string();
    assert!(error.contains("changed while the job reads it"), "{error}");
}
