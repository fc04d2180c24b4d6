//! Raw access to the machine that lints cannot see: whole modules, and names behind `use`.

use std::path::Path;

use regex::Regex;

use crate::report::{Failure, Violation};
use crate::rust_source::RustSource;
use crate::tree::Tree;

const ALLOWED: &str = include_str!("hooks.txt");
const ALLOWED_PATH: &str = "crates/xtask/src/tidy/hooks.txt";

/// What each hook looks like in code, and where to get it instead.
const HOOKS: [(&str, &str, &str); 6] = [
    (
        "files",
        r"\b(std::fs|tokio::fs)\b|\b(std|tokio)::\{[^}]*\bfs\b",
        "files come from `env::fs::Fs`",
    ),
    (
        "network",
        r"\btokio::net\b|\btokio::\{[^}]*\bnet\b|\b(TcpStream|TcpListener|TcpSocket|UdpSocket|ToSocketAddrs)\b",
        "connections come from `env::net::Net`",
    ),
    (
        "threads",
        r"\bthread::(spawn|Builder|scope|sleep)\b",
        "threads come from `env::Spawner`",
    ),
    (
        "time",
        r"\b(SystemTime|Instant)::now\b|\btokio::time\b",
        "time comes from `env::Clock`, in pure code as an argument",
    ),
    (
        "random",
        r"\brand::(rng|thread_rng|random)\b|\b(OsRng|ThreadRng|RandomState)\b|::new_v4\b",
        "randomness comes from `env::Rng`, in pure code as an argument",
    ),
    (
        "hash order",
        r"\b(std::)?collections::(HashMap|HashSet)\b|\bcollections::\{[^}]*\bHash(Map|Set)\b",
        "decisions are the same for the same events: use `BTreeMap` or `BTreeSet`",
    ),
];
/// Crates that decide; the order of a hash table must not reach them.
const DECIDING: [&str; 3] = ["crates/coordination/", "crates/exchange/", "crates/graph/"];

/// A line of `hooks.txt`.
struct Allowed {
    prefix: String,
    hook: String,
}

/// Checks every Rust file.
pub fn check(tree: &Tree) -> Result<Vec<Violation>, Failure> {
    let allowed = parse(ALLOWED)?;
    let patterns = patterns()?;
    let mut violations: Vec<Violation> = Vec::new();
    for (path, source) in &tree.rust {
        if !is_test_file(path) {
            violations.extend(check_file(path, source, &allowed, &patterns));
        }
    }
    Ok(violations)
}

fn patterns() -> Result<Vec<Regex>, Failure> {
    let compile = |(hook, pattern, _): &(&str, &str, &str)| {
        Regex::new(pattern).map_err(|error| Failure::Unexpected(format!("hook {hook}: {error}")))
    };
    HOOKS.iter().map(compile).collect()
}

fn parse(text: &str) -> Result<Vec<Allowed>, Failure> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let allowed = lines.map(|line| {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        match parts[..] {
            [prefix, hook, reason]
                if !reason.is_empty() && HOOKS.iter().any(|(known, ..)| *known == hook) =>
            {
                Ok(Allowed {
                    prefix: prefix.to_owned(),
                    hook: hook.to_owned(),
                })
            }
            _ => Err(Failure::Unexpected(format!(
                "{ALLOWED_PATH}: write path | hook | reason, not {line:?}"
            ))),
        }
    });
    allowed.collect()
}

/// Tests beside the code and build scripts use the real machine.
fn is_test_file(path: &Path) -> bool {
    let named = |name: &str| path.file_name().is_some_and(|file| file == name);
    named("build.rs")
        || named("tests.rs")
        || path
            .components()
            .any(|c| c.as_os_str() == "tests" || c.as_os_str() == "benches")
}

fn check_file(
    path: &Path,
    source: &RustSource,
    allowed: &[Allowed],
    patterns: &[Regex],
) -> Vec<Violation> {
    let shown = path.to_string_lossy();
    // Joined, since a `use` goes over lines.
    let code: String = source.lines[..source.tests_start()]
        .iter()
        .map(|line| format!("{}\n", line.code))
        .collect();
    let mut violations = Vec::new();
    for ((hook, _, remedy), pattern) in HOOKS.iter().zip(patterns) {
        let applies =
            *hook != "hash order" || DECIDING.iter().any(|crate_| shown.starts_with(crate_));
        let is_allowed = allowed
            .iter()
            .any(|a| a.hook == *hook && shown.starts_with(&a.prefix));
        if is_allowed || !applies {
            continue;
        }
        for found in pattern.find_iter(&code) {
            let line = code[..found.start()].matches('\n').count() + 1;
            let text = found
                .as_str()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let message = format!(
                "{text}: {remedy}. Where that cannot be, add a line with the reason to {ALLOWED_PATH}"
            );
            violations.push(Violation::at(path, line, message));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<usize> {
        let allowed = "crates/rocks/ | files | the library wants paths\n\
                       crates/graph/src/x.rs | hash order | never looked through";
        let allowed = parse(allowed).unwrap();
        let source = RustSource::parse(text);
        let violations = check_file(Path::new(path), &source, &allowed, &patterns().unwrap());
        violations
            .into_iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn raw_access_is_found_however_it_is_named() {
        let text = "\
use std::fs;
use std::{
    io,
    fs::File,
};
use tokio::net::lookup_host;
let t = Instant::now();
let r = rand::rng();
std::thread::spawn(run);
";
        assert_eq!(
            complaints("crates/jobmanager/src/a.rs", text),
            [1, 2, 6, 9, 7, 8]
        );
    }

    #[test]
    fn comments_text_tests_and_plain_addresses_are_fine() {
        let text = "\
// std::fs is not used here
use std::net::SocketAddr;
use std::time::Duration;
let s = \"std::fs\";
#[cfg(test)]
mod tests { use std::fs; }
";
        assert!(complaints("crates/jobmanager/src/a.rs", text).is_empty());
        assert!(is_test_file(Path::new("crates/a/src/tests.rs")));
        assert!(is_test_file(Path::new("crates/a/src/fs/tests.rs")));
        assert!(is_test_file(Path::new("crates/rpc/build.rs")));
        assert!(!is_test_file(Path::new("crates/a/src/contest.rs")));
    }

    #[test]
    fn an_allowed_hook_is_allowed_there_only() {
        assert!(complaints("crates/rocks/src/a.rs", "use std::fs;").is_empty());
        assert_eq!(complaints("crates/rocks/src/a.rs", "Instant::now()"), [1]);
        assert_eq!(complaints("crates/rocksalt/src/a.rs", "use std::fs;"), [1]);
    }

    #[test]
    fn hash_order_matters_where_decisions_are_made() {
        let text = "use std::collections::{BTreeMap, HashMap};";
        assert_eq!(complaints("crates/coordination/src/a.rs", text), [1]);
        assert!(complaints("crates/expr/src/a.rs", text).is_empty());
        assert!(complaints("crates/graph/src/x.rs", text).is_empty());
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_known_hook() {
        assert!(parse("crates/a/ | files |").is_err());
        assert!(parse("crates/a/ | sockets | why not").is_err());
        assert!(parse(ALLOWED).is_ok());
    }
}
