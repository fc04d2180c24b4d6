//! Which files a path or pattern means.
//!
//! - A file is itself. A directory means every file below it, as `directory/**`.
//! - `*`, `?` and `[…]` stand within one name, `**` for any number of directories.
//! - Names that start with `.` or `_` or hold `.inprogress` are markers and unfinished work of other
//!   programs: a wildcard leaves them out, unless it starts with `.` or `_` (or holds `.inprogress`)
//!   itself. What is named without a wildcard is always read.
//! - Links to files are followed. Links to directories are followed where a name or `*` matches
//!   them, and not by `**`, which would never come to an end.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use millstream_env::fs::{Entry, FileKind, Fs};
use millstream_operator::{ErrorKind, OperatorError};

use crate::fault;

const IN_PROGRESS: &str = ".inprogress";
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The files, sorted.
///
/// # Errors
/// If there is none, the pattern is none, or a directory cannot be read.
pub(super) fn expand(fs: &dyn Fs, pattern: &str) -> Result<Vec<PathBuf>, OperatorError> {
    let mut walk = Walk {
        fs,
        found: BTreeSet::new(),
    };
    let literal = Path::new(pattern);
    match walk.kind(literal) {
        // A name that looks like a pattern, or just a name.
        Some(Found::File) => return Ok(vec![literal.to_owned()]),
        Some(Found::Directory) => walk.descend(literal, &[Part::AnyDepth, Part::any_name()])?,
        None => {
            let base = match pattern.starts_with('/') {
                true => Path::new("/"),
                false => Path::new(""),
            };
            walk.descend(base, &parse(pattern)?)?;
        }
    }
    if walk.found.is_empty() {
        let what = format!("no file matches {pattern:?}");
        return Err(OperatorError::new(ErrorKind::External, what).with_remedy(
            "check the path as the taskmanager's machine sees it; names that start with '.' or '_' \
             or hold \".inprogress\" must be named explicitly",
        ));
    }
    Ok(walk.found.into_iter().collect())
}

/// What stands between two slashes of a pattern.
enum Part {
    Name(String),
    Wild(Pattern),
    AnyDepth,
}

impl Part {
    fn any_name() -> Self {
        Self::Wild(Pattern::new("*").expect("a star is a pattern"))
    }
}

fn parse(pattern: &str) -> Result<Vec<Part>, OperatorError> {
    let mut parts = Vec::new();
    for text in pattern.split('/').filter(|text| !text.is_empty()) {
        if text == "**" {
            // Two in a row mean no more than one, and take exponentially longer.
            if !matches!(parts.last(), Some(Part::AnyDepth)) {
                parts.push(Part::AnyDepth);
            }
        } else if text.contains(WILDCARDS) {
            let wild = Pattern::new(text).map_err(|error| {
                let what = format!("{text:?} in {pattern:?} is no pattern: {}", error.msg);
                OperatorError::new(ErrorKind::External, what)
                    .with_remedy("write [*], [?] or [[] for the characters themselves")
            })?;
            parts.push(Part::Wild(wild));
        } else {
            parts.push(Part::Name(text.to_owned()));
        }
    }
    if matches!(parts.last(), Some(Part::AnyDepth)) {
        parts.push(Part::any_name());
    }
    Ok(parts)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    File,
    Directory,
}

struct Walk<'a> {
    fs: &'a dyn Fs,
    found: BTreeSet<PathBuf>,
}

impl Walk<'_> {
    fn descend(&mut self, directory: &Path, parts: &[Part]) -> Result<(), OperatorError> {
        match parts {
            [] => {}
            [Part::Name(name), rest @ ..] => {
                let path = directory.join(name);
                if let Some(found) = self.kind(&path) {
                    self.visit(path, found, rest)?;
                }
            }
            [Part::Wild(pattern), rest @ ..] => {
                for entry in self.list(directory)? {
                    if !matches(pattern, &entry.name) {
                        continue;
                    }
                    let path = directory.join(&entry.name);
                    if let Some(found) = self.kind_of_entry(&path, entry.kind) {
                        self.visit(path, found, rest)?;
                    }
                }
            }
            [Part::AnyDepth, rest @ ..] => {
                self.descend(directory, rest)?;
                let any = Pattern::new("*").expect("a star is a pattern");
                for entry in self.list(directory)? {
                    if entry.kind == FileKind::Directory && matches(&any, &entry.name) {
                        self.descend(&directory.join(&entry.name), parts)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: PathBuf, found: Found, rest: &[Part]) -> Result<(), OperatorError> {
        match (found, rest) {
            (Found::File, []) => {
                self.found.insert(path);
                Ok(())
            }
            (Found::Directory, [_, ..]) => self.descend(&path, rest),
            (Found::File, [_, ..]) | (Found::Directory, []) => Ok(()),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<Entry>, OperatorError> {
        let named = match directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => directory,
        };
        match self.fs.list(named) {
            Ok(entries) => Ok(entries),
            // Gone since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(fault::of_file_system(error)),
        }
    }

    /// What is at a path; none if nothing is, or nothing that can be looked at.
    fn kind(&self, path: &Path) -> Option<Found> {
        let metadata = self.fs.metadata(path).ok()?;
        match metadata.kind {
            // Named explicitly: opening it tells what is wrong with it.
            FileKind::Other => Some(Found::File),
            kind @ (FileKind::File | FileKind::Directory | FileKind::Symlink) => {
                self.kind_of_entry(path, kind)
            }
        }
    }

    fn kind_of_entry(&self, path: &Path, kind: FileKind) -> Option<Found> {
        match kind {
            FileKind::File => Some(Found::File),
            FileKind::Directory => Some(Found::Directory),
            // A link to nothing counts as a file, so that reading it says which it is.
            FileKind::Symlink => match self.fs.list(path) {
                Ok(_) => Some(Found::Directory),
                Err(_) => Some(Found::File),
            },
            FileKind::Other => None,
        }
    }
}

fn matches(pattern: &Pattern, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let text = pattern.as_str();
    let is_left_out = |mark: char| name.starts_with(mark) && !text.starts_with(mark);
    let in_progress = name.contains(IN_PROGRESS) && !text.contains(IN_PROGRESS);
    if is_left_out('.') || is_left_out('_') || in_progress {
        return false;
    }
    pattern.matches_with(name, MatchOptions::new())
}

#[cfg(test)]
mod tests;
