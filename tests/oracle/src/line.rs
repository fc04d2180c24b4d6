//! Lines of a file, bounded, counted and hashed on the way.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Rows of the workload take some dozens of bytes. A longer line is reported and skipped, so that
/// a file without line ends cannot fill the memory.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Content of a file as far as it was read: FNV-1a over all bytes. It tells a changed file from an
/// unchanged one; nobody tries to deceive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// How many bytes there were.
    pub bytes: u64,
    hash: u64,
}

impl Fingerprint {
    const EMPTY: Self = Self {
        bytes: 0,
        hash: 0xcbf2_9ce4_8422_2325,
    };

    fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Of a whole file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(LINE_BYTES_MAX, std::fs::File::open(path)?);
        let mut fingerprint = Self::EMPTY;
        loop {
            let bytes = input.fill_buf()?;
            let n_bytes = bytes.len();
            if n_bytes == 0 {
                return Ok(fingerprint);
            }
            fingerprint.extend(bytes);
            input.consume(n_bytes);
        }
    }
}

/// One line.
#[derive(PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// A line with its end, which is cut off.
    Whole(&'a [u8]),
    /// The file ends without a line end.
    Torn(&'a [u8]),
    /// Longer than [`LINE_BYTES_MAX`]; its beginning.
    TooLong(&'a [u8]),
}

/// Reads lines.
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    fingerprint: Fingerprint,
}

impl<R: BufRead> Lines<R> {
    /// From the start of a file.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            fingerprint: Fingerprint::EMPTY,
        }
    }

    /// The line after the last one, with its number from 1.
    pub fn read_next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
        if bounded.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.fingerprint.extend(&self.line);
        let line = match self.line.split_last() {
            Some((b'\n', text)) => Line::Whole(text),
            _ if self.line.len() <= LINE_BYTES_MAX => Line::Torn(&self.line),
            _ => {
                skip_line(&mut self.input, &mut self.fingerprint)?;
                Line::TooLong(&self.line)
            }
        };
        Ok(Some((self.number, line)))
    }

    /// Of what was read so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

fn skip_line(input: &mut impl BufRead, fingerprint: &mut Fingerprint) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let n_bytes = end.map_or(bytes.len(), |position| position + 1);
        fingerprint.extend(&bytes[..n_bytes]);
        input.consume(n_bytes);
        if end.is_some() || n_bytes == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(BufReader::with_capacity(16, text));
        let mut all = Vec::new();
        while let Some((number, line)) = lines.read_next().unwrap() {
            let (kind, text) = match line {
                Line::Whole(text) => ("", text),
                Line::Torn(text) => ("torn ", text),
                Line::TooLong(text) => ("long ", &text[..4]),
            };
            all.push((number, format!("{kind}{}", String::from_utf8_lossy(text))));
        }
        assert_eq!(lines.fingerprint().bytes, text.len() as u64);
        all
    }

    #[test]
    fn a_last_line_without_its_end_is_torn() {
        let expected = [(1, "a".into()), (2, String::new()), (3, "torn b".into())];
        assert_eq!(lines(b"a\n\nb"), expected);
        assert_eq!(lines(b""), []);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut text = vec![b'x'; 3 * LINE_BYTES_MAX];
        text.extend(b"\nnext\n");
        assert_eq!(lines(&text), [(1, "long xxxx".into()), (2, "next".into())]);
        let exactly = [vec![b'y'; LINE_BYTES_MAX - 1], b"\n".to_vec()].concat();
        assert!(lines(&exactly)[0].1.starts_with("yyyy"));
    }
}
