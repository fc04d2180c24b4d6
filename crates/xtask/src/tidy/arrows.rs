//! Which crate may depend on which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::report::{Failure, Violation};
use crate::tree::cargo_metadata;

const RULES: &str = include_str!("arrows.txt");
const RULES_PATH: &str = "crates/xtask/src/tidy/arrows.txt";
/// Crates that may name `serde_yaml`, so that its successor is a one-line change.
const YAML_CRATES: [&str; 3] = ["config", "jobspec", "tests"];

/// The rules of `arrows.txt`.
#[derive(Default, Debug)]
struct Rules {
    pure: BTreeSet<String>,
    pure_others: BTreeSet<String>,
    arrows: BTreeMap<String, BTreeSet<String>>,
    test_arrows: BTreeMap<String, BTreeSet<String>>,
}

/// A crate of the workspace and what it names.
#[derive(Debug)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    Test,
    Build,
}

/// Checks the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<Violation>, Failure> {
    let metadata = cargo_metadata(root)?;
    let rules = Rules::parse(RULES)?;
    Ok(packages(&metadata)?
        .iter()
        .flat_map(|package| rules.check(package))
        .collect())
}

/// The crates that reach no clock, socket, file or serialiser.
pub fn pure_crates() -> Result<Vec<String>, Failure> {
    Ok(Rules::parse(RULES)?.pure.into_iter().collect())
}

fn packages(metadata: &Value) -> Result<Vec<Package>, Failure> {
    let unexpected = || Failure::Unexpected("cargo metadata has no packages".to_owned());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().ok_or_else(unexpected)?;
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        dependencies: package["dependencies"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                kind: match dependency["kind"].as_str() {
                    Some("dev") => Kind::Test,
                    Some("build") => Kind::Build,
                    _ => Kind::Normal,
                },
            })
            .collect(),
    };
    Ok(packages.iter().map(package).collect())
}

impl Rules {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut rules = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            match (line.split_once(':'), line.split_once(" + ")) {
                (Some(("pure", crates)), _) => rules.pure = words(crates),
                (Some(("pure-others", packages)), _) => rules.pure_others = words(packages),
                (Some((name, crates)), _) => {
                    rules.arrows.insert(name.to_owned(), words(crates));
                }
                (None, Some((name, crates))) => {
                    rules.test_arrows.insert(name.to_owned(), words(crates));
                }
                (None, None) => {
                    return Err(Failure::Unexpected(format!(
                        "{RULES_PATH}: no rule: {line:?}"
                    )));
                }
            }
        }
        rules.order()?;
        Ok(rules)
    }

    /// The crates so that each stands behind what it depends on; there is such an order only if the
    /// arrows point one way.
    fn order(&self) -> Result<Vec<&str>, Failure> {
        let mut ordered: Vec<&str> = Vec::new();
        while ordered.len() < self.arrows.len() {
            let ready = self.arrows.iter().find(|(name, crates)| {
                !ordered.contains(&name.as_str())
                    && crates.iter().all(|name| ordered.contains(&name.as_str()))
            });
            let Some((name, _)) = ready else {
                let message = format!("{RULES_PATH}: arrows form a circle, or name no known crate");
                return Err(Failure::Unexpected(message));
            };
            ordered.push(name);
        }
        Ok(ordered)
    }

    fn check(&self, package: &Package) -> Vec<Violation> {
        let name = short(&package.name).unwrap_or(&package.name);
        let manifest = match name {
            "tests" => "tests/Cargo.toml".to_owned(),
            "oracle" | "fuzz" => format!("tests/{name}/Cargo.toml"),
            name => format!("crates/{name}/Cargo.toml"),
        };
        let Some(allowed) = self.arrows.get(name) else {
            let message = format!("crate {name:?} has no line in {RULES_PATH}: add it there");
            return vec![Violation::of(manifest, message)];
        };
        let complaints = package.dependencies.iter().filter_map(|dependency| {
            let named = short(&dependency.name);
            match (named, dependency.kind) {
                (Some(named), kind) => self.check_ours(name, allowed, named, kind),
                (None, Kind::Normal) => self.check_others(name, &dependency.name),
                (None, Kind::Test | Kind::Build) => None,
            }
        });
        complaints
            .map(|message| Violation::of(&manifest, message))
            .collect()
    }

    fn check_ours(
        &self,
        name: &str,
        allowed: &BTreeSet<String>,
        named: &str,
        kind: Kind,
    ) -> Option<String> {
        let in_tests = || {
            self.test_arrows
                .get(name)
                .is_some_and(|crates| crates.contains(named))
        };
        let fine = allowed.contains(named) || (kind == Kind::Test && in_tests());
        (!fine).then(|| {
            format!(
                "{name} may not depend on {named}: dependencies point one way (DESIGN 10). Move the \
                 code to the side that may, or add the arrow to {RULES_PATH} with a reason"
            )
        })
    }

    fn check_others(&self, name: &str, package: &str) -> Option<String> {
        if package == "serde_yaml" && !YAML_CRATES.contains(&name) {
            return Some(format!(
                "{name} may not name serde_yaml: only {YAML_CRATES:?} may"
            ));
        }
        let outside = self.pure.contains(name) && !self.pure_others.contains(package);
        outside.then(|| {
            format!(
                "{name} is pure and may not name {package}: decisions reach no clock, socket, file \
                 or serialiser (DESIGN 8). Pure crates may name those in {RULES_PATH}"
            )
        })
    }
}

/// The folder's name, if the package is ours.
fn short(package: &str) -> Option<&str> {
    package.strip_prefix("millstream-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
# comment
pure: types graph
pure-others: thiserror
types:
graph: types
env: types
runtime: types graph env
testkit: types env
runtime + testkit
";

    fn check(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        let dependency = |(name, kind): &(&str, Kind)| Dependency {
            name: (*name).to_owned(),
            kind: *kind,
        };
        let package = Package {
            name: format!("millstream-{name}"),
            dependencies: dependencies.iter().map(dependency).collect(),
        };
        let rules = Rules::parse(EXAMPLE).unwrap();
        rules
            .check(&package)
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn an_arrow_that_is_listed_is_fine_and_its_reverse_is_not() {
        assert!(check("runtime", &[("millstream-graph", Kind::Normal)]).is_empty());
        let complaints = check("graph", &[("millstream-runtime", Kind::Normal)]);
        assert!(
            complaints[0].starts_with("graph may not depend on runtime"),
            "{complaints:?}"
        );
    }

    #[test]
    fn a_test_arrow_is_for_tests_only() {
        assert!(check("runtime", &[("millstream-testkit", Kind::Test)]).is_empty());
        assert_eq!(
            check("runtime", &[("millstream-testkit", Kind::Normal)]).len(),
            1
        );
        assert_eq!(
            check("graph", &[("millstream-testkit", Kind::Test)]).len(),
            1
        );
    }

    #[test]
    fn a_pure_crate_names_listed_packages_only() {
        assert!(
            check(
                "graph",
                &[("thiserror", Kind::Normal), ("proptest", Kind::Test)]
            )
            .is_empty()
        );
        let complaints = check("graph", &[("tokio", Kind::Normal)]);
        assert!(
            complaints[0].contains("pure and may not name tokio"),
            "{complaints:?}"
        );
        assert!(check("env", &[("tokio", Kind::Normal)]).is_empty());
    }

    #[test]
    fn yaml_stays_where_it_is() {
        assert_eq!(check("runtime", &[("serde_yaml", Kind::Normal)]).len(), 1);
    }

    #[test]
    fn a_crate_without_rules_is_told_where_to_add_them() {
        let complaints = check("new", &[]);
        assert!(complaints[0].contains(RULES_PATH), "{complaints:?}");
    }

    #[test]
    fn arrows_in_a_circle_are_refused() {
        let circle = Rules::parse("a: b\nb: a\n").unwrap_err();
        assert!(circle.to_string().contains("circle"), "{circle}");
        assert!(Rules::parse("a: unknown\n").is_err());
    }

    #[test]
    fn the_rules_of_this_repository_point_one_way_and_pure_crates_name_pure_ones() {
        let rules = Rules::parse(RULES).unwrap();
        for name in &rules.pure {
            assert!(rules.arrows[name].is_subset(&rules.pure), "{name}");
        }
    }
}
