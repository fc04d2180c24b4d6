//! Finished output with one thing wrong: `check` says what and where.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use millstream_oracle::finding::{Finding, Kind, Location};
use millstream_oracle::row::Format;
use millstream_oracle::rule::Rows;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::output::{Output, Part, name};

/// Keys 0 and 1 of one subtask; file 0 holds n = 1 to 3, file 1 holds n = 4 to 6.
fn output() -> Output {
    let mut output = Output::generate(Format::Json, 2, 6, &mut StdRng::seed_from_u64(1));
    let part = |seq: u64, ns: [u64; 3]| Part {
        name: name(Format::Json, 0, seq, 0x5c),
        rows: ns
            .into_iter()
            .flat_map(|n| [[0, n, n * (n + 1) / 2], [1, n, n * (n + 1) / 2]])
            .collect(),
    };
    output.parts = vec![part(0, [1, 2, 3]), part(1, [4, 5, 6])];
    output
}

fn check(damage: impl FnOnce(&mut Output)) -> Vec<Finding> {
    let mut output = output();
    damage(&mut output);
    output.commit_all();
    output.check()
}

fn at(seq: u64, line: u64) -> Location {
    Location {
        file: name(Format::Json, 0, seq, 0x5c),
        line,
    }
}

fn kinds(findings: &[Finding]) -> Vec<Kind> {
    findings.iter().map(|finding| finding.kind).collect()
}

/// The one finding: kind, place, and the row.
#[track_caller]
fn assert_one(findings: &[Finding], kind: Kind, location: Location, row: Option<(i128, i128)>) {
    assert_eq!(kinds(findings), [kind], "{findings:?}");
    let finding = &findings[0];
    assert_eq!(finding.file.as_deref(), Some(location.file.as_str()));
    assert_eq!(finding.line, Some(location.line));
    assert_eq!(finding.key.zip(finding.n), row);
}

#[test]
fn good_output_passes_in_both_forms() {
    for format in [Format::Json, Format::Csv] {
        let mut rng = StdRng::seed_from_u64(7);
        let output = Output::generate(format, 5, 40, &mut rng);
        output.commit_all();
        assert_eq!(output.check(), []);
    }
}

#[test]
fn a_dropped_row_leaves_a_gap_before_the_next_one() {
    let findings = check(|output| {
        output.parts[0].rows.remove(3);
    });
    assert_one(&findings, Kind::Gap, at(0, 5), Some((1, 2)));
    assert_eq!(findings[0].found, "n = 3; 1 rows are missing");
}

#[test]
fn a_dropped_last_row_is_missing_once_the_job_is_done_and_no_finding_before() {
    let mut output = output();
    output.parts[1].rows.pop();
    output.commit_all();
    let mut examiner = output.examiner();
    examiner.conclude(false);
    assert!(examiner.findings().is_empty());
    let findings = output.check();
    assert_eq!(kinds(&findings), [Kind::Missing]);
    assert_eq!((findings[0].key, findings[0].n), (Some(1), Some(6)));
    assert_eq!(findings[0].other, Some(at(1, 4)));
}

#[test]
fn a_doubled_row_is_told_with_both_places() {
    let findings = check(|output| {
        let row = output.parts[0].rows[2];
        output.parts[1].rows.push(row);
    });
    assert_one(&findings, Kind::Duplicate, at(1, 7), Some((0, 2)));
    assert_eq!(findings[0].other, Some(at(0, 3)));
    let text = r#"{"key":0,"n":2,"sum":3}"#;
    assert_eq!(findings[0].text.as_deref(), Some(text));
    let findings = check(|output| {
        let row = output.parts[0].rows[2];
        output.parts[0].rows.insert(3, row);
    });
    assert_one(&findings, Kind::Duplicate, at(0, 4), Some((0, 2)));
    assert_eq!(findings[0].other, Some(at(0, 3)));
}

#[test]
fn swapped_rows_are_out_of_order_within_a_file_and_across_a_writers_files() {
    let findings = check(|output| output.parts[0].rows.swap(0, 4));
    let [n2, n1] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert_eq!((n2.kind, n2.n, n2.line), (Kind::Order, Some(2), Some(3)));
    assert_eq!((n1.kind, n1.n, n1.line), (Kind::Order, Some(1), Some(5)));
    assert_eq!(n2.other, Some(at(0, 1)));
    let findings = check(|output| {
        let (first, second) = output.parts.split_at_mut(1);
        std::mem::swap(&mut first[0].rows[5], &mut second[0].rows[1]);
    });
    assert_one(&findings, Kind::Order, at(1, 2), Some((1, 3)));
}

#[test]
fn an_altered_sum_is_told_with_the_right_one() {
    let findings = check(|output| output.parts[1].rows[1][2] += 1);
    assert_one(&findings, Kind::WrongSum, at(1, 2), Some((1, 4)));
    assert_eq!(findings[0].expected, "sum 10");
    assert_eq!(findings[0].found, "sum 11");
}

#[test]
fn an_altered_value_is_a_wrong_sum_first_and_a_duplicate_and_a_gap() {
    let findings = check(|output| output.parts[0].rows[2][1] = 3);
    let expected = [Kind::WrongSum, Kind::Duplicate, Kind::Gap];
    assert_eq!(kinds(&findings), expected);
    assert_eq!(findings[0].line, Some(3));
    assert_eq!(findings[0].expected, "sum 6");
    assert_eq!(findings[2].n, Some(2));
}

#[test]
fn rows_of_no_key_and_beyond_the_end_are_told() {
    let findings = check(|output| output.parts[1].rows.push([2, 1, 1]));
    assert_one(&findings, Kind::UnknownKey, at(1, 7), Some((2, 1)));
    let findings = check(|output| output.parts[1].rows.push([1, 7, 28]));
    assert_one(&findings, Kind::NoSuchN, at(1, 7), Some((1, 7)));
}

#[test]
fn an_uncommitted_file_that_became_visible_shows_by_its_gap_or_by_the_replay() {
    // Rows of a checkpoint that never was: those before are missing.
    let findings = check(|output| drop(output.parts.remove(0)));
    assert_eq!(kinds(&findings)[..2], [Kind::Gap, Kind::Gap]);
    // Rows of a file that stayed after the restart: the restarted job writes them again.
    let findings = check(|output| {
        let mut again = output.parts[1].clone();
        again.name = name(Format::Json, 0, 2, 0x9d);
        output.parts.push(again);
    });
    assert!(kinds(&findings).iter().all(|kind| *kind == Kind::Duplicate));
    assert_eq!(findings.len(), 6);
    assert_eq!(findings[0].file, Some(name(Format::Json, 0, 2, 0x9d)));
    assert_eq!(findings[0].other, Some(at(1, 1)));
}

#[test]
fn a_removed_file_is_missed() {
    let findings = check(|output| drop(output.parts.pop()));
    assert_eq!(kinds(&findings), [Kind::Missing, Kind::Missing]);
}

#[test]
fn a_truncated_file_is_told_in_and_between_lines() {
    let truncated = |bytes_off: usize| {
        let output = output();
        output.commit_all();
        let name = &output.parts[1].name;
        let text = fs::read(output.path(name)).unwrap();
        fs::write(output.path(name), &text[..text.len() - bytes_off]).unwrap();
        output.check()
    };
    // The line end alone; the end of a line; a whole line.
    assert_one(&truncated(1), Kind::TornLine, at(1, 6), None);
    let expected = [Kind::TornLine, Kind::Malformed, Kind::Missing];
    assert_eq!(kinds(&truncated(4)), expected);
    let line = r#"{"key":1,"n":6,"sum":21}"#.len() + 1;
    assert_eq!(kinds(&truncated(line)), [Kind::Missing]);
}

#[test]
fn a_total_is_judged_where_it_is_all_that_is_known() {
    let output = output();
    output.commit_all();
    let found = |rows, is_final| {
        let mut examiner = output.examiner_for(rows);
        examiner.conclude(is_final);
        kinds(examiner.findings().kept())
    };
    assert_eq!(found(Rows::Total(12), true), []);
    assert_eq!(found(Rows::Total(11), false), [Kind::WrongTotal]);
    assert_eq!(found(Rows::Total(13), false), []);
    assert_eq!(found(Rows::Total(13), true), [Kind::WrongTotal]);
    assert_eq!(found(Rows::Open, false), []);
}

#[test]
fn no_output_is_no_proof() {
    let findings = check(|output| output.parts.clear());
    assert_eq!(kinds(&findings)[..2], [Kind::Empty, Kind::Missing]);
    let output = output();
    fs::create_dir_all(output.path(".staging")).unwrap();
    let mut examiner = output.examiner();
    examiner.conclude(false);
    assert_eq!(kinds(examiner.findings().kept()), [Kind::Empty]);
}

#[test]
fn hostile_files_are_findings_and_the_rest_is_judged_all_the_same() {
    let output = output();
    output.commit_all();
    let nasty: [&[u8]; 6] = [
        b"\xff\xfe\x00",
        b"{\"key\":1e999,\"n\":1,\"sum\":1}",
        b"{\"key\":99999999999999999999999999999999999999999,\"n\":1,\"sum\":1}",
        b"null",
        b"",
        b"{\"key\":-1,\"n\":-1,\"sum\":-1}",
    ];
    let mut text = nasty.join(&b'\n');
    text.extend([b'\n'].into_iter().chain(vec![b'['; 200_000]));
    let name = std::ffi::OsStr::from_bytes(b"hostile-\xff");
    fs::write(output.path("").join(name), text).unwrap();
    std::os::unix::fs::symlink("nowhere", output.path("broken")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", output.path("endless")).unwrap();
    fs::create_dir(output.path("folder.jsonl")).unwrap();
    let findings = output.check();
    let count = |kind| {
        kinds(&findings)
            .iter()
            .filter(|found| **found == kind)
            .count()
    };
    assert_eq!(count(Kind::Malformed), 6);
    assert_eq!(count(Kind::UnknownKey), 1);
    assert_eq!(count(Kind::Unreadable), 2);
    assert_eq!(findings.len(), 9, "{findings:?}");
}
