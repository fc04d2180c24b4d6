//! Which binary a test is part of, by the place of its file.

use std::path::Path;

use crate::conformance::TestName;
use crate::tree::Tree;

/// Binaries of end-to-end tests that start no program.
const IN_PROCESS: [&str; 3] = ["docs", "model", "sim"];

/// What `cargo` calls a test binary.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Binary {
    /// The package.
    pub package: String,
    /// Which of its binaries.
    pub target: Target,
}

/// A binary of a package.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// The tests beside the code of a library.
    Lib,
    /// The tests beside the code of programs.
    Bins,
    /// A file or folder below `tests`.
    Test(String),
}

impl Binary {
    /// The binary of the test; `None` where cargo would look for none.
    pub fn of(tree: &Tree, test: &TestName) -> Option<Self> {
        let has = |path: &str| tree.rust.iter().any(|(known, _)| known == Path::new(path));
        Self::at(&test.path, has)
    }

    fn at(path: &Path, has: impl Fn(&str) -> bool) -> Option<Self> {
        let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
        let parts = parts?;
        let (name, folder, rest) = match &parts[..] {
            ["crates", name, rest @ ..] => (*name, format!("crates/{name}"), rest),
            ["tests", "oracle", rest @ ..] => ("oracle", "tests/oracle".to_owned(), rest),
            ["tests", rest @ ..] => ("tests", "tests".to_owned(), rest),
            _ => return None,
        };
        let target = match rest {
            ["src", ..] if has(&format!("{folder}/src/lib.rs")) => Target::Lib,
            ["src", ..] => Target::Bins,
            ["tests", first, ..] => Target::Test(first.trim_end_matches(".rs").to_owned()),
            _ => return None,
        };
        let package = format!("millstream-{name}");
        Some(Self { package, target })
    }

    /// What selects it, for `cargo nextest run` and `cargo test` alike.
    pub fn args(&self) -> Vec<&str> {
        let mut args = vec!["-p", &self.package];
        match &self.target {
            Target::Lib => args.push("--lib"),
            Target::Bins => args.push("--bins"),
            Target::Test(name) => args.extend(["--test", name]),
        }
        args
    }

    /// Whether its tests start the programs, which then must be built.
    pub fn starts_programs(&self) -> bool {
        let Target::Test(name) = &self.target else {
            return false;
        };
        self.package == "millstream-tests" && !IN_PROCESS.contains(&name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(path: &str) -> Option<String> {
        let has = |path: &str| path == "crates/exchange/src/lib.rs";
        let binary = Binary::at(Path::new(path), has)?;
        Some(binary.args().join(" "))
    }

    #[test]
    fn a_file_belongs_to_the_binary_cargo_builds_of_it() {
        for (path, expected) in [
            (
                "crates/exchange/src/align/tests.rs",
                "-p millstream-exchange --lib",
            ),
            ("tests/oracle/src/main.rs", "-p millstream-oracle --bins"),
            (
                "crates/expr/tests/expr/overflow.rs",
                "-p millstream-expr --test expr",
            ),
            (
                "crates/taskmanager/tests/processes.rs",
                "-p millstream-taskmanager --test processes",
            ),
            (
                "tests/tests/cluster/kills.rs",
                "-p millstream-tests --test cluster",
            ),
            ("tests/tests/model.rs", "-p millstream-tests --test model"),
        ] {
            assert_eq!(args(path).as_deref(), Some(expected));
        }
        let starts_programs =
            |path| Binary::at(Path::new(path), |_| true).map(|b| b.starts_programs());
        assert_eq!(starts_programs("tests/tests/cluster/kills.rs"), Some(true));
        assert_eq!(starts_programs("tests/tests/sim/run.rs"), Some(false));
        assert_eq!(starts_programs("crates/exchange/src/a.rs"), Some(false));
        assert_eq!(args("docs/a.rs"), None);
        assert_eq!(args("crates/exchange/benches/a.rs"), None);
    }
}
