//! One split that is being read.

use std::sync::Arc;

use millstream_batch::Batch;
use millstream_env::fs::Fs;
use millstream_graph::{BadRecordPolicy, FileFormat, FileSource};
use millstream_operator::{Budget, ErrorKind, OperatorError, ReaderOutput};

use crate::decode::{Decoded, Decoder, Flaw};
use crate::fault;

use super::bad::{BadRecord, BadRecords, Letters};
use super::content::{Packing, check_encoding};
use super::frame::{Frame, FramedFlaw, Framer, LineFramer};
use super::frame_csv::CsvFramer;
use super::split::{FileSplit, Mark};
use super::window::{Fill, Window, count_lines};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What a poll may read beside what it may return: bad records, long lines.
const POLL_BYTES_MIN: usize = 1024 * 1024;
const BEGINNING: Mark = Mark {
    offset: 0,
    lines: Some(0),
};

/// A split with its file open.
///
/// The split's position is behind the last record that was *handed out*, not the last that was
/// read: what is between them is read again after a restore.
pub(super) struct Progress {
    fs: Arc<dyn Fs>,
    source: String,
    policy: BadRecordPolicy,
    split: FileSplit,
    window: Window,
    framer: Framer,
    decoder: Decoder,
    letters: Letters,
    /// A bad record behind rows that had to be handed out first.
    held: Option<BadRecord>,
}

impl Progress {
    /// Opens the split's file and goes to its position.
    pub(super) fn open(
        fs: &Arc<dyn Fs>,
        config: &FileSource,
        source: &str,
        split: FileSplit,
    ) -> Result<Self, OperatorError> {
        let line_bytes_max = usize::try_from(config.max_line_bytes).unwrap_or(usize::MAX - 1);
        let packing = Packing::of(config.compression, &split.path);
        // A packed file is one split, and how much it holds shows at its end.
        let end = packing.map_or(split.end, |_| u64::MAX);
        let framer = match config.format {
            FileFormat::Text | FileFormat::JsonLines => {
                Framer::Lines(LineFramer::new(&split, end, line_bytes_max))
            }
            FileFormat::Csv { delimiter } => Framer::Csv(CsvFramer::new(delimiter, line_bytes_max)),
            FileFormat::Parquet => return Err(fault::internal("a Parquet file has no lines")),
        };
        let decoder = Decoder::new(&config.format, &config.schema)?
            .failing_on_missing_fields(config.fail_on_missing_field);
        // A split in the middle starts with the line end before its first byte.
        let alignment = Mark {
            offset: split.start.saturating_sub(1),
            lines: None,
        };
        let mark = split.position.unwrap_or(alignment);
        let start = if decoder.needs_header() {
            BEGINNING
        } else {
            mark
        };
        let window = Window::open(
            Arc::clone(fs),
            split.path.clone(),
            split.pin,
            packing,
            start,
        )?;
        let mut progress = Self {
            fs: Arc::clone(fs),
            source: source.to_owned(),
            policy: config.on_error,
            split,
            window,
            framer,
            decoder,
            letters: Letters::default(),
            held: None,
        };
        if start.offset == 0 && progress.split.start == 0 {
            progress.skip_byte_order_mark()?;
        }
        if progress.decoder.needs_header() {
            progress.read_header()?;
            if mark.offset > progress.window.mark().offset {
                progress.window.rewind(mark)?;
            }
        }
        Ok(progress)
    }

    /// The split, with what was handed out.
    pub(super) fn split(&self) -> &FileSplit {
        &self.split
    }

    /// Reads on until there is something to hand out; `None` if nothing was found so far. Counts bad
    /// records.
    pub(super) fn step(
        &mut self,
        budget: Budget,
        bad_records: &mut BadRecords,
    ) -> Result<Option<ReaderOutput>, OperatorError> {
        self.window.allow(budget.bytes.max(POLL_BYTES_MIN));
        if let Some(bad) = self.held.take() {
            self.add_letter(&bad)?;
        }
        loop {
            let is_full = |rows, bytes| rows >= budget.rows || bytes >= budget.bytes;
            if self.decoder.len() > 0 && is_full(self.decoder.len(), self.decoder.bytes())
                || self.letters.len() > 0 && is_full(self.letters.len(), self.letters.bytes())
            {
                return self.hand_out(self.window.mark());
            }
            let (bad, frame_mark) = match self.framer.next(&mut self.window)? {
                Frame::Record { length, advance } => {
                    let mark = self.window.mark();
                    let decoded = self.decoder.record(&self.window.bytes()[..length]);
                    let bad = decoded.map_err(|flaw| BadRecord {
                        mark,
                        record: self.window.bytes()[..length].to_vec(),
                        flaw,
                    });
                    self.window.consume(advance);
                    match bad {
                        // Dead letters in front of this row leave first.
                        Ok(Decoded::Row) if self.letters.len() > 0 => return self.hand_out(mark),
                        Ok(Decoded::Row | Decoded::Nothing) => continue,
                        Err(bad) => (bad, mark),
                    }
                }
                Frame::Flawed(FramedFlaw { mark, head, flaw }) => {
                    let record = head;
                    (BadRecord { mark, record, flaw }, mark)
                }
                Frame::Paused | Frame::End if self.decoder.len() + self.letters.len() > 0 => {
                    let mark = self.framer.mark(&self.window);
                    return self.hand_out(mark.unwrap_or(self.window.mark()));
                }
                Frame::Paused => {
                    self.split.position = self.framer.mark(&self.window).or(self.split.position);
                    return Ok(None);
                }
                Frame::End => return Ok(Some(ReaderOutput::SplitFinished(self.split.id()))),
            };
            bad_records.add(&bad, &self.split.path);
            match self.policy {
                BadRecordPolicy::Fail => return Err(self.failure(bad)?),
                BadRecordPolicy::Skip => {}
                BadRecordPolicy::DeadLetter if self.decoder.len() > 0 => {
                    self.held = Some(bad);
                    return self.hand_out(frame_mark);
                }
                BadRecordPolicy::DeadLetter => self.add_letter(&bad)?,
            }
        }
    }

    /// Hands out the dead letters, or else the rows. What starts at `position` was not handed out.
    fn hand_out(&mut self, position: Mark) -> Result<Option<ReaderOutput>, OperatorError> {
        let output = match self.letters.len() {
            0 => ReaderOutput::Batch(Batch::new(self.decoder.take()?)),
            _ => ReaderOutput::DeadLetters(Batch::new(self.letters.take()?)),
        };
        self.split.position = Some(position);
        Ok(Some(output))
    }

    fn add_letter(&mut self, bad: &BadRecord) -> Result<(), OperatorError> {
        let lines = self.lines_before(bad.mark)?;
        self.letters
            .push(&self.source, &self.split.path, bad, lines);
        Ok(())
    }

    fn failure(&mut self, bad: BadRecord) -> Result<OperatorError, OperatorError> {
        let lines = self.lines_before(bad.mark)?;
        Ok(bad.into_error(&self.split.path, lines))
    }

    /// Lines before a place. A split in the middle of a file does not know until somebody asks: then
    /// the file is read from its start, once.
    fn lines_before(&mut self, mark: Mark) -> Result<u64, OperatorError> {
        if let Some(lines) = mark.lines {
            return Ok(lines);
        }
        let count =
            |from, to| count_lines(self.fs.as_ref(), &self.split.path, self.split.pin, from, to);
        let now = self.window.mark();
        if let Some(lines) = now.lines {
            return Ok(lines - count(mark.offset, now.offset)?);
        }
        let lines = count(0, mark.offset)?;
        let between = count(mark.offset, now.offset)?;
        self.window.set_lines(lines + between);
        Ok(lines)
    }

    fn skip_byte_order_mark(&mut self) -> Result<(), OperatorError> {
        self.window.allow(POLL_BYTES_MIN);
        while self.window.bytes().len() < BYTE_ORDER_MARK.len() {
            if self.window.fill()? != Fill::More {
                break;
            }
        }
        // Of a file that is not packed the enumerator looked at this.
        check_encoding(&self.split.path, self.window.bytes())?;
        if self.window.bytes().starts_with(BYTE_ORDER_MARK) {
            self.window.consume(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// The first record that is not empty. A mistake in it is one of the whole file: it fails the
    /// job whatever the policy.
    fn read_header(&mut self) -> Result<(), OperatorError> {
        loop {
            self.window.allow(POLL_BYTES_MIN);
            let (bad, is_header) = match self.framer.next(&mut self.window)? {
                Frame::Record { length, advance } => {
                    let mark = self.window.mark();
                    let record = self.window.bytes()[..length].to_vec();
                    self.window.consume(advance);
                    match self.decoder.header(&record) {
                        Ok(is_header) => (None, is_header),
                        Err(flaw) => (Some(BadRecord { mark, record, flaw }), false),
                    }
                }
                Frame::Flawed(FramedFlaw { mark, head, flaw }) => {
                    let record = head;
                    (Some(BadRecord { mark, record, flaw }), false)
                }
                Frame::Paused => (None, false),
                // Nothing but empty lines.
                Frame::End => return Ok(()),
            };
            if let Some(bad) = bad {
                return Err(self.header_error(&bad));
            }
            if is_header {
                return Ok(());
            }
        }
    }

    fn header_error(&self, bad: &BadRecord) -> OperatorError {
        let Flaw { what, .. } = &bad.flaw;
        let (line, column) = bad.position(bad.mark.lines.unwrap_or(0));
        let path = &self.split.path;
        let what = format!("header of {path:?}, line {line}, column {column}: {what}");
        OperatorError::new(ErrorKind::BadRecord, what)
            .with_remedy("declare the columns by the names in the file's first line")
    }
}
