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
