//! The bytes of a file that are in memory: read ahead of the records, and never from a file that
//! changed.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use memchr::memchr_iter;
use millstream_env::fs::Fs;
use millstream_operator::OperatorError;

use crate::fault;

use super::content::{Content, Found, Packing};
use super::pin::Pin;
use super::split::Mark;

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// What came of asking for more bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    More,
    /// This poll has read enough.
    Paused,
    /// There are no more.
    End,
}

/// A window on a file. It starts at a place that moves forward only as bytes are consumed.
pub(crate) struct Window {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    pin: Pin,
    content: Content,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    mark: Mark,
    fills_left: usize,
}

impl Window {
    /// Opens the file at a place. It must still be what it was.
    pub(crate) fn open(
        fs: Arc<dyn Fs>,
        path: PathBuf,
        pin: Pin,
        packing: Option<Packing>,
        mark: Mark,
    ) -> Result<Self, OperatorError> {
        let file = pin.reopen(fs.as_ref(), &path)?;
        let content = Content::new(file, packing);
        let content = content.map_err(|error| fault::of_io("unpack", &path, error))?;
        let mut window = Self {
            fs,
            path,
            pin,
            content,
            buffer: Vec::new(),
            from: 0,
            to: 0,
            mark,
            fills_left: 0,
        };
        window.rewind(mark)?;
        Ok(window)
    }

    /// Where the window starts.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// What is in memory from there on.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Moves the start forward over bytes in memory.
    pub(crate) fn consume(&mut self, count: usize) {
        if let Some(lines) = &mut self.mark.lines {
            let consumed = &self.buffer[self.from..self.from + count];
            *lines += memchr_iter(b'\n', consumed).count() as u64;
        }
        self.from += count;
        self.mark.offset += count as u64;
    }

    /// Goes elsewhere.
    pub(crate) fn rewind(&mut self, mark: Mark) -> Result<(), OperatorError> {
        self.content
            .seek(mark.offset)
            .map_err(|error| fault::of_io("go to a position of", &self.path, error))?;
        (self.from, self.to, self.mark) = (0, 0, mark);
        Ok(())
    }

    /// Tells how many lines are before the window, which was not known.
    pub(crate) fn set_lines(&mut self, lines: u64) {
        self.mark.lines = Some(lines);
    }

    /// Allows a poll to read about this many bytes.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.fills_left = bytes.div_ceil(CHUNK_BYTES) + 1;
    }

    /// Reads more.
    pub(crate) fn fill(&mut self) -> Result<Fill, OperatorError> {
        let left = self.left();
        if left == 0 {
            return Ok(Fill::End);
        }
        if self.fills_left == 0 {
            return Ok(Fill::Paused);
        }
        self.fills_left -= 1;
        self.make_room();
        let room = (self.buffer.len() - self.to).min(left).min(CHUNK_BYTES);
        let read = self.content.read(&mut self.buffer[self.to..self.to + room]);
        // After the read: what was read before this look is from the file as it was. What unpacks
        // a file that changed finds it damaged, so that this comes first.
        self.pin.verify(self.fs.as_ref(), &self.path)?;
        match read.map_err(|error| self.content.error(&self.path, error))? {
            Found::Bytes(read) => self.to += read,
            Found::Nothing => {}
            Found::End => {
                return match &self.content {
                    Content::Plain(_) => Err(fault::changed(&self.path, "it ends early")),
                    Content::Packed(_) => Ok(Fill::End),
                };
            }
        }
        Ok(Fill::More)
    }

    /// Bytes of the file that were not read; of a packed one nobody knows before its end.
    fn left(&self) -> usize {
        match &self.content {
            Content::Plain(_) => {
                let read = self.mark.offset + (self.to - self.from) as u64;
                let left = self.pin.bytes.saturating_sub(read);
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            Content::Packed(_) => usize::MAX,
        }
    }

    fn make_room(&mut self) {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let length = (self.to + CHUNK_BYTES).next_multiple_of(CHUNK_BYTES);
        if self.buffer.len() - self.to < CHUNK_BYTES / 2 {
            self.buffer.resize(length.max(self.buffer.len() * 2), 0);
        }
    }
}

/// Line breaks of a file between two offsets.
pub(crate) fn count_lines(
    fs: &dyn Fs,
    path: &std::path::Path,
    pin: Pin,
    from: u64,
    to: u64,
) -> Result<u64, OperatorError> {
    let mut file = pin.reopen(fs, path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut lines = 0;
    let mut left = to.saturating_sub(from);
    let failed = |error| fault::of_io("count the lines of", path, error);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    while left > 0 {
        let room = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..room]).map_err(failed)?;
        if read == 0 {
            return Err(fault::changed(path, "it ends early"));
        }
        lines += memchr_iter(b'\n', &buffer[..read]).count() as u64;
        left -= read as u64;
    }
    Ok(lines)
}
