//! CPU time and memory of processes, from `/proc`.

use std::time::{Duration, Instant};

use super::outcome::Outcome;
use crate::cpu::TICKS_PER_SECOND;

/// One process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    /// User and system time, its own and that of children that it has waited for.
    pub cpu: Duration,
    pub rss_kib: u64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is measured runs by the real clock"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// What some processes use, from a moment on.
pub struct Meter {
    cpu: Duration,
    busy: Duration,
    begun: Instant,
    peak_kib: u64,
}

impl Meter {
    pub fn start(ids: &[u32]) -> Self {
        Self {
            cpu: usage_of(ids).cpu,
            busy: machine_busy(),
            begun: now(),
            peak_kib: 0,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Looks at their memory; its peak is that of all looks.
    pub fn look(&mut self, ids: &[u32]) {
        self.peak_kib = self.peak_kib.max(usage_of(ids).rss_kib);
    }

    /// What they used; rows and checkpoints are for the caller to fill in.
    pub fn stop(&self, ids: &[u32]) -> Outcome {
        let elapsed = self.elapsed().as_secs_f64();
        let cpu = usage_of(ids).cpu.saturating_sub(self.cpu);
        let others = (machine_busy() - self.busy).saturating_sub(cpu);
        Outcome {
            seconds: elapsed,
            cpu_seconds: cpu.as_secs_f64(),
            peak_rss_mib: self.peak_kib / 1024,
            others_cores: others.as_secs_f64() / elapsed,
            ..Outcome::default()
        }
    }
}

/// What these processes and the children they have now have used.
pub fn usage_of(ids: &[u32]) -> Usage {
    let mut total = Usage::default();
    for id in ids
        .iter()
        .copied()
        .chain(ids.iter().flat_map(|id| children(*id)))
    {
        let stat = read(id, "stat");
        total.cpu += ticks(&stat, 11..15).unwrap_or_default();
        total.rss_kib += rss_kib(&read(id, "status")).unwrap_or(0);
    }
    total
}

/// CPU time of the whole machine that was not idle.
pub fn machine_busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = first
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let busy = fields
        .iter()
        .take(3)
        .chain(fields.iter().skip(5).take(3))
        .sum();
    of_ticks(busy)
}

/// The processes whose parent this is.
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| parent_of(&read(*id, "stat")) == Some(parent))
        .collect()
}

fn read(id: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default()
}

/// The fields behind the program's name, which stands in parentheses and may hold anything.
fn fields(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

fn parent_of(stat: &str) -> Option<u32> {
    fields(stat)?.get(1)?.parse().ok()
}

fn ticks(stat: &str, which: std::ops::Range<usize>) -> Option<Duration> {
    let numbers = fields(stat)?;
    let ticks = numbers
        .get(which)?
        .iter()
        .filter_map(|field| field.parse::<u64>().ok());
    Some(of_ticks(ticks.sum()))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

fn rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_process_and_of_children_it_waited_for_add_up() {
        let stat = "7 (a) b) S 3 2 3 4 5 6 7 8 9 10 100 200 300 45 20 0 1";
        assert_eq!(ticks(stat, 11..15), Some(Duration::from_millis(6_450)));
        assert_eq!(parent_of(stat), Some(3));
        assert_eq!(rss_kib("Name:\tx\nVmRSS:\t  512 kB\n"), Some(512));
    }

    #[test]
    fn this_process_uses_memory_and_a_process_that_is_gone_nothing() {
        assert!(usage_of(&[std::process::id()]).rss_kib > 0);
        assert_eq!(usage_of(&[u32::MAX]), Usage::default());
        assert!(machine_busy() > Duration::ZERO);
    }
}
