//! What is measured.

/// One benchmark: the same rows through the same steps on every side.
#[derive(Debug)]
pub struct Case {
    /// Also the name of the job file in `tests/bench/jobs`.
    pub name: &'static str,
    /// The work in a few words, for the page.
    pub title: &'static str,
    pub input: Input,
    /// Name of the query in `tests/bench/flink/sql`.
    pub flink_query: &'static str,
    /// Whether it has keyed state, which then must not be empty.
    pub is_stateful: bool,
    /// The ratio to Flink, in rows per CPU-second, that it must reach.
    pub must_reach: f64,
}

/// Where the rows come from. Each side reads so many that it takes at least a minute on two cores of
/// the slower one, and five checkpoints of the faster one; rates can be compared all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Nexmark bids as JSON lines; so many copies of the data set.
    Bids(Rows),
    /// Lines of words; so many copies of the data set.
    Words(Rows),
    /// The engine's own generator; so many millions of rows, with keys below the second number.
    Generated { millions: Rows, n_keys: u64 },
    /// The engine's own generator without end: text of 200 bytes for keys below 20 million.
    Growing,
}

/// How much each side gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    pub ours: u64,
    pub flink: u64,
    pub datafusion: u64,
}

/// Rows of one copy of the bids.
pub const BIDS: u64 = 5_000_016;
/// Words of one copy of the lines.
pub const WORDS: u64 = 10_000_000;

impl Case {
    /// Rows of so many copies, or millions.
    pub fn rows(&self, units: u64) -> u64 {
        units
            * match self.input {
                Input::Bids(_) => BIDS,
                Input::Words(_) => WORDS,
                Input::Generated { .. } | Input::Growing => 1_000_000,
            }
    }

    pub fn units(&self) -> Rows {
        match self.input {
            Input::Bids(units) | Input::Words(units) => units,
            Input::Generated { millions, .. } => millions,
            Input::Growing => rows(0, 0, 0),
        }
    }
}

const fn rows(ours: u64, flink: u64, datafusion: u64) -> Rows {
    Rows {
        ours,
        flink,
        datafusion,
    }
}

/// All cases, in the order of the page.
pub const CASES: [Case; 7] = [
    Case {
        name: "q0",
        title: "Nexmark q0: five columns of JSON bids",
        input: Input::Bids(rows(30, 10, 2)),
        flink_query: "q0",
        is_stateful: false,
        must_reach: 3.0,
    },
    Case {
        name: "q1",
        title: "Nexmark q1: q0 with a DECIMAL product",
        input: Input::Bids(rows(30, 10, 2)),
        flink_query: "q1",
        is_stateful: false,
        must_reach: 3.0,
    },
    Case {
        name: "q2",
        title: "Nexmark q2: one auction in 123",
        input: Input::Bids(rows(40, 14, 2)),
        flink_query: "q2",
        is_stateful: false,
        must_reach: 3.0,
    },
    Case {
        name: "word-count",
        title: "word count, one update a word",
        input: Input::Words(rows(26, 2, 4)),
        flink_query: "wordcount",
        is_stateful: true,
        must_reach: 15.0,
    },
    Case {
        name: "keyed-sum",
        title: "count and sum of 1 M keys, one update a row",
        input: Input::Generated {
            millions: rows(96, 12, 40),
            n_keys: 1_000_000,
        },
        flink_query: "agg",
        is_stateful: true,
        must_reach: 20.0,
    },
    Case {
        name: "pass-through",
        title: "generator to blackhole",
        input: Input::Generated {
            millions: rows(6_000, 400, 200),
            n_keys: 1_000_000,
        },
        flink_query: "passthrough",
        is_stateful: false,
        must_reach: 3.0,
    },
    Case {
        name: "growing-state",
        title: "last value of 200 bytes and count, state growing to 500 MiB",
        input: Input::Growing,
        flink_query: "bigstate",
        is_stateful: true,
        must_reach: 8.0,
    },
];

/// The cases of these names; all of them when there is none.
pub fn select(names: &[String]) -> Result<Vec<&'static Case>, String> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| {
        let found = CASES.iter().find(|case| case.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
            format!(
                "there is no benchmark {name}: there are {}",
                known.join(", ")
            )
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = select(&["q9".to_owned()]).unwrap_err();
        assert!(
            error.contains("no benchmark q9") && error.contains("keyed-sum"),
            "{error}"
        );
        assert_eq!(select(&[]).unwrap().len(), CASES.len());
        assert_eq!(select(&["q1".to_owned()]).unwrap()[0].name, "q1");
    }

    #[test]
    fn every_case_has_its_job_and_its_query() {
        let bench = crate::workspace_root().join("tests/bench");
        for case in &CASES {
            let job = bench.join(format!("jobs/{}.yaml", case.name));
            assert!(job.exists(), "{}", job.display());
            let query = bench.join(format!("flink/sql/{}.sql", case.flink_query));
            assert!(query.exists(), "{}", query.display());
        }
    }
}
