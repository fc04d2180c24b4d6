//! The root manifest: every package of others is there for a stated reason.

use crate::report::Violation;

/// Checks the text of the root `Cargo.toml`.
pub fn check(manifest: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut in_dependencies = false;
    let mut comment_above = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            in_dependencies = line == "[workspace.dependencies]";
        } else if in_dependencies && !line.is_empty() && !line.starts_with('#') {
            let (name, rest) = line.split_once('=').unwrap_or((line, ""));
            let ours = name.trim().starts_with("millstream-");
            if !ours && !comment_above && !rest.contains('#') {
                let message = format!(
                    "{} has no reason: say in a comment on its line what it is for",
                    name.trim()
                );
                violations.push(Violation::at("Cargo.toml", index + 1, message));
            }
        }
        comment_above = line.starts_with('#');
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_a_reason_is_named() {
        let manifest = "\
[workspace.dependencies]
millstream-types = { path = \"crates/types\" }
tokio = \"1\" # the executor
# hashes
xxhash-rust = \"0.8\"
left-pad = \"1\"

[profile.ci]
opt-level = 1
";
        let violations = check(manifest);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, 6);
        assert!(violations[0].message.starts_with("left-pad has no reason"));
    }
}
