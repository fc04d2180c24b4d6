//! What the output must be: a pure function of (key, n), known without running anything.

/// The workload's promise, as told on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Keys are the integers from 0 up to, not including, this.
    pub keys: u64,
    /// How many rows there are in the end.
    pub rows: Rows,
    /// What the sums add up.
    pub value: ValueRule,
}

/// How many rows there are once the job is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// Each key has n = 1 up to this.
    PerKey(u64),
    /// All keys together; how they share it is not known.
    Total(u64),
    /// The job has no end.
    Open,
}

/// The value that row n of a key adds to the key's running sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueRule {
    /// n itself: the sum at n is n(n+1)/2.
    N,
    /// One: the sum at n is n.
    One,
}

impl ValueRule {
    /// The running sum that stands beside n.
    pub fn sum(self, n: u64) -> i128 {
        let n = u128::from(n);
        let sum = match self {
            Self::N => n * (n + 1) / 2,
            Self::One => n,
        };
        i128::try_from(sum).expect("n is below 2^64, so the sum is below 2^127")
    }
}

impl Expectation {
    /// The highest n that a key may have.
    pub fn n_max(&self) -> u64 {
        match self.rows {
            Rows::PerKey(n) | Rows::Total(n) => n,
            Rows::Open => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_a_loop() {
        let mut sum = 0;
        for n in 1..=1000 {
            sum += i128::from(n);
            assert_eq!(ValueRule::N.sum(n), sum);
            assert_eq!(ValueRule::One.sum(n), i128::from(n));
        }
    }

    #[test]
    fn the_largest_n_has_a_sum() {
        let n = i128::from(u64::MAX);
        assert_eq!(ValueRule::N.sum(u64::MAX), (n + 1) / 2 * n);
    }
}
