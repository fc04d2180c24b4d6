//! Where records begin and end: by lines here, by quotes in `frame_csv`.

use memchr::memchr;
use millstream_operator::OperatorError;

use crate::decode::Flaw;

use super::frame_csv::CsvFramer;
use super::split::{FileSplit, Mark};
use super::window::{Fill, Window};

/// What is kept of a record that is too long.
pub(super) const HEAD_BYTES: usize = 1024;

/// What comes next.
pub(super) enum Frame {
    /// The first `length` bytes of the window are a record, the first `advance` with its end.
    Record { length: usize, advance: usize },
    /// A record without a usable end. It was consumed.
    Flawed(FramedFlaw),
    /// This poll has read enough.
    Paused,
    /// The split is at its end.
    End,
}

/// A record that was not kept.
pub(super) struct FramedFlaw {
    /// Where it starts.
    pub(super) mark: Mark,
    /// Its first bytes.
    pub(super) head: Vec<u8>,
    pub(super) flaw: Flaw,
}

/// Finds records in a window.
pub(super) enum Framer {
    Lines(LineFramer),
    Csv(CsvFramer),
}

impl Framer {
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Frame, OperatorError> {
        match self {
            Self::Lines(lines) => lines.next(window),
            Self::Csv(csv) => csv.next(window),
        }
    }

    /// Where the record that comes next starts, if that is known.
    pub(super) fn mark(&self, window: &Window) -> Option<Mark> {
        match self {
            Self::Lines(lines) => match &lines.state {
                Skip::Alignment => None,
                Skip::TooLong(record) => Some(record.mark),
                Skip::Nothing => Some(window.mark()),
            },
            Self::Csv(csv) => Some(csv.mark(window)),
        }
    }
}

/// Lines that end with LF or CR LF; the last one may end with the file.
pub(super) struct LineFramer {
    end: u64,
    line_bytes_max: usize,
    /// Bytes of the window that hold no line end.
    searched: usize,
    state: Skip,
}

/// What is passed over up to the next line end.
enum Skip {
    Nothing,
    /// The line that belongs to the split before.
    Alignment,
    TooLong(TooLong),
}

/// A record that grew beyond the limit while its end was looked for.
pub(super) struct TooLong {
    pub(super) mark: Mark,
    pub(super) head: Vec<u8>,
    pub(super) bytes: u64,
}

impl TooLong {
    pub(super) fn begin(window: &Window) -> Self {
        let bytes = window.bytes();
        Self {
            mark: window.mark(),
            head: bytes[..bytes.len().min(HEAD_BYTES)].to_vec(),
            bytes: 0,
        }
    }

    pub(super) fn into_frame(self, bytes_max: usize) -> FramedFlaw {
        let what = format!(
            "the record has {} bytes, max-line accepts {bytes_max}",
            self.bytes
        );
        FramedFlaw {
            mark: self.mark,
            head: self.head,
            flaw: Flaw { at: 0, what },
        }
    }
}

impl LineFramer {
    /// Lines that start before `end`.
    pub(super) fn new(split: &FileSplit, end: u64, line_bytes_max: usize) -> Self {
        Self {
            end,
            line_bytes_max,
            searched: 0,
            state: match split.position {
                Some(_) => Skip::Nothing,
                None => Skip::Alignment,
            },
        }
    }

    fn next(&mut self, window: &mut Window) -> Result<Frame, OperatorError> {
        if !matches!(self.state, Skip::Nothing) {
            return self.skip(window);
        }
        loop {
            if window.mark().offset >= self.end {
                return Ok(Frame::End);
            }
            let bytes = window.bytes();
            if let Some(found) = memchr(b'\n', &bytes[self.searched..]) {
                let end = self.searched + found;
                self.searched = 0;
                return Ok(self.record(window, end, end + 1));
            }
            self.searched = bytes.len();
            // A carriage return may be one byte of them.
            if self.searched > self.line_bytes_max + 1 {
                self.searched = 0;
                self.state = Skip::TooLong(TooLong::begin(window));
                return self.skip(window);
            }
            match window.fill()? {
                Fill::More => {}
                Fill::Paused => return Ok(Frame::Paused),
                Fill::End if self.searched == 0 => return Ok(Frame::End),
                Fill::End => {
                    let end = std::mem::take(&mut self.searched);
                    return Ok(self.record(window, end, end));
                }
            }
        }
    }

    fn record(&self, window: &mut Window, end: usize, advance: usize) -> Frame {
        let line = &window.bytes()[..end];
        let length = line.strip_suffix(b"\r").unwrap_or(line).len();
        if length <= self.line_bytes_max {
            return Frame::Record { length, advance };
        }
        let mut record = TooLong::begin(window);
        record.bytes = length as u64;
        window.consume(advance);
        Frame::Flawed(record.into_frame(self.line_bytes_max))
    }

    /// Passes over a line without keeping it.
    fn skip(&mut self, window: &mut Window) -> Result<Frame, OperatorError> {
        loop {
            let found = memchr(b'\n', window.bytes());
            let passed = found.unwrap_or(window.bytes().len());
            if let Skip::TooLong(record) = &mut self.state {
                record.bytes += passed as u64;
            }
            window.consume(passed + usize::from(found.is_some()));
            let at_end = match found {
                Some(_) => true,
                None => match window.fill()? {
                    Fill::More => false,
                    Fill::Paused => return Ok(Frame::Paused),
                    Fill::End => true,
                },
            };
            if at_end {
                return match std::mem::replace(&mut self.state, Skip::Nothing) {
                    Skip::TooLong(record) => {
                        Ok(Frame::Flawed(record.into_frame(self.line_bytes_max)))
                    }
                    Skip::Alignment | Skip::Nothing => self.next(window),
                };
            }
        }
    }
}
