//! What compilers and lints do not check.

mod arrows;
mod citations;
mod files;
mod hooks;
mod manifest;

use std::path::Path;

use crate::cases;
use crate::conformance;
use crate::report::{Failure, Violation};
use crate::tree::Tree;

pub use arrows::pure_crates;

/// Runs every check and reports all complaints at once.
pub fn run(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let mut violations: Vec<Violation> = Vec::new();
    violations.extend(arrows::check(root)?);
    violations.extend(manifest::check(tree.text("Cargo.toml")?));
    violations.extend(files::check(&tree));
    violations.extend(hooks::check(&tree)?);
    violations.extend(citations::check(&tree)?);
    violations.extend(conformance::check(&tree)?);
    violations.extend(cases::check(&tree)?);
    violations.sort();
    if violations.is_empty() {
        println!(
            "tidy: {} Rust files, {} other texts",
            tree.rust.len(),
            tree.texts.len()
        );
        Ok(())
    } else {
        Err(Failure::Untidy(violations))
    }
}
