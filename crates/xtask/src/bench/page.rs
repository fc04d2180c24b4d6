//! `docs/benchmarks.md`: what was measured, appended run by run.

use std::fmt::Write as _;
use std::path::Path;

use super::case::Case;
use super::outcome::{Outcome, median};
use crate::report::Failure;

/// All runs of one case.
#[derive(Debug)]
pub struct Measured {
    pub case: &'static Case,
    pub ours: Vec<Outcome>,
    pub flink: Vec<Outcome>,
    /// Flink with mini-batches; empty where there is nothing to batch.
    pub flink_mini_batch: Vec<Outcome>,
    pub datafusion: Vec<Outcome>,
    /// What the output was compared with.
    pub checked: String,
}

/// Where and when.
#[derive(Debug)]
pub struct Circumstances {
    pub date: String,
    pub commit: String,
    pub hardware: String,
}

/// A section with the table of one measurement, and what was measured besides.
pub fn section(at: &Circumstances, measured: &[Measured], others: &[String]) -> String {
    let mut text = format!("\n## {}, {}\n\n{}.\n", at.date, at.commit, at.hardware);
    text.push_str(
        "\n| work | side | rows | rows per CPU-second, each run | ratio to Flink | seconds | CPU-seconds | peak RSS, MiB \
         | checkpoints | mean, max ms | state, MiB | cores of others |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for each in measured {
        let flink = median(&each.flink).map(Outcome::rows_per_cpu_second);
        let sides = [
            ("Millstream", &each.ours),
            ("Flink 2.3", &each.flink),
            ("Flink 2.3, mini-batch", &each.flink_mini_batch),
            ("DataFusion, batch", &each.datafusion),
        ];
        for (name, runs) in sides {
            if let Some(middle) = median(runs) {
                row(&mut text, each.case.title, name, runs, middle, flink);
            }
        }
    }
    text.push('\n');
    for each in measured {
        for line in remarks(each) {
            let _ = writeln!(text, "- {}: {line}.", each.case.name);
        }
    }
    for line in others {
        let _ = writeln!(text, "- {line}.");
    }
    text
}

fn row(
    text: &mut String,
    title: &str,
    side: &str,
    runs: &[Outcome],
    middle: &Outcome,
    flink: Option<f64>,
) {
    let rates: Vec<_> = runs
        .iter()
        .map(|run| thousands(run.rows_per_cpu_second()))
        .collect();
    let ratio = flink.map_or_else(String::new, |flink| {
        format!("{:.1}", middle.rows_per_cpu_second() / flink)
    });
    let checkpoints = middle.checkpoints.map_or_else(
        || "| | ".to_owned(),
        |c| {
            format!(
                "{} | {:.0}, {:.0} | {}",
                c.completed,
                c.mean_ms,
                c.max_ms,
                c.state_bytes >> 20
            )
        },
    );
    let _ = writeln!(
        text,
        "| {title} | {side} | {} M | {} | {ratio} | {:.1} | {:.1} | {} | {checkpoints} | {:.2} |",
        middle.rows / 1_000_000,
        rates.join(", "),
        middle.seconds,
        middle.cpu_seconds,
        middle.peak_rss_mib,
        middle.others_cores,
    );
}

/// What keeps a row from counting, what it had to reach, how it was checked.
fn remarks(each: &Measured) -> Vec<String> {
    let mut lines = vec![format!("output checked: {}", each.checked)];
    let sides = [
        ("Millstream", &each.ours),
        ("Flink", &each.flink),
        ("Flink, mini-batch", &each.flink_mini_batch),
    ];
    let seconds = |runs: &Vec<Outcome>| median(runs).map_or(0.0, |run| run.seconds);
    let slowest = sides
        .map(|(_, runs)| seconds(runs))
        .into_iter()
        .fold(0.0, f64::max);
    for (name, runs) in sides {
        let Some(middle) = median(runs) else { continue };
        if let Some(ms) = middle
            .checkpoints
            .and_then(|checkpoints| checkpoints.synchronous_ms)
        {
            lines.push(format!(
                "{name}: synchronous part of the middle checkpoint {ms:.0} ms"
            ));
        }
        let is_slowest = !each.flink.is_empty() && middle.seconds >= slowest;
        for objection in middle.objections(each.case.is_stateful, is_slowest) {
            lines.push(format!("{name} does not count, {objection}"));
        }
    }
    if let (Some(ours), Some(flink)) = (median(&each.ours), median(&each.flink)) {
        let ratio = ours.rows_per_cpu_second() / flink.rows_per_cpu_second();
        let must = each.case.must_reach;
        let verdict = if ratio >= must {
            "reached"
        } else {
            "**missed**"
        };
        lines.push(format!(
            "{ratio:.1} times Flink's rows per CPU-second, of {must:.0}: {verdict}"
        ));
    }
    lines
}

fn thousands(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate => format!("{:.0} k", rate / 1e3),
    }
}

/// Puts a section behind those that are there.
pub fn append(root: &Path, section: &str) -> Result<(), Failure> {
    let path = root.join("docs/benchmarks.md");
    let io = || Failure::io(format!("write {}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(io())?;
    std::fs::write(&path, text + section).map_err(io())
}

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::super::outcome::Checkpoints;
    use super::*;

    fn outcome(rows: u64, seconds: f64) -> Outcome {
        Outcome {
            rows,
            seconds,
            cpu_seconds: seconds,
            peak_rss_mib: 300,
            checkpoints: Some(Checkpoints {
                completed: 6,
                mean_ms: 12.0,
                max_ms: 40.0,
                state_bytes: 64 << 20,
                synchronous_ms: Some(7.0),
            }),
            others_cores: 0.1,
        }
    }

    fn measured(ours: Outcome) -> Measured {
        Measured {
            case: &CASES[3],
            ours: vec![ours],
            flink: vec![outcome(10_000_000, 100.0)],
            flink_mini_batch: vec![],
            datafusion: vec![],
            checked: "7 rows".to_owned(),
        }
    }

    fn others() -> [String; 1] {
        ["cold start: 321 ms".to_owned()]
    }

    fn at() -> Circumstances {
        let [date, commit, hardware] = ["2026-01-02", "abc", "2 cores"].map(str::to_owned);
        Circumstances {
            date,
            commit,
            hardware,
        }
    }

    #[test]
    fn a_row_says_rate_ratio_and_checkpoints() {
        let text = section(&at(), &[measured(outcome(200_000_000, 80.0))], &others());
        let row =
            "| Millstream | 200 M | 2.50 M | 25.0 | 80.0 | 80.0 | 300 | 6 | 12, 40 | 64 | 0.10 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("25.0 times Flink's rows per CPU-second, of 15: reached"),
            "{text}"
        );
        assert!(text.contains("output checked: 7 rows"), "{text}");
        assert!(text.contains("- cold start: 321 ms."), "{text}");
        assert!(
            text.contains("Millstream: synchronous part of the middle checkpoint 7 ms"),
            "{text}"
        );
    }

    #[test]
    fn what_is_missed_or_does_not_count_is_said() {
        let text = section(&at(), &[measured(outcome(10_000_000, 200.0))], &others());
        assert!(
            text.contains("0.5 times Flink's rows per CPU-second, of 15: **missed**"),
            "{text}"
        );
        let mut few = outcome(200_000_000, 20.0);
        few.checkpoints = Some(Checkpoints {
            completed: 2,
            ..Checkpoints::default()
        });
        let text = section(&at(), &[measured(few)], &others());
        assert!(
            text.contains("Millstream does not count, 2 checkpoints, of at least 5"),
            "{text}"
        );
        assert!(
            text.contains("Millstream does not count, its state was empty"),
            "{text}"
        );
    }
}
