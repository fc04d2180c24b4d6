//! The planted faults: small mistakes in the code, as data.
//!
//! ```text
//! item: F21
//! about: the window without its boundary
//! file: crates/coordination/src/restart/mod.rs
//! text: now - oldest > config.interval
//! with: now - oldest >= config.interval
//! test: crates/coordination/src/restart/tests.rs::the_window_of_failure_rate_includes_its_boundary
//! ```
//!
//! Blocks are separated by blank lines. A text of several lines stands below its key, each line
//! behind `| `; it may begin and end within a line. `with:` without anything takes the text out. `#`
//! begins a comment. A last line `shown: not yet` stands there until the test was seen to go red; till
//! then the fault proves nothing.

use std::path::{Path, PathBuf};

use crate::conformance::{TestName, item_number};
use crate::report::{Failure, Violation};

/// The folder of the files.
pub const FOLDER: &str = "tests/red";
/// Beside the faults lies a table of another kind.
const NO_FAULTS: &str = "waiting.txt";
/// What every block has, in this order.
const KEYS: [&str; 6] = ["item", "about", "file", "text", "with", "test"];

/// The line of a fault that nobody has seen a test fail with.
pub const NOT_SHOWN: &str = "shown: not yet";

/// A mistake that a test must notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where it is written down.
    pub path: PathBuf,
    /// The line of its block there.
    pub line: usize,
    /// The number of the item it breaks.
    pub item: u32,
    /// The mistake in words.
    pub about: String,
    /// The file it is planted in.
    pub file: PathBuf,
    /// What stands there, once.
    pub text: String,
    /// What stands there after the mistake.
    pub with: String,
    /// What must fail.
    pub test: TestName,
    /// Whether it was seen to fail.
    pub is_shown: bool,
}

/// The faults of all files, and what cannot be read in them.
pub fn faults(root: &Path) -> Result<(Vec<Fault>, Vec<Violation>), Failure> {
    let folder = root.join(FOLDER);
    let io = |error| Failure::io(format!("read {FOLDER}"))(error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(io)? {
        let name = entry
            .map_err(io)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".txt") && name != NO_FAULTS {
            names.push(name);
        }
    }
    names.sort();
    let (mut faults, mut violations) = (Vec::new(), Vec::new());
    for name in names {
        let text = std::fs::read_to_string(folder.join(&name))
            .map_err(Failure::io(format!("read {FOLDER}/{name}")))?;
        let (read, malformed) = parse(format!("{FOLDER}/{name}"), &text);
        faults.extend(read);
        violations.extend(malformed);
    }
    Ok((faults, violations))
}

/// Reads one file. A block that cannot be read is a complaint and no fault.
pub fn parse(path: impl Into<PathBuf>, text: &str) -> (Vec<Fault>, Vec<Violation>) {
    let path = path.into();
    let (mut faults, mut violations) = (Vec::new(), Vec::new());
    for block in blocks(text) {
        match block.read(&path) {
            Ok(fault) => faults.push(fault),
            Err((line, message)) => violations.push(Violation::at(&path, line, message)),
        }
    }
    (faults, violations)
}

/// Lines between blank ones, each with its number, without comments.
struct Block<'a>(Vec<(usize, &'a str)>);

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = vec![Block(Vec::new())];
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            blocks.push(Block(Vec::new()));
        } else if let (false, Some(block)) = (line.starts_with('#'), blocks.last_mut()) {
            block.0.push((index + 1, line));
        }
    }
    blocks.retain(|block| !block.0.is_empty());
    blocks
}

type Complaint = (usize, String);

impl Block<'_> {
    fn read(&self, path: &Path) -> Result<Fault, Complaint> {
        let mut lines = self.0.iter().copied().peekable();
        let mut values = Vec::new();
        for key in KEYS {
            let at = lines.peek().map_or(self.last_line(), |(line, _)| *line);
            let value = lines.next().and_then(|(_, line)| value_of(line, key));
            let Some(value) = value else {
                let message =
                    format!("`{key}: …` is missing here: a fault has {KEYS:?}, in this order");
                return Err((at, message));
            };
            let mut below = Vec::new();
            while let Some((line, text)) = lines.next_if(|(_, line)| line.starts_with('|')) {
                if !matches!(key, "text" | "with") || !value.is_empty() {
                    let message = format!(
                        "lines with | stand below an empty `text:` or `with:`, not below `{key}: {value}`"
                    );
                    return Err((line, message));
                }
                below.push(text.strip_prefix("| ").unwrap_or(&text[1..]));
            }
            let value = match below.is_empty() {
                true => value.to_owned(),
                false => below.join("\n"),
            };
            values.push((at, value));
        }
        let is_shown = lines.next_if(|(_, line)| *line == NOT_SHOWN).is_none();
        if let Some((line, rest)) = lines.next() {
            let message = format!(
                "{rest:?} belongs to no fault: begin the next one behind a blank line, or write \
                 `{NOT_SHOWN}`"
            );
            return Err((line, message));
        }
        let fault = self.fault(path, values)?;
        Ok(Fault { is_shown, ..fault })
    }

    fn fault(&self, path: &Path, values: Vec<(usize, String)>) -> Result<Fault, Complaint> {
        let [item, about, file, text, with, test]: [(usize, String); 6] = values
            .try_into()
            .map_err(|_| (self.last_line(), "a fault has six keys".to_owned()))?;
        for ((line, value), key) in [(&about, "about"), (&file, "file"), (&text, "text")] {
            if value.trim().is_empty() {
                return Err((*line, format!("`{key}:` is empty: fill it in")));
            }
        }
        if text.1 == with.1 {
            let message = "the text stays as it is: write the mistake behind `with:`";
            return Err((with.0, message.to_owned()));
        }
        let Some(number) = item_number(&item.1) else {
            return Err((
                item.0,
                format!("{:?} is no item: write one, such as F18", item.1),
            ));
        };
        let Some((test_path, function)) = test.1.split_once("::") else {
            let message = "write the test as in docs/conformance.md: path/of/file.rs::function";
            return Err((test.0, message.to_owned()));
        };
        Ok(Fault {
            path: path.to_owned(),
            line: item.0,
            item: number,
            about: about.1,
            file: file.1.into(),
            text: text.1,
            with: with.1,
            test: TestName {
                path: test_path.into(),
                function: function.to_owned(),
            },
            is_shown: true,
        })
    }

    fn last_line(&self) -> usize {
        self.0.last().map_or(0, |(line, _)| *line)
    }
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(key)?.strip_prefix(':')?;
    Some(rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_LINE: &str = "\
# Restarts.
item: F21
about: the window without its boundary
file: a.rs
text: now > then
with: now >= then
test: a/tests.rs::stays
";

    const SEVERAL_LINES: &str = "\
item: F22
about: nothing is done
file: a.rs
text:
| if now {
|     act();
|
| }
with:
test: a/tests.rs::stays
";

    fn complaint(text: &str) -> String {
        let (faults, violations) = parse("r.txt", text);
        assert!(faults.is_empty());
        assert_eq!(violations.len(), 1, "{violations:?}");
        violations[0].to_string()
    }

    #[test]
    fn blocks_become_faults() {
        let (faults, violations) = parse("r.txt", &format!("{ONE_LINE}\n\n{SEVERAL_LINES}"));
        assert_eq!(violations, []);
        let shown: Vec<_> = faults
            .iter()
            .map(|f| (f.line, f.item, f.text.as_str(), f.with.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (2, 21, "now > then", "now >= then"),
                (10, 22, "if now {\n    act();\n\n}", ""),
            ]
        );
        assert_eq!(faults[0].test.path, Path::new("a/tests.rs"));
        assert_eq!(faults[0].test.function, "stays");
    }

    #[test]
    fn what_was_not_seen_red_says_so() {
        let (faults, _) = parse(
            "r.txt",
            &format!("{ONE_LINE}{NOT_SHOWN}\n\n{SEVERAL_LINES}"),
        );
        assert_eq!((faults[0].is_shown, faults[1].is_shown), (false, true));
        let found = complaint(&format!("{ONE_LINE}shown: soon\n"));
        assert!(found.starts_with("r.txt:8: \"shown: soon\""), "{found}");
    }

    #[test]
    fn one_block_that_cannot_be_read_does_not_hide_the_next() {
        let (faults, violations) = parse("r.txt", &format!("item: F1\n\n{SEVERAL_LINES}"));
        assert_eq!((faults.len(), violations.len()), (1, 1));
    }

    #[test]
    fn every_complaint_names_line_and_remedy() {
        let cases = [
            ("item: F21", "item: 21", "r.txt:2: \"21\" is no item"),
            ("about: ", "abuot: ", "r.txt:3: `about: …` is missing here"),
            ("file: a.rs", "file:", "r.txt:4: `file:` is empty"),
            ("text: now > then\n", "", "r.txt:5: `text: …` is missing"),
            (
                "now >= then",
                "now > then",
                "r.txt:6: the text stays as it is",
            ),
            ("a/tests.rs::stays", "stays", "r.txt:7: write the test as"),
            (
                "test: ",
                "| more\ntest: ",
                "r.txt:7: lines with | stand below",
            ),
            (
                "::stays\n",
                "::stays\nitem: F2\n",
                "r.txt:8: \"item: F2\" belongs",
            ),
            (
                "test: a/tests.rs::stays\n",
                "",
                "r.txt:6: `test: …` is missing",
            ),
        ];
        for (text, with, expected) in cases {
            let found = complaint(&ONE_LINE.replacen(text, with, 1));
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
