//! The reference of all keys, generated from the table.

use std::fmt::Write;

use super::{Key, SECTIONS, Scope, Status};

/// The page that documents every key, as Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Configuration reference\n\n\
         Generated from the table of keys; do not edit by hand.\n\n\
         Precedence: flag `-D key=value`, then environment `MILLSTREAM_…` (dots and dashes are \
         underscores: `checkpointing.min-pause` is `MILLSTREAM_CHECKPOINTING_MIN_PAUSE`), then the \
         job file (for a job), then the daemon's file, then the default. `checkpointing.X` is the short form of \
         `execution.checkpointing.X`. Durations and sizes have a unit; sizes are binary. An unknown \
         key is an error.\n",
    );
    for (title, keys) in SECTIONS {
        let _ = write!(page, "\n## {title}\n");
        for key in keys.iter().filter(|key| key.status == Status::Built) {
            built(&mut page, key);
        }
    }
    page.push_str("\n## Accepted without effect\n\nEach gives a warning.\n\n");
    for key in super::keys() {
        if let Status::NoEffect(why) = key.status {
            let _ = writeln!(page, "- `{}`: {why}", key.name);
        }
    }
    page.push_str("\n## Known, not built yet\n\nEach is refused.\n\n");
    for key in super::keys() {
        if let Status::NotBuilt(what) = key.status {
            let _ = writeln!(page, "- `{}`: {what}", key.name);
        }
    }
    page
}

fn built(page: &mut String, key: &Key) {
    let _ = write!(
        page,
        "\n### `{}`\n\n{} {}\n\n",
        key.name, key.meaning, key.effect
    );
    let _ = writeln!(page, "- Type: {}", key.kind.describe());
    match key.default {
        Some(default) => {
            let _ = writeln!(page, "- Default: `{}`", shown_default(key, default));
        }
        None => page.push_str("- Default: unset\n"),
    }
    let scope = match key.scope {
        Scope::Cluster => "daemon",
        Scope::Job => "job (in a daemon's file: default of its jobs)",
    };
    let _ = writeln!(page, "- Set in: {scope}");
    if let Some(only) = key.only {
        let _ = writeln!(
            page,
            "- Built: only `{}`; not yet: {}",
            only.value, only.what
        );
    }
    if !key.also.is_empty() || !key.old.is_empty() {
        let names: Vec<String> = key
            .also
            .iter()
            .chain(key.old)
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(page, "- Other names: {}", names.join(", "));
    }
}

/// The default as the product prints it: `10 min` is `10m`.
fn shown_default(key: &Key, default: &str) -> String {
    key.kind
        .read_text(default)
        .map_or_else(|_| default.to_owned(), |value| value.to_string())
}
