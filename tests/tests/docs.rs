//! References in docs/ are what the code says. `MILLSTREAM_WRITE_DOCS=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

fn check(path: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join(path);
    if std::env::var_os("MILLSTREAM_WRITE_DOCS").is_some() {
        std::fs::write(&file, generated).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == generated,
        "{path} is out of date: MILLSTREAM_WRITE_DOCS=1 cargo nextest run --cargo-profile ci \
         -p millstream-tests --test docs"
    );
}

#[test]
fn the_list_of_errors_is_the_catalogue() {
    check(
        "docs/errors.md",
        &millstream_types::errors::errors_markdown(),
    );
}

/// Sources of the crates that errors come from.
fn sources(dir: &Path, found: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => sources(&path, found),
            path if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push_str(&std::fs::read_to_string(path).unwrap());
            }
            _ => {}
        }
    }
}

/// A code that nobody says is one that users look for in vain.
#[test]
fn every_code_of_the_catalogue_is_said_by_some_error() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("crates");
    let mut text = String::new();
    for entry in std::fs::read_dir(crates).unwrap().flatten() {
        if entry.file_name() != "types" {
            sources(&entry.path().join("src"), &mut text);
        }
    }
    for entry in millstream_types::errors::CATALOGUE {
        let name = format!("errors::{}", entry.name);
        let is_said = text.match_indices(&name).any(|(at, _)| {
            let next = text[at + name.len()..].chars().next();
            next.is_some_and(|c| !c.is_alphanumeric() && c != '_')
        });
        assert!(is_said, "{} ({name}) is said by no error", entry.code);
    }
}

#[test]
fn the_reference_of_job_files_is_what_the_reader_knows() {
    check(
        "docs/reference/job-file.md",
        &millstream_jobspec::reference_markdown(),
    );
}

#[test]
fn the_reference_of_the_configuration_is_what_the_registry_knows() {
    check(
        "docs/reference/configuration.md",
        &millstream_config::reference_markdown(),
    );
}
