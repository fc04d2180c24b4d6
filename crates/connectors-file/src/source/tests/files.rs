//! Files that change or cannot be read, and how they are cut into splits and batches.

use std::sync::Arc;

use millstream_env::fs::{Fs, RealFs};
use millstream_graph::FileSource;
use millstream_operator::{Budget, ErrorKind, ReaderOutput, SplitReader};

use crate::FileReader;
use crate::testing::{BUDGET, discover, drain, files, poll, put, read, reader, text};

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
    put(fs.as_ref(), &at("packed"), b"\x1f\x8b\x08rest");
    std::os::unix::fs::symlink("/nowhere/at/all", at("dangling")).unwrap();
    for (name, why) in [
        ("packed", "compressed with gzip"),
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
