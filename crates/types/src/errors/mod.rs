//! The kinds of errors that users meet, each with a code that never changes. The list for people is
//! `docs/errors.md`, generated from [`CATALOGUE`].
//!
//! A typed error says its code by `code()`, beside `remedy()`. Its own remedy names the object at
//! hand; where it has none, the reader gets the catalogue's.

mod table;

use std::fmt;

pub use table::*;

/// The code of a kind of error, such as `CONN-0001`. It never changes and is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ErrorCode(&'static str);

/// A kind of error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorEntry {
    /// Its code.
    pub code: ErrorCode,
    /// The name of the code's constant.
    pub name: &'static str,
    /// What its message says, with names of values in braces.
    pub text: &'static str,
    /// What happened.
    pub cause: &'static str,
    /// What to do about it, where the message itself says nothing nearer.
    pub remedy: &'static str,
}

impl ErrorCode {
    /// The code written so, if it is of this version.
    pub fn find(text: &str) -> Option<Self> {
        let entry = CATALOGUE.iter().find(|entry| entry.code.0 == text)?;
        Some(entry.code)
    }

    /// The code as it is written.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// What the catalogue says of it.
    pub fn entry(self) -> &'static ErrorEntry {
        let entry = CATALOGUE.iter().find(|entry| entry.code == self);
        entry.expect("codes are made by the catalogue alone")
    }

    /// What a user reads: `error[CODE]: what happened`, then `help:` lines. Without a remedy of its
    /// own the catalogue's is said.
    pub fn render(self, what: &str, remedy: &str) -> String {
        format!("error[{self}]: {}", self.body(what, remedy))
    }

    /// The same without its beginning, as it travels beside the code.
    pub fn body(self, what: &str, remedy: &str) -> String {
        let remedy = match remedy.is_empty() {
            true => self.entry().remedy,
            false => remedy,
        };
        format!("{what}\n  help: {remedy}")
    }

    /// The anchor of the code in `docs/errors.md`.
    pub fn anchor(self) -> String {
        self.0.to_lowercase()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl ErrorEntry {
    /// What stands before the number: `CONN`.
    pub fn group(&self) -> &'static str {
        self.code.0.split('-').next().unwrap_or_default()
    }

    /// Whether a message is one of this entry's: the fixed parts of the text are in it, in order.
    pub fn matches(&self, message: &str) -> bool {
        let mut rest = message;
        fixed_parts(self.text).all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

/// A text without what stands in braces.
fn fixed_parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split('{').enumerate();
    parts.map(|(nth, part)| match part.split_once('}') {
        Some((_, after)) if nth > 0 => after,
        _ => part,
    })
}

/// `docs/errors.md`.
pub fn errors_markdown() -> String {
    let mut text = HEAD.to_owned();
    for (group, about) in GROUPS {
        text.push_str(&format!("\n## {group}: {about}\n"));
        for entry in CATALOGUE.iter().filter(|entry| entry.group() == *group) {
            let ErrorEntry {
                code,
                text: message,
                cause,
                remedy,
                ..
            } = entry;
            text.push_str(&format!("\n### {code}\n\n"));
            // A message that is all values cannot be looked for.
            if fixed_parts(message).any(|part| !part.is_empty()) {
                text.push_str(&format!("`{message}`\n\n"));
            }
            text.push_str(&format!("- Cause: {cause}\n- Remedy: {remedy}\n"));
        }
    }
    if !RETIRED.is_empty() {
        text.push_str(&format!("\n## No longer used\n\n{}\n", RETIRED.join(", ")));
    }
    text
}

const HEAD: &str = "# Errors

Generated from `crates/types/src/errors/table.rs`; a test keeps the two equal.

Every error that a program of Millstream ends with begins with `error[CODE]:`, and says what to do \
in lines that begin with `help:`. A code never changes and is never used for something else; the \
text around it may. Words in braces stand for what is different each time. Texts of the log have \
their own list, [log-catalogue.md](spec/log-catalogue.md).

Exit codes of `millstream`: 0 done, 1 a mistake in what was given, 2 the cluster is out of reach, \
3 the operation failed. Of `jobmanager` and `taskmanager`: 0 ended by a signal, 1 it cannot go on, \
2 its configuration is refused.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_counted_through_in_their_groups_and_used_once() {
        let all: Vec<&str> = CATALOGUE
            .iter()
            .map(|entry| entry.code.as_str())
            .chain(RETIRED.iter().copied())
            .collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), once.len(), "a code is used twice");
        for (group, _) in GROUPS {
            let of_group: Vec<_> = once.iter().filter(|code| code.starts_with(group)).collect();
            assert!(!of_group.is_empty(), "{group} is empty");
            // A code that is not used any more stays in RETIRED, or its number would be free again.
            for (nth, code) in of_group.iter().enumerate() {
                assert_eq!(**code, format!("{group}-{:04}", nth + 1));
            }
        }
        let is_known = |entry: &&ErrorEntry| GROUPS.iter().any(|(name, _)| *name == entry.group());
        assert_eq!(CATALOGUE.iter().filter(is_known).count(), CATALOGUE.len());
    }

    #[test]
    fn every_entry_says_what_happened_and_what_to_do() {
        for entry in CATALOGUE {
            for text in [entry.text, entry.cause, entry.remedy] {
                assert!(!text.is_empty(), "{} is incomplete", entry.code);
            }
            for sentence in [entry.cause, entry.remedy] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", entry.code);
            }
            assert_eq!(ErrorCode::find(entry.code.as_str()), Some(entry.code));
        }
        assert_eq!(ErrorCode::find("CONN-9999"), None);
    }

    #[test]
    fn an_error_without_a_remedy_of_its_own_has_the_catalogue_s() {
        let own = NOBODY_LISTENS.render("cannot reach a:1", "start it");
        assert_eq!(own, "error[CONN-0001]: cannot reach a:1\n  help: start it");
        let general = NOBODY_LISTENS.render("cannot reach a:1", "");
        assert!(
            general.ends_with(NOBODY_LISTENS.entry().remedy),
            "{general}"
        );
    }

    #[test]
    fn a_message_matches_the_text_of_its_entry_and_of_no_other() {
        let entry = NOBODY_LISTENS.entry();
        assert!(entry.matches("cannot reach a:1: connection refused, nothing listens there"));
        assert!(!entry.matches("cannot reach a:1: no answer within 10 s"));
    }
}
