//! Output that is looked at while it comes: each view is judged, and nothing may be taken back.

use std::fs;
use std::time::{Duration, SystemTime};

use millstream_oracle::examiner::{Examiner, Look};
use millstream_oracle::finding::Kind;
use millstream_oracle::row::Format;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::output::Output;

fn output() -> Output {
    Output::generate(Format::Json, 4, 30, &mut StdRng::seed_from_u64(3))
}

fn kinds(examiner: &Examiner) -> Vec<Kind> {
    examiner.findings().counts().keys().copied().collect()
}

#[test]
fn every_view_between_two_commits_is_a_prefix() {
    let output = output();
    let mut examiner = output.examiner();
    // The sink has not made its directory yet.
    fs::remove_dir(output.path("")).unwrap();
    assert_eq!(examiner.look(), Look::NotJudged);
    for part in &output.parts {
        output.commit(part);
        assert_eq!(examiner.look(), Look::Grew);
        assert_eq!(examiner.look(), Look::Same);
    }
    examiner.conclude(true);
    assert_eq!(kinds(&examiner), []);
    assert_eq!(examiner.ledger().n_rows(), 4 * 30);
}

#[test]
fn a_gap_in_one_view_is_told_even_if_the_next_view_has_none() {
    let output = output();
    let mut examiner = output.examiner();
    output.commit(&output.parts[2]);
    examiner.look();
    let gap = &examiner.findings().kept()[0];
    assert_eq!((gap.kind, gap.view), (Kind::Gap, 1));
    assert_eq!(gap.file.as_ref(), Some(&output.parts[2].name));
    for index in (0..output.parts.len()).filter(|index| *index != 2) {
        output.commit(&output.parts[index]);
    }
    examiner.conclude(true);
    assert_eq!(kinds(&examiner), [Kind::Gap]);
}

#[test]
fn a_row_that_was_visible_too_early_and_is_gone_is_told() {
    let output = output();
    let mut examiner = output.examiner();
    // The subtask's next row, which the next checkpoint promises.
    let (mut early, next) = (output.parts[0].clone(), &output.parts[2]);
    early.rows.push(next.rows[0]);
    output.commit(&early);
    examiner.look();
    fs::remove_file(output.path(&early.name)).unwrap();
    output.commit(&output.parts[0]);
    examiner.look();
    assert!(kinds(&examiner).contains(&Kind::FileChanged));
    let changed = examiner.findings().kept().last().unwrap();
    assert_eq!(
        (changed.view, changed.file.as_ref()),
        (2, Some(&early.name))
    );
}

#[test]
fn a_staging_file_that_was_visible_for_one_view_is_told() {
    let output = output();
    let mut examiner = output.examiner();
    let mut staged = output.parts[0].clone();
    staged.name = "inprogress".to_owned();
    output.commit(&staged);
    examiner.look();
    fs::remove_file(output.path("inprogress")).unwrap();
    output.commit_all();
    examiner.conclude(true);
    assert_eq!(kinds(&examiner), [Kind::Duplicate, Kind::FileVanished]);
    let gone = examiner.findings().kept();
    let gone = gone.iter().find(|found| found.kind == Kind::FileVanished);
    assert_eq!(gone.unwrap().file.as_deref(), Some("inprogress"));
}

#[test]
fn a_file_that_grows_while_visible_is_told() {
    let output = output();
    let mut examiner = output.examiner();
    let text = output.text(&output.parts[0]);
    fs::write(output.path("growing"), &text[..text.len() / 2]).unwrap();
    examiner.look();
    fs::write(output.path("growing"), &text).unwrap();
    examiner.look();
    assert!(kinds(&examiner).contains(&Kind::FileChanged));
}

#[test]
fn content_altered_behind_unchanged_times_is_told_in_the_end() {
    let output = output();
    output.commit_all();
    let mut examiner = output.examiner();
    examiner.look();
    let path = output.path(&output.parts[0].name);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"sum\"", "\"SUM\"")).unwrap();
    examiner.conclude(true);
    assert_eq!(kinds(&examiner), [Kind::FileChanged]);
    let found = &examiner.findings().kept()[0].found;
    assert!(found.starts_with("other content of the same "), "{found}");
}

#[test]
fn a_touched_file_is_no_changed_file() {
    let output = output();
    output.commit_all();
    let mut examiner = output.examiner();
    examiner.look();
    let path = output.path(&output.parts[0].name);
    let file = fs::File::options().append(true).open(&path).unwrap();
    let hour = Duration::from_secs(3600);
    file.set_modified(SystemTime::UNIX_EPOCH + hour).unwrap();
    fs::hard_link(&path, output.path(".another-name")).unwrap();
    examiner.conclude(true);
    assert_eq!(kinds(&examiner), []);
}

#[test]
fn a_directory_that_goes_takes_its_files_along() {
    let output = output();
    output.commit_all();
    let mut examiner = output.examiner();
    examiner.look();
    fs::remove_dir_all(output.path("")).unwrap();
    examiner.look();
    assert_eq!(kinds(&examiner), [Kind::Unreadable]);
}
