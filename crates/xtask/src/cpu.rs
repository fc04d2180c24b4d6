//! CPU time of the programs started from here.

use std::time::Duration;

/// The kernel's unit of the times in `/proc`: fixed to 100 a second on Linux.
pub const TICKS_PER_SECOND: u64 = 100;

/// CPU time, user and system, of all children that have ended, and theirs.
pub fn of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_millis(children_ticks(&stat).unwrap_or(0) * 1_000 / TICKS_PER_SECOND)
}

/// `cutime + cstime`, the 16th and 17th field. The second one is the program's name in parentheses
/// and may hold anything, so counting starts behind it.
fn children_ticks(stat: &str) -> Option<u64> {
    let behind_name = stat.rsplit_once(')')?.1;
    let mut fields = behind_name.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_of_children_whatever_the_program_is_called() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 100 200 300 45 20 0 1";
        assert_eq!(children_ticks(stat), Some(345));
        assert_eq!(children_ticks("7 (x) S 1"), None);
    }
}
