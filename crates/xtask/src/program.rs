//! Programs that are asked for an answer, and what they answer.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::report::Failure;

/// Runs a program to its end; what it prints is not shown unless it fails.
pub fn run(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::io(format!("run {shown}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(Failure::Unexpected(format!(
            "{shown} failed: {}\n{}\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        ))),
    }
}

/// The day, as pages show it.
pub fn today() -> Result<String, Failure> {
    run(Command::new("date").arg("+%Y-%m-%d"))
}

/// Seconds since 1970.
pub fn seconds_now() -> Result<u64, Failure> {
    let said = run(Command::new("date").arg("+%s"))?;
    said.parse()
        .map_err(|_| Failure::Unexpected(format!("date +%s says {said}")))
}

/// The commit that is checked out, short, and whether the sources differ from it.
pub fn commit(root: &Path) -> Result<String, Failure> {
    let git = |args: &[&str]| run(Command::new("git").args(args).current_dir(root));
    let changed = match git(&["status", "--porcelain", "crates"])?.is_empty() {
        true => "",
        false => ", changed",
    };
    Ok(format!(
        "{}{changed}",
        git(&["rev-parse", "--short", "HEAD"])?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_shown_with_what_it_said() {
        let error =
            run(Command::new("sh").args(["-c", "echo half; echo why >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("half") && text.contains("why") && text.contains('3'),
            "{text}"
        );
        assert_eq!(run(Command::new("echo").arg("a")).unwrap(), "a");
    }
}
