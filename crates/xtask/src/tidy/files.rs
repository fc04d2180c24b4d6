//! Lengths, first lines, and words that mark unfinished work.

use std::path::Path;

use crate::report::Violation;
use crate::rust_source::RustSource;
use crate::tree::Tree;

/// No file is longer.
const LINES_MAX: usize = 800;
/// Nine of ten files are no longer.
const LINES_COMMON: usize = 400;

/// No trait has more methods: it names what its caller needs, not what one library offers.
const TRAIT_METHODS_MAX: usize = 7;

/// Marks in code that work was left for later.
const UNFINISHED_CODE: [&str; 4] = ["todo!", "unimplemented!", "#[ignore", "dbg!"];
/// Marks in comments that work was left for later.
const UNFINISHED_COMMENTS: [&str; 3] = ["FIXME", "XXX", "TODO"];

/// Checks every Rust file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tree
        .rust
        .iter()
        .flat_map(|(path, source)| check_file(path, source))
        .collect();
    violations.extend(check_lengths(&tree.rust));
    violations
}

fn check_file(path: &Path, source: &RustSource) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let opens_with_doc = source
        .lines
        .first()
        .is_some_and(|line| !line.comment.trim().is_empty());
    if is_root && !opens_with_doc {
        let message = "the crate does not say what it is for: open it with //! and its one job, its \
                       invariants, and what it must never depend on";
        violations.push(Violation::at(path, 1, message));
    }
    let n_lines = source.lines.len();
    if n_lines > LINES_MAX {
        let message =
            format!("{n_lines} lines, of at most {LINES_MAX}: split it by what it decides");
        violations.push(Violation::of(path, message));
    }
    for (index, name, n_methods) in traits(source) {
        if n_methods > TRAIT_METHODS_MAX {
            let message = format!(
                "trait {name} has {n_methods} methods, of at most {TRAIT_METHODS_MAX}: split it by who \
                 calls it"
            );
            violations.push(Violation::at(path, index + 1, message));
        }
    }
    for (index, line) in source.lines.iter().enumerate() {
        let in_code = UNFINISHED_CODE
            .iter()
            .find(|word| contains_word(&line.code, word));
        let in_comment = UNFINISHED_COMMENTS
            .iter()
            .find(|word| contains_word(&line.comment, word));
        if let Some(word) = in_code.or(in_comment) {
            let message = format!("{word} marks unfinished work: finish it or take it out");
            violations.push(Violation::at(path, index + 1, message));
        }
    }
    violations
}

/// The traits of a file: line from 0, name, number of methods.
fn traits(source: &RustSource) -> Vec<(usize, String, usize)> {
    let mut traits: Vec<(usize, String, usize)> = Vec::new();
    let mut depth = 0_usize;
    // The depth of braces around the trait that is being read.
    let mut reading: Option<usize> = None;
    for (index, line) in source.lines.iter().enumerate() {
        let words: Vec<&str> = line.code.split_whitespace().collect();
        let keyword = words.iter().position(|word| *word == "trait");
        match (reading, keyword.and_then(|at| words.get(at + 1))) {
            (None, Some(name)) => {
                let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
                traits.push((index, name, 0));
                reading = Some(depth);
            }
            (Some(outside), _) if depth == outside + 1 && words.contains(&"fn") => {
                traits.last_mut().expect("a trait is being read").2 += 1;
            }
            _ => {}
        }
        let opened = line.code.matches('{').count();
        let closed = line.code.matches('}').count();
        depth = (depth + opened).saturating_sub(closed);
        if closed > 0 && reading.is_some_and(|outside| depth <= outside) {
            reading = None;
        }
    }
    traits
}

fn check_lengths(files: &[(std::path::PathBuf, RustSource)]) -> Option<Violation> {
    let long: Vec<_> = files
        .iter()
        .filter(|(_, source)| source.lines.len() > LINES_COMMON)
        .collect();
    (long.len() * 10 > files.len()).then(|| {
        let longest = long.iter().max_by_key(|(_, source)| source.lines.len());
        let path = longest.map_or_else(Default::default, |(path, _)| path.clone());
        let message = format!(
            "{} of {} files are longer than {LINES_COMMON} lines, one in ten may be: split some, \
             this is the longest",
            long.len(),
            files.len()
        );
        Violation::of(path, message)
    })
}

/// Whether the word occurs and is not part of a longer one.
fn contains_word(text: &str, word: &str) -> bool {
    let ends = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let ends_itself = !word.ends_with(char::is_alphabetic);
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        ends(before) && (ends_itself || ends(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let violations = check_file(Path::new(path), &RustSource::parse(text));
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments_and_not_in_text() {
        let text = "fn a() { todo!() }\n// FIXME later\nlet s = \"TODO\"; // a todo-list\n";
        let found = complaints("a.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: todo!") && found[1].starts_with("a.rs:2: FIXME"));
        assert_eq!(
            complaints("a.rs", "#[ignore = \"slow\"]\nfn a() {}\n").len(),
            1
        );
    }

    #[test]
    fn a_crate_says_what_it_is_for() {
        assert!(complaints("crates/a/src/lib.rs", "//! Adds.\n").is_empty());
        assert_eq!(complaints("crates/a/src/lib.rs", "mod b;\n").len(), 1);
        assert!(complaints("crates/a/src/b.rs", "fn b() {}\n").is_empty());
    }

    #[test]
    fn the_methods_of_a_trait_are_counted_and_nothing_else() {
        let text = "\
pub trait Small: Send { fn a(&self); }
fn before() {}
pub(crate) trait Big<T>
where
    T: Sized,
{
    type Out;
    fn a(&self) {
        let f = |x: fn () -> u8| x;
    }
    async fn b(&self);
}
impl Big for X { fn c() {} }
";
        let found = traits(&RustSource::parse(text));
        assert_eq!(found, [(0, "Small".into(), 0), (2, "Big".into(), 2)]);
        let eight = format!("trait T {{\n{}}}\n", "    fn f();\n".repeat(8));
        assert!(complaints("a.rs", &eight)[0].contains("trait T has 8 methods"));
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        assert!(complaints("a.rs", &"x;\n".repeat(LINES_MAX)).is_empty());
        assert_eq!(complaints("a.rs", &"x;\n".repeat(LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn one_file_in_ten_may_be_long() {
        let file = |n: usize| (PathBuf::from("a.rs"), RustSource::parse(&"x;\n".repeat(n)));
        let mut files: Vec<_> = (0..9).map(|_| file(10)).collect();
        files.push(file(LINES_COMMON + 1));
        assert!(check_lengths(&files).is_none());
        files.push(file(LINES_COMMON + 1));
        assert!(check_lengths(&files).is_some());
    }
}
