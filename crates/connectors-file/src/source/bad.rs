//! Records that cannot be read: the error that names them, and the dead letters.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Builder, RecordBatch, StringBuilder};
use millstream_graph::dead_letter_schema;
use millstream_operator::{ErrorKind, OperatorError};

use crate::decode::Flaw;
use crate::fault;

use super::split::Mark;

/// Characters of a record that an error shows.
const EXCERPT_CHARS: usize = 80;
/// Of those, how many stand before the flaw.
const EXCERPT_BEFORE: usize = 30;

/// A record that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BadRecord {
    /// Where it starts.
    pub(super) mark: Mark,
    pub(super) record: Vec<u8>,
    pub(super) flaw: Flaw,
}

impl BadRecord {
    /// Line from 1, given the lines before the record, and column in bytes from 1. The flaw may be
    /// on a later line than the record starts on.
    pub(super) fn position(&self, lines_before: u64) -> (u64, u64) {
        let before = &self.record[..self.flaw.at.min(self.record.len())];
        let breaks = before.iter().filter(|byte| **byte == b'\n').count();
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let column = self.flaw.at - line_start;
        (lines_before + breaks as u64 + 1, column as u64 + 1)
    }

    /// Where it is and what is wrong, without looking for its line where that is not known.
    pub(super) fn in_words(&self, path: &Path) -> String {
        let (what, excerpt) = (&self.flaw.what, excerpt(&self.record, self.flaw.at));
        let byte = self.mark.offset + self.flaw.at as u64;
        match self.mark.lines {
            Some(lines) => {
                let (line, column) = self.position(lines);
                format!("{path:?}, line {line}, column {column} (byte {byte}): {what}: {excerpt}")
            }
            None => format!("{path:?}, byte {byte}: {what}: {excerpt}"),
        }
    }

    /// The error that fails the job.
    pub(super) fn into_error(self, path: &Path, lines_before: u64) -> OperatorError {
        let (line, column) = self.position(lines_before);
        let byte = self.mark.offset + self.flaw.at as u64;
        let what = format!(
            "bad record in {path:?}, line {line}, column {column} (byte {byte}): {}: {}",
            self.flaw.what,
            excerpt(&self.record, self.flaw.at),
        );
        OperatorError::new(ErrorKind::BadRecord, what)
            .with_remedy("correct the file, or let the source skip bad records or dead-letter them")
    }
}

/// Part of a record around the flaw, on one line.
fn excerpt(record: &[u8], at: usize) -> String {
    let before = String::from_utf8_lossy(&record[..at.min(record.len())]).into_owned();
    let after = String::from_utf8_lossy(&record[at.min(record.len())..]).into_owned();
    let mut text: Vec<char> = before.chars().flat_map(on_one_line).collect();
    let start = match text.len() + after.len() > EXCERPT_CHARS {
        true => text.len().saturating_sub(EXCERPT_BEFORE),
        false => 0,
    };
    text.extend(after.chars().take(EXCERPT_CHARS).flat_map(on_one_line));
    let is_cut = text.len() - start > EXCERPT_CHARS;
    let front = if start > 0 { "…" } else { "" };
    let end = if is_cut { "…" } else { "" };
    let marks = usize::from(start > 0) + usize::from(is_cut);
    let shown = text[start..].iter().take(EXCERPT_CHARS - marks);
    format!("{front}{}{end}", shown.collect::<String>())
}

/// A character as it may stand in a log.
fn on_one_line(c: char) -> impl Iterator<Item = char> {
    let plain = (!c.is_control()).then_some(c);
    let escaped = c.is_control().then(|| c.escape_default());
    plain.into_iter().chain(escaped.into_iter().flatten())
}

/// What a reader knows of the records it did not make rows of.
#[derive(Default)]
pub(super) struct BadRecords {
    pub(super) n: u64,
    /// The first of them, in words.
    pub(super) first: Option<String>,
}

impl BadRecords {
    pub(super) fn add(&mut self, bad: &BadRecord, path: &Path) {
        self.n += 1;
        self.first.get_or_insert_with(|| bad.in_words(path));
    }
}

/// Bad records on their way to the dead-letter output.
#[derive(Default)]
pub(super) struct Letters {
    sources: StringBuilder,
    files: StringBuilder,
    lines: Int64Builder,
    columns: Int64Builder,
    errors: StringBuilder,
    records: StringBuilder,
    rows: usize,
    bytes: usize,
}

impl Letters {
    pub(super) fn push(&mut self, source: &str, path: &Path, bad: &BadRecord, lines_before: u64) {
        let (line, column) = bad.position(lines_before);
        self.sources.append_value(source);
        self.files.append_value(path.to_string_lossy());
        self.lines
            .append_value(i64::try_from(line).unwrap_or(i64::MAX));
        self.columns
            .append_value(i64::try_from(column).unwrap_or(i64::MAX));
        self.errors.append_value(&bad.flaw.what);
        self.records
            .append_value(String::from_utf8_lossy(&bad.record));
        self.rows += 1;
        self.bytes += source.len() + path.as_os_str().len() + bad.flaw.what.len();
        self.bytes += bad.record.len();
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn take(&mut self) -> Result<RecordBatch, OperatorError> {
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(self.sources.finish()),
            Arc::new(self.files.finish()),
            Arc::new(self.lines.finish()),
            Arc::new(self.columns.finish()),
            Arc::new(self.errors.finish()),
            Arc::new(self.records.finish()),
        ];
        RecordBatch::try_new(dead_letter_schema(), columns)
            .map_err(|error| fault::internal("dead letters make no batch").with_source(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(record: &[u8], at: usize) -> BadRecord {
        let what = "wrong".to_owned();
        BadRecord {
            mark: Mark {
                offset: 100,
                lines: None,
            },
            record: record.to_vec(),
            flaw: Flaw { at, what },
        }
    }

    #[test]
    fn the_error_shows_where_and_a_line_of_the_record() {
        let long = format!("{}here\u{1b}{}", "a".repeat(200), "b".repeat(200));
        let cases = [
            (
                bad(b"{\"a\":x}", 5),
                "line 8, column 6 (byte 105): wrong: {\"a\":x}",
            ),
            (
                bad(b"a,\"x\ny\"z", 7),
                "line 9, column 3 (byte 107): wrong: a,\"x\\ny\"z",
            ),
            (
                bad(b"ab\xff", 2),
                "line 8, column 3 (byte 102): wrong: ab\u{fffd}",
            ),
            (
                bad(long.as_bytes(), 200),
                "wrong: …aaaaaaaaaaaaaaaaaaaaaaaaaaaaaahere\\u{1b}bbb",
            ),
        ];
        for (bad, expected) in cases {
            let error = bad.into_error(Path::new("/d/f"), 7).to_string();
            assert!(
                error.starts_with("bad record in \"/d/f\", line "),
                "{error}"
            );
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(excerpt(long.as_bytes(), 200).chars().count(), EXCERPT_CHARS);
        assert_eq!(
            excerpt("ä".repeat(500).as_bytes(), 0).chars().count(),
            EXCERPT_CHARS
        );
    }
}
