//! Records of CSV: a line break inside of quotes ends no record.

use memchr::{memchr, memchr2};
use millstream_operator::OperatorError;

use crate::decode::Flaw;

use super::frame::{Frame, FramedFlaw, HEAD_BYTES, TooLong};
use super::split::Mark;
use super::window::{Fill, Window};

/// Finds the ends of CSV records.
///
/// A quote that is never closed would swallow the rest of the file. It costs the line it is on: the
/// record after it begins on the next line. A record above the limit is passed over to its end
/// without being kept.
pub(super) struct CsvFramer {
    delimiter: u8,
    record_bytes_max: usize,
    /// Bytes of the window that belong to the record and were looked at.
    searched: usize,
    place: Place,
    too_long: Option<Overflow>,
}

struct Overflow {
    record: TooLong,
    /// The line after the one that the record starts on, once it was seen.
    next_line: Option<Mark>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Bare,
    Quoted,
    /// Behind a quote within quotes: the end of the field, or the first half of a doubled quote.
    AfterQuote,
}

impl CsvFramer {
    pub(super) fn new(delimiter: u8, record_bytes_max: usize) -> Self {
        Self {
            delimiter,
            record_bytes_max,
            searched: 0,
            place: Place::FieldStart,
            too_long: None,
        }
    }

    pub(super) fn mark(&self, window: &Window) -> Mark {
        match &self.too_long {
            Some(overflow) => overflow.record.mark,
            None => window.mark(),
        }
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Frame, OperatorError> {
        loop {
            if let Some(end) = self.scan(window.bytes()) {
                return Ok(self.finish(window, end, end + 1));
            }
            if self.searched > self.record_bytes_max + 1 || self.too_long.is_some() {
                self.drop_searched(window);
            }
            match window.fill()? {
                Fill::More => {}
                Fill::Paused => return Ok(Frame::Paused),
                Fill::End if self.place == Place::Quoted => return self.unterminated(window),
                Fill::End if self.searched == 0 && self.too_long.is_none() => {
                    return Ok(Frame::End);
                }
                Fill::End => {
                    let end = self.searched;
                    return Ok(self.finish(window, end, end));
                }
            }
        }
    }

    /// Goes on looking for the line break that ends the record.
    fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(&byte) = bytes.get(self.searched) {
            let rest = &bytes[self.searched..];
            let (passed, place) = match self.place {
                Place::Bare => match memchr2(self.delimiter, b'\n', rest) {
                    Some(found) if rest[found] == b'\n' => return self.found(found),
                    Some(found) => (found + 1, Place::FieldStart),
                    None => (rest.len(), Place::Bare),
                },
                Place::Quoted => match memchr(b'"', rest) {
                    Some(found) => (found + 1, Place::AfterQuote),
                    None => (rest.len(), Place::Quoted),
                },
                Place::FieldStart | Place::AfterQuote if byte == b'\n' => return self.found(0),
                Place::FieldStart | Place::AfterQuote if byte == self.delimiter => {
                    (1, Place::FieldStart)
                }
                Place::FieldStart | Place::AfterQuote if byte == b'"' => (1, Place::Quoted),
                Place::FieldStart | Place::AfterQuote => (1, Place::Bare),
            };
            self.searched += passed;
            self.place = place;
        }
        None
    }

    fn found(&mut self, ahead: usize) -> Option<usize> {
        Some(self.searched + ahead)
    }

    fn finish(&mut self, window: &mut Window, end: usize, advance: usize) -> Frame {
        self.searched = 0;
        self.place = Place::FieldStart;
        if let Some(mut overflow) = self.too_long.take() {
            overflow.record.bytes += end as u64;
            window.consume(advance);
            return Frame::Flawed(overflow.record.into_frame(self.record_bytes_max));
        }
        let record = &window.bytes()[..end];
        let length = record.strip_suffix(b"\r").unwrap_or(record).len();
        if length <= self.record_bytes_max {
            return Frame::Record { length, advance };
        }
        let mut record = TooLong::begin(window);
        record.bytes = length as u64;
        window.consume(advance);
        Frame::Flawed(record.into_frame(self.record_bytes_max))
    }

    /// Lets go of what was looked at of a record above the limit.
    fn drop_searched(&mut self, window: &mut Window) {
        let overflow = self.too_long.get_or_insert_with(|| Overflow {
            record: TooLong::begin(window),
            next_line: None,
        });
        overflow.record.bytes += self.searched as u64;
        let mut left = self.searched;
        if overflow.next_line.is_none()
            && let Some(found) = memchr(b'\n', &window.bytes()[..left])
        {
            window.consume(found + 1);
            overflow.next_line = Some(window.mark());
            left -= found + 1;
        }
        window.consume(left);
        self.searched = 0;
    }

    fn unterminated(&mut self, window: &mut Window) -> Result<Frame, OperatorError> {
        self.searched = 0;
        self.place = Place::FieldStart;
        let flaw = |at| Flaw {
            at,
            what: "a quote is not closed before the end of the file".to_owned(),
        };
        if let Some(Overflow { record, next_line }) = self.too_long.take() {
            if let Some(next_line) = next_line {
                window.rewind(next_line)?;
            } else {
                window.consume(window.bytes().len());
            }
            let TooLong { mark, head, .. } = record;
            let flaw = flaw(0);
            return Ok(Frame::Flawed(FramedFlaw { mark, head, flaw }));
        }
        let mark = window.mark();
        let bytes = window.bytes();
        let line = memchr(b'\n', bytes).unwrap_or(bytes.len());
        let head = bytes[..line.min(HEAD_BYTES)].to_vec();
        let flaw = flaw(last_opening(bytes, self.delimiter).min(line));
        window.consume((line + 1).min(window.bytes().len()));
        Ok(Frame::Flawed(FramedFlaw { mark, head, flaw }))
    }
}

/// Where the quote is that a record without an end leaves open.
fn last_opening(record: &[u8], delimiter: u8) -> usize {
    let mut framer = CsvFramer::new(delimiter, usize::MAX);
    let mut opening = 0;
    while let Some(&byte) = record.get(framer.searched) {
        if framer.place == Place::FieldStart && byte == b'"' {
            opening = framer.searched;
        }
        // One step at a time: up to this byte, and no further.
        let until = framer.searched + 1;
        if framer.scan(&record[..until]).is_some() {
            break;
        }
    }
    opening
}
