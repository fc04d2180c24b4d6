//! How long a row is on its way from source to sink, through a keyed shuffle.
//!
//! A generator's row is due at a known time after its first one. The lines that the sink prints are
//! stamped where they are read; what a row took longer than the quickest row of its source is its
//! time on the way. The quickest one's own time, well below a millisecond, cannot be seen from outside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use super::ours::Cluster;
use super::proc;
use crate::report::Failure;

/// Rows a second, as in the job.
const RATE: f64 = 50_000.0;
/// Rows that the job makes.
const ROWS: u64 = 1_000_000;
/// Rows of the first two seconds find cold code and an empty state.
const WARM_UP: u64 = 100_000;
/// What it must reach.
const P99_MS: f64 = 20.0;

/// Milliseconds on the way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    pub rows: usize,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    /// Runs the job on a cluster of its own.
    pub fn measure(root: &Path, binaries: &Path, dir: &Path) -> Result<Self, Failure> {
        let cluster = Cluster::start(binaries, dir)?;
        let begun = proc::now();
        let job = root.join("tests/bench/jobs/latency.yaml");
        let seen = cluster.run_printing(&job, |printed| read(BufReader::new(printed), begun))?;
        drop(cluster);
        let latency = Self::of(&seen)?;
        fs::remove_dir_all(dir).map_err(Failure::io(format!("remove {}", dir.display())))?;
        Ok(latency)
    }

    /// From each row's number and the second at which it was seen.
    fn of(seen: &[(u64, f64)]) -> Result<Self, Failure> {
        let expected = ROWS.div_ceil(7);
        if seen.len() as u64 != expected {
            let text = format!("{} rows were printed, not {expected}", seen.len());
            return Err(Failure::Unexpected(text));
        }
        let after_start = |(row, at): &(u64, f64)| (at - *row as f64 / RATE) * 1e3;
        // Two sources, which take turns and start one after the other.
        let quickest = [0, 1].map(|source| {
            let its = seen.iter().filter(|(row, _)| row % 2 == source);
            its.map(after_start).fold(f64::INFINITY, f64::min)
        });
        let counted = seen.iter().filter(|(row, _)| *row >= WARM_UP);
        let mut took: Vec<_> = counted
            .map(|one| after_start(one) - quickest[(one.0 % 2) as usize])
            .collect();
        took.sort_by(f64::total_cmp);
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
        Ok(Self {
            rows: took.len(),
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        })
    }

    /// What it is, what it had to be.
    pub fn remark(&self) -> String {
        let verdict = match self.p99 < P99_MS {
            true => "reached",
            false => "**missed**",
        };
        format!(
            "keyed shuffle at 50,000 rows a second with a checkpoint every 5 s, from the time a row is \
             due to its printed line, above the quickest row, {} rows: p50 {:.1} ms, p99 {:.1} ms, \
             max {:.1} ms; p99 of {P99_MS:.0}: {verdict}",
            self.rows, self.p50, self.p99, self.max
        )
    }
}

/// Row numbers with the second at which each was read; other lines are none.
fn read(printed: impl BufRead, begun: Instant) -> Vec<(u64, f64)> {
    let lines = printed.lines().map_while(Result::ok);
    lines
        .filter_map(|line| Some((row_of(&line)?, begun.elapsed().as_secs_f64())))
        .collect()
}

/// `2> key, row, count`
fn row_of(line: &str) -> Option<u64> {
    let (_, values) = line.split_once("> ")?;
    values.split(", ").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_number_is_the_second_value_of_its_line() {
        assert_eq!(row_of("2> 77, 1234, 5"), Some(1234));
        assert_eq!(row_of("starting"), None);
        assert_eq!(row_of("x> y"), None);
    }

    #[test]
    fn time_on_the_way_is_counted_above_the_quickest_row_of_its_source() {
        // The second source starts 40 ms later; one row in fifty takes 30 ms, the others 5.
        let rows = (0..ROWS).filter(|row| row % 7 == 0);
        let seen: Vec<_> = rows
            .map(|row| {
                let start = 3.0 + (row % 2) as f64 * 0.04;
                let took = match row {
                    0 | 7 => 0.0,
                    _ if row % 50 == 0 => 0.030,
                    _ => 0.005,
                };
                (row, start + row as f64 / RATE + took)
            })
            .collect();
        let latency = Latency::of(&seen).unwrap();
        assert!((latency.p50 - 5.0).abs() < 0.01, "{latency:?}");
        assert!((latency.p99 - 30.0).abs() < 0.01, "{latency:?}");
        assert!(latency.remark().ends_with("**missed**"));
        let error = Latency::of(&seen[1..]).unwrap_err();
        assert!(
            error.to_string().contains("142857 rows were printed"),
            "{error}"
        );
    }

    #[test]
    fn the_job_is_as_it_is_counted() {
        let job = crate::workspace_root().join("tests/bench/jobs/latency.yaml");
        let text = fs::read_to_string(job).unwrap();
        for part in ["rate: 50000\n", "rows: 1000000\n", "n % 7 = 0"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
