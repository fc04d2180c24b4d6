//! Programs that the benchmarks start.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::program::run;
use crate::report::Failure;

/// Asks a REST server of this machine; null while it does not answer.
pub fn rest(port: u16, path: &str) -> Value {
    let mut command = Command::new("curl");
    command
        .args(["-s", "-m", "5"])
        .arg(format!("http://127.0.0.1:{port}{path}"));
    let answer = run(&mut command).unwrap_or_default();
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

/// The Python of an environment with this package, made now if it is not there.
pub fn python_with(dir: &Path, environment: &str, package: &str) -> Result<PathBuf, Failure> {
    let venv = dir.join(environment);
    let python = venv.join("bin/python");
    let complete = venv.join("installed");
    if std::fs::read_to_string(&complete).is_ok_and(|installed| installed == package) {
        return Ok(python);
    }
    println!("installing {package} into {}", venv.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        package,
    ]))?;
    std::fs::write(&complete, package)
        .map_err(Failure::io(format!("write {}", complete.display())))?;
    Ok(python)
}

/// The last line of what a script printed, as JSON.
pub fn last_line(printed: &str) -> Result<Value, Failure> {
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line)
        .map_err(|error| Failure::Unexpected(format!("no JSON, {error}: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_counts() {
        assert_eq!(last_line("noise\n{\"a\": 1}").unwrap()["a"], 1);
        assert!(last_line("noise").is_err());
    }
}
