//! What tests claim to prove: comments such as `// Proves F59, F60-F62.` above them.

use regex::Regex;

use super::compile;
use crate::report::Failure;
use crate::rust_source::RustSource;

/// How far below its comment a test may begin: attributes stand between.
const LINES_TO_TEST_MAX: usize = 12;

/// A comment that says what a test proves.
#[derive(PartialEq, Eq, Debug)]
pub struct Claim {
    /// From 1.
    pub line: usize,
    /// Numbers of the items it proves.
    pub items: Vec<u32>,
    /// The test's function.
    pub test: Option<String>,
}

/// Finds what comments claim.
pub struct Reader {
    proves: Regex,
    /// Fences have numbers of their own.
    fence: Regex,
    range: Regex,
    function: Regex,
}

impl Reader {
    /// A reader.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self {
            proves: compile(r"\bProves:? ((?:F|HND-)\d.*)$")?,
            fence: compile(r"\bfences? F\d+(?:(?:,| and) F\d+)*")?,
            range: compile(r"\bF(\d+)(?:\s*(?:-|–|to)\s*F?(\d+))?\b")?,
            function: compile(r"\bfn (\w+)")?,
        })
    }

    /// What the comments of a file say, from the top.
    pub fn claims(&self, source: &RustSource) -> Vec<Claim> {
        let lines = source.lines.iter().enumerate();
        let claims = lines.filter_map(|(index, line)| {
            let first = self.proves.captures(&line.comment)?[1].to_owned();
            // The sentence may go on below; it ends with a full stop or with the comment.
            let mut sentence = first;
            for below in &source.lines[index + 1..] {
                if sentence.contains('.') || below.comment.trim().is_empty() {
                    break;
                }
                sentence.push(' ');
                sentence.push_str(&below.comment);
            }
            let sentence = sentence.split('.').next().unwrap_or_default();
            let sentence = self.fence.replace_all(sentence, "");
            let test = source.lines[index..]
                .iter()
                .take(LINES_TO_TEST_MAX)
                .find_map(|line| Some(self.function.captures(&line.code)?[1].to_owned()));
            Some(Claim {
                line: index + 1,
                items: self.numbers(&sentence),
                test,
            })
        });
        claims.collect()
    }

    fn numbers(&self, sentence: &str) -> Vec<u32> {
        let ranges = self.range.captures_iter(sentence).flat_map(|capture| {
            let number = |i: usize| {
                capture
                    .get(i)
                    .and_then(|text| text.as_str().parse::<u32>().ok())
            };
            let first = number(1).unwrap_or_default();
            first..=number(2).unwrap_or(first)
        });
        ranges.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<(Vec<u32>, Option<String>)> {
        let claims = Reader::new().unwrap().claims(&RustSource::parse(text));
        claims
            .into_iter()
            .map(|claim| (claim.items, claim.test))
            .collect()
    }

    #[test]
    fn a_comment_above_a_test_says_what_it_proves() {
        let text = "\
// Proves F20, F21.
#[test]
fn waits_for_the_pause() {}

/// A story about B1.1. Proves F59-F61,
/// F70. And F80 is something else.
#[tokio::test(flavor = \"multi_thread\")]
async fn completes() {}
";
        let expected = [
            (vec![20, 21], Some("waits_for_the_pause".to_owned())),
            (vec![59, 60, 61, 70], Some("completes".to_owned())),
        ];
        assert_eq!(claims(text), expected);
    }

    #[test]
    fn fences_and_field_cases_are_no_items() {
        let text = "// Proves F59, and fences F5 and F6.\n#[test]\nfn a() {}\n\
                    // Proves HND-066, F35.\n#[test]\nfn b() {}\n";
        let expected = [
            (vec![59], Some("a".to_owned())),
            (vec![35], Some("b".to_owned())),
        ];
        assert_eq!(claims(text), expected);
    }

    #[test]
    fn a_comment_with_nothing_below_proves_nothing() {
        assert_eq!(claims("// Proves F20.\nstruct A;\n"), [(vec![20], None)]);
    }

    #[test]
    fn other_comments_claim_nothing() {
        assert!(claims("// This proves the point of F20.\nfn a() {}\n").is_empty());
        assert!(claims("let s = \"Proves F20.\";\nfn a() {}\n").is_empty());
    }
}
