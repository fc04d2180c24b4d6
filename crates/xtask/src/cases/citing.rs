//! Which tests cite a case: comments right above their function.

use regex::Regex;

use super::Tests;
use crate::report::Failure;
use crate::rust_source::RustSource;
use crate::tree::Tree;

/// All tests that cite cases.
pub fn tests(tree: &Tree) -> Result<Tests, Failure> {
    let reader = Reader::new()?;
    let mut tests = Tests::new();
    for (path, source) in &tree.rust {
        // This tool's own tests hold examples.
        if path.starts_with("crates/xtask") {
            continue;
        }
        for (case, function) in reader.citations(source) {
            tests
                .entry(case)
                .or_default()
                .push((path.clone(), function));
        }
    }
    for tests in tests.values_mut() {
        tests.sort();
        tests.dedup();
    }
    Ok(tests)
}

struct Reader {
    case: Regex,
    range: Regex,
    function: Regex,
}

impl Reader {
    fn new() -> Result<Self, Failure> {
        let compile = |pattern: &str| {
            Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("{pattern}: {error}")))
        };
        Ok(Self {
            case: compile(r"\bHND-\d{3}\b")?,
            range: compile(r"\bHND-(\d{3})(?: to |-)HND-(\d{3})\b")?,
            function: compile(r"\bfn (\w+)")?,
        })
    }

    /// Case and function, for each test with a comment that cites one.
    fn citations(&self, source: &RustSource) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (index, line) in source.lines.iter().enumerate() {
            let is_test = line.code.contains("#[test]") || line.code.contains("#[tokio::test");
            if !is_test {
                continue;
            }
            let function = source.lines[index..]
                .iter()
                .find_map(|line| self.function.captures(&line.code));
            let Some(function) = function else { continue };
            // Comments and other attributes stand together, above.
            let above = source.lines[..index].iter().rev().take_while(|line| {
                let code = line.code.trim();
                (code.is_empty() && !line.comment.is_empty()) || code.starts_with("#[")
            });
            let mut comments: Vec<&str> = above.map(|line| line.comment.as_str()).collect();
            comments.reverse();
            for case in self.cases(&comments.join(" ")) {
                found.push((case, function[1].to_owned()));
            }
        }
        found
    }

    fn cases(&self, text: &str) -> Vec<String> {
        let named = self
            .case
            .find_iter(text)
            .map(|found| found.as_str().to_owned());
        let between = self.range.captures_iter(text).flat_map(|capture| {
            let number = |i: usize| capture[i].parse::<u32>().unwrap_or_default();
            (number(1)..number(2)).map(|n| format!("HND-{n:03}"))
        });
        let mut cases: Vec<_> = named.chain(between).collect();
        cases.sort();
        cases.dedup();
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citations(text: &str) -> Vec<(String, String)> {
        Reader::new().unwrap().citations(&RustSource::parse(text))
    }

    fn pair(case: &str, function: &str) -> (String, String) {
        (case.to_owned(), function.to_owned())
    }

    #[test]
    fn a_comment_above_a_test_cites_for_it() {
        let text = "\
// HND-041: quotes,
// and HND-037.
#[test]
fn reads() {}

/// Proves HND-060.
#[allow(clippy::x)]
#[tokio::test(flavor = \"multi_thread\")]
async fn stops() {}
";
        let expected = [
            pair("HND-037", "reads"),
            pair("HND-041", "reads"),
            pair("HND-060", "stops"),
        ];
        assert_eq!(citations(text), expected);
    }

    #[test]
    fn other_comments_and_texts_cite_for_nobody() {
        assert!(citations("// HND-041\nfn helper() {}\n").is_empty());
        assert!(citations("// HND-041\n\n#[test]\nfn later() {}\n").is_empty());
        assert!(citations("#[test]\nfn a() { let s = \"HND-041\"; }\n").is_empty());
        assert!(citations("#[test]\nfn a() {\n    // HND-041\n}\n#[test]\nfn b() {}\n").is_empty());
    }

    #[test]
    fn a_range_cites_all_between() {
        let found = citations("// HND-034 to HND-036.\n#[test]\nfn a() {}\n");
        let cases: Vec<_> = found.iter().map(|(case, _)| case.as_str()).collect();
        assert_eq!(cases, ["HND-034", "HND-035", "HND-036"]);
    }
}
