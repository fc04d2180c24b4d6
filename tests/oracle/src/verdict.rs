//! The verdict as JSON, for people and for tests that run the oracle.

use serde_json::{Map, Value, json};

use crate::examiner::{Examiner, Look};

/// How the directory was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Looks {
    /// Views judged.
    pub judged: u64,
    /// Views with new files among them.
    pub grew: u64,
    /// Looks at a directory that did not exist yet or did not stand still.
    pub not_judged: u64,
}

impl Looks {
    /// Counts one.
    pub fn count(&mut self, look: Look) {
        match look {
            Look::Grew => (self.judged, self.grew) = (self.judged + 1, self.grew + 1),
            Look::Same => self.judged += 1,
            Look::NotJudged => self.not_judged += 1,
        }
    }
}

/// Whether all is right, and the whole verdict.
pub fn verdict(command: &str, examiner: &Examiner, looks: Looks) -> (bool, Value) {
    let findings = examiner.findings();
    let is_exact = findings.is_empty();
    let counts = findings.counts().iter();
    let counts: Map<String, Value> = counts
        .map(|(kind, count)| (kind.name().to_owned(), (*count).into()))
        .collect();
    let stories: Vec<Value> = findings.kept().iter().map(|kept| kept.to_json()).collect();
    let (n_files, n_bytes) = examiner.n_files_and_bytes();
    let (n_keys, least, most) = examiner.ledger().spread();
    let verdict = json!({
        "command": command,
        "verdict": if is_exact { "exact" } else { "violated" },
        "rows": examiner.ledger().n_rows(),
        "keys": n_keys,
        "rows_per_key_min": least,
        "rows_per_key_max": most,
        "files": n_files,
        "bytes": n_bytes,
        "views": {"judged": looks.judged, "grew": looks.grew, "not_judged": looks.not_judged},
        "findings": counts,
        "first": stories.first(),
        "stories": stories,
    });
    (is_exact, verdict)
}
