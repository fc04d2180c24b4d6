//! The last lines of the log, kept in memory so that a page or a client can show them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The most recent lines up to a number of bytes. Cloning shares the ring.
#[derive(Clone)]
pub struct LogRing {
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    bytes_max: usize,
    /// The number of the first kept line; lines are numbered from 0 as they are logged.
    first: u64,
}

/// A part of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Whole lines, without line ends.
    pub lines: Vec<Arc<str>>,
    /// Where the next page begins.
    pub next: u64,
    /// Lines that were asked for and are no longer kept.
    pub n_lost: u64,
}

impl LogRing {
    /// Keeps up to `bytes_max` bytes of lines.
    pub fn new(bytes_max: usize) -> Self {
        let kept = Kept {
            lines: VecDeque::new(),
            bytes: 0,
            bytes_max,
            first: 0,
        };
        Self {
            kept: Arc::new(Mutex::new(kept)),
        }
    }

    /// Adds a line; the oldest go for it. A line longer than the ring is counted and not kept.
    pub fn push(&self, line: &str) {
        let mut kept = self.kept.lock();
        kept.bytes += line.len();
        kept.lines.push_back(line.into());
        while kept.bytes > kept.bytes_max {
            let Some(oldest) = kept.lines.pop_front() else {
                return;
            };
            kept.bytes -= oldest.len();
            kept.first += 1;
        }
    }

    /// Up to `n_max` lines from number `from` on.
    pub fn page(&self, from: u64, n_max: usize) -> Page {
        let kept = self.kept.lock();
        let start = from.max(kept.first);
        let skipped = usize::try_from(start - kept.first).unwrap_or(usize::MAX);
        let lines: Vec<_> = kept
            .lines
            .iter()
            .skip(skipped)
            .take(n_max)
            .cloned()
            .collect();
        let end = kept.first + kept.lines.len() as u64;
        let next = if lines.is_empty() {
            end
        } else {
            start + lines.len() as u64
        };
        Page {
            lines,
            next,
            n_lost: start - from,
        }
    }

    /// The last `n_max` lines.
    pub fn tail(&self, n_max: usize) -> Page {
        let from = {
            let kept = self.kept.lock();
            let end = kept.first + kept.lines.len() as u64;
            kept.first.max(end.saturating_sub(n_max as u64))
        };
        self.page(from, n_max)
    }
}

impl fmt::Debug for LogRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept.lock();
        write!(
            f,
            "LogRing({} lines, {} bytes)",
            kept.lines.len(),
            kept.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: &Page) -> Vec<&str> {
        page.lines.iter().map(AsRef::as_ref).collect()
    }

    #[test]
    fn a_reader_follows_page_by_page() {
        let ring = LogRing::new(100);
        for line in ["a", "b", "c"] {
            ring.push(line);
        }
        let first = ring.page(0, 2);
        assert_eq!(
            (lines(&first), first.next, first.n_lost),
            (vec!["a", "b"], 2, 0)
        );
        let second = ring.page(first.next, 2);
        assert_eq!((lines(&second), second.next), (vec!["c"], 3));
        assert_eq!(
            ring.page(3, 2),
            Page {
                lines: vec![],
                next: 3,
                n_lost: 0
            }
        );
        assert_eq!(lines(&ring.tail(2)), ["b", "c"]);
    }

    #[test]
    fn the_oldest_lines_go_and_a_slow_reader_is_told() {
        let ring = LogRing::new(5);
        for line in ["aa", "bb", "cc"] {
            ring.push(line);
        }
        let page = ring.page(0, 10);
        assert_eq!(
            (lines(&page), page.n_lost, page.next),
            (vec!["bb", "cc"], 1, 3)
        );
    }

    #[test]
    fn a_line_longer_than_the_ring_empties_it_and_is_counted() {
        let ring = LogRing::new(3);
        ring.push("a");
        ring.push("long line");
        assert_eq!(
            ring.page(0, 10),
            Page {
                lines: vec![],
                next: 2,
                n_lost: 2
            }
        );
    }

    #[test]
    fn a_reader_ahead_of_the_log_is_brought_back() {
        let ring = LogRing::new(10);
        ring.push("a");
        assert_eq!(
            ring.page(99, 10),
            Page {
                lines: vec![],
                next: 1,
                n_lost: 0
            }
        );
    }
}
