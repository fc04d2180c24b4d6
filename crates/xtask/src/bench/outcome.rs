//! One run of one side, and whether it counts.

use serde_json::Value;

/// Checkpoints that a run must have completed to count.
pub const CHECKPOINTS_MIN: u64 = 5;
/// What the slower side must take.
const SECONDS_MIN: f64 = 60.0;

/// What was measured.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Outcome {
    pub rows: u64,
    pub seconds: f64,
    /// Of all processes of this side.
    pub cpu_seconds: f64,
    /// Of all processes of this side, at the same moment.
    pub peak_rss_mib: u64,
    /// None where there are none: a batch run.
    pub checkpoints: Option<Checkpoints>,
    /// Cores that others used meanwhile.
    pub others_cores: f64,
}

/// The completed checkpoints of a run.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Checkpoints {
    pub completed: u64,
    pub mean_ms: f64,
    pub max_ms: f64,
    /// Of the largest.
    pub state_bytes: u64,
    /// The middle one's time without processing, of its slowest subtask; where it was asked for.
    pub synchronous_ms: Option<f64>,
}

impl Checkpoints {
    /// From `/jobs/:id/checkpoints`, which has the same shape on both sides.
    pub fn of(json: &Value) -> Self {
        let summary = &json["summary"];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        Self {
            completed: json["counts"]["completed"].as_u64().unwrap_or(0),
            mean_ms: number(&summary["end_to_end_duration"]["avg"]),
            max_ms: number(&summary["end_to_end_duration"]["max"]),
            state_bytes: summary["state_size"]["max"].as_u64().unwrap_or(0),
            synchronous_ms: None,
        }
    }
}

impl Outcome {
    pub fn rows_per_cpu_second(&self) -> f64 {
        match self.cpu_seconds {
            0.0 => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "rows are far below 2^52")]
            seconds => self.rows as f64 / seconds,
        }
    }

    /// Why this run proves nothing, if it does not.
    pub fn objections(&self, is_stateful: bool, is_slowest: bool) -> Vec<String> {
        let mut objections = Vec::new();
        if let Some(checkpoints) = self.checkpoints {
            let completed = checkpoints.completed;
            if completed < CHECKPOINTS_MIN {
                objections.push(format!(
                    "{completed} checkpoints, of at least {CHECKPOINTS_MIN}"
                ));
            }
            if is_stateful && checkpoints.state_bytes == 0 {
                objections.push("its state was empty".to_owned());
            }
        }
        if is_slowest && self.seconds < SECONDS_MIN {
            objections.push(format!(
                "{:.0} s, of at least {SECONDS_MIN:.0} s for the slower side",
                self.seconds
            ));
        }
        objections
    }
}

/// The run in the middle by rows per CPU-second; the lower of two.
pub fn median(runs: &[Outcome]) -> Option<&Outcome> {
    let mut sorted: Vec<_> = runs.iter().collect();
    sorted.sort_by(|a, b| a.rows_per_cpu_second().total_cmp(&b.rows_per_cpu_second()));
    sorted.get(runs.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: u64, seconds: f64, completed: u64) -> Outcome {
        Outcome {
            rows,
            seconds,
            cpu_seconds: seconds,
            checkpoints: Some(Checkpoints {
                completed,
                state_bytes: 1,
                ..Checkpoints::default()
            }),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_run_that_proves_nothing_is_objected_to() {
        assert_eq!(run(1, 61.0, 5).objections(true, true), Vec::<String>::new());
        assert_eq!(
            run(1, 61.0, 4).objections(true, true),
            ["4 checkpoints, of at least 5"]
        );
        assert_eq!(
            run(1, 12.0, 5).objections(true, true),
            ["12 s, of at least 60 s for the slower side"]
        );
        assert_eq!(
            run(1, 12.0, 5).objections(true, false),
            Vec::<String>::new()
        );
        let mut empty = run(1, 61.0, 5);
        empty.checkpoints = Some(Checkpoints {
            completed: 5,
            ..Checkpoints::default()
        });
        assert_eq!(empty.objections(true, true), ["its state was empty"]);
        assert_eq!(empty.objections(false, true), Vec::<String>::new());
    }

    #[test]
    fn the_median_is_by_rate() {
        let runs = [run(30, 1.0, 5), run(10, 1.0, 5), run(20, 1.0, 5)];
        assert_eq!(median(&runs).unwrap().rows, 20);
        assert_eq!(median(&runs[..2]).unwrap().rows, 10);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn checkpoints_are_read_from_either_sides_answer() {
        let json = serde_json::json!({
            "counts": {"completed": 7},
            "summary": {"end_to_end_duration": {"avg": 12, "max": 40}, "state_size": {"max": 900}},
        });
        let checkpoints = Checkpoints::of(&json);
        assert_eq!((checkpoints.completed, checkpoints.state_bytes), (7, 900));
        assert_eq!((checkpoints.mean_ms, checkpoints.max_ms), (12.0, 40.0));
    }
}
