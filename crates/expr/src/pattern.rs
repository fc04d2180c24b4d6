//! Regular expressions: found wrong at submission, linear in time, bounded in memory.

use regex::{Regex, RegexBuilder};

use crate::error::{ErrorKind, shortened};

/// Largest compiled form of a pattern. `\w{20}` takes about 1 MiB, because `\w` is most of Unicode.
const MAX_COMPILED_BYTES: usize = 4 * 1024 * 1024;

/// Compiles a pattern, or says what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, ErrorKind> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => ErrorKind::Pattern {
            message: format!("the pattern '{}' is too large when compiled", shown(pattern)),
            remedy: "Use smaller repetition counts, or [a-z0-9] in place of \\w.".into(),
        },
        other => ErrorKind::Pattern {
            message: format!("the pattern '{}' is not a regular expression: {}", shown(pattern), reason(&other)),
            remedy: "Patterns are those of Rust's regex crate: no look-around and no back-references.".into(),
        },
    })
}

/// A pattern that comes from a column would be compiled again for every row.
pub(crate) fn not_a_literal() -> ErrorKind {
    ErrorKind::Pattern {
        message: "a regular expression must be a text literal".into(),
        remedy:
            "Write the pattern itself in single quotes; strpos, starts_with and LIKE take columns."
                .into(),
    }
}

fn shown(pattern: &str) -> String {
    shortened(pattern, 60)
}

/// The last line of the library's picture of the pattern is the reason.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
