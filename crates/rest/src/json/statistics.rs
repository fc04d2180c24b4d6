//! Minimum, maximum, average and percentiles of a few numbers.

use serde::{Serialize, Serializer};

/// As Flink writes it: without any number the first three are 0 and the percentiles "NaN".
#[derive(Serialize, PartialEq, Debug)]
pub(super) struct Statistics {
    min: i64,
    max: i64,
    avg: i64,
    p50: Percentile,
    p90: Percentile,
    p95: Percentile,
    p99: Percentile,
    p999: Percentile,
}

/// Not a number where there is none; JSON has no such number, hence Flink's text.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Percentile(Option<f64>);

impl Serialize for Percentile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(value) => serializer.serialize_f64(value),
            None => serializer.serialize_str("NaN"),
        }
    }
}

impl Statistics {
    pub(super) fn of(values: impl Iterator<Item = i64>) -> Self {
        let mut sorted: Vec<i64> = values.collect();
        sorted.sort_unstable();
        let sum: i128 = sorted.iter().copied().map(i128::from).sum();
        let n = i128::try_from(sorted.len()).unwrap_or(i128::MAX).max(1);
        Self {
            min: sorted.first().copied().unwrap_or(0),
            max: sorted.last().copied().unwrap_or(0),
            avg: i64::try_from(sum / n).unwrap_or(i64::MAX),
            p50: percentile(&sorted, 0.5),
            p90: percentile(&sorted, 0.9),
            p95: percentile(&sorted, 0.95),
            p99: percentile(&sorted, 0.99),
            p999: percentile(&sorted, 0.999),
        }
    }
}

/// At position `p * (n + 1)`, counted from 1, linear between neighbours: the estimate that Flink's
/// library makes.
fn percentile(sorted: &[i64], p: f64) -> Percentile {
    let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
        return Percentile(None);
    };
    let position = p * (sorted.len() as f64 + 1.0);
    let below = position.floor();
    // Positions are small and not negative: the cast is exact.
    let value = match below as usize {
        0 => first as f64,
        i if i >= sorted.len() => last as f64,
        i => {
            let (low, high) = (sorted[i - 1] as f64, sorted[i] as f64);
            low + (position - below) * (high - low)
        }
    };
    Percentile(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(values: &[i64]) -> [Option<f64>; 3] {
        let statistics = Statistics::of(values.iter().copied());
        [statistics.p50.0, statistics.p90.0, statistics.p999.0]
    }

    #[test]
    fn percentiles_lie_between_neighbours_and_never_beyond_the_ends() {
        assert_eq!(percentiles(&[7]), [Some(7.0); 3]);
        assert_eq!(percentiles(&[30, 10]), [Some(20.0), Some(30.0), Some(30.0)]);
        let one_to_nineteen: Vec<i64> = (1..=19).collect();
        assert_eq!(
            percentiles(&one_to_nineteen),
            [Some(10.0), Some(18.0), Some(19.0)]
        );
    }

    #[test]
    fn of_nothing_there_is_no_percentile() {
        let json = serde_json::to_value(Statistics::of([].into_iter())).unwrap();
        assert_eq!(json["p50"], "NaN");
        assert_eq!(json["avg"], 0);
    }

    #[test]
    fn sums_beyond_64_bits_still_have_an_average() {
        let statistics = Statistics::of([i64::MAX, i64::MAX].into_iter());
        assert_eq!(statistics.avg, i64::MAX);
    }
}
