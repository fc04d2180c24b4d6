//! How many rows make a slice of about 10 ms.

use std::time::Duration;

const TARGET: Duration = Duration::from_millis(10);
const ROWS_MAX: usize = 65_536;

/// Learns from each slice how many rows the next may have.
pub(super) struct Pace {
    rows: usize,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { rows: 1_024 }
    }

    /// Rows of the next slice, at least one.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A slice of `rows` rows took this long.
    pub(super) fn took(&mut self, rows: usize, time: Duration) {
        if time > TARGET {
            let fitting = rows as f64 * TARGET.as_secs_f64() / time.as_secs_f64();
            self.rows = (fitting as usize).clamp(1, ROWS_MAX);
        } else if rows >= self.rows && time * 2 < TARGET {
            self.rows = (self.rows * 2).min(ROWS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows per slice after a while, if each row takes this long.
    fn settled(per_row: Duration) -> usize {
        let mut pace = Pace::new();
        for _ in 0..50 {
            let rows = pace.rows();
            pace.took(rows, per_row * rows as u32);
        }
        pace.rows()
    }

    #[test]
    fn slow_rows_come_one_by_one_and_fast_ones_in_slices_of_about_ten_milliseconds() {
        assert_eq!(settled(Duration::from_secs(1)), 1);
        assert_eq!(settled(Duration::from_nanos(1)), ROWS_MAX);
        let rows = settled(Duration::from_micros(10));
        assert!((500..=1_000).contains(&rows), "{rows}");
    }
}
