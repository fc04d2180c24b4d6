//! What a consumer sees: the files directly in the directory whose names start with no dot.
//!
//! A listing is no snapshot: while a directory is read, a name added late may be in it and one added
//! before be missing. So a view is a listing that was read twice with the same names. Whatever was
//! committed before a file of the first listing was there when the second began, hence is in it,
//! hence in the view: a view holds with each file all that was committed before it.
//!
//! That is what makes the prefix rule hold in each view although a checkpoint's files appear one by
//! one: the commits of a subtask are made one at a time, in the order of checkpoints, and all rows
//! of a key are written by the subtask that owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A commit takes far longer than a listing; so many in a row mean that names come and go.
const ATTEMPTS_MAX: usize = 50;

/// What tells without reading that a file was not touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Length of the file.
    pub bytes: u64,
    inode: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A name in the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A file.
    File(Stamp),
    /// What no consumer can read; says why.
    Unreadable(String),
}

/// A consistent view of the directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// The names and what they are.
    pub entries: BTreeMap<OsString, Entry>,
    /// Names seen on the way that were gone in the end.
    pub vanished: BTreeSet<OsString>,
    /// Whether the directory stood still; otherwise nothing can be concluded from what is missing.
    pub is_settled: bool,
}

/// Lists until two listings agree. `between` is called between two listings; tests disturb there.
pub fn list(dir: &Path, mut between: impl FnMut()) -> io::Result<Listing> {
    let mut listing = Listing {
        entries: read(dir)?,
        ..Listing::default()
    };
    for _ in 1..ATTEMPTS_MAX {
        between();
        let again = read(dir)?;
        listing.is_settled = again.keys().eq(listing.entries.keys());
        let before = std::mem::replace(&mut listing.entries, again);
        listing.vanished.extend(before.into_keys());
        if listing.is_settled {
            break;
        }
    }
    let entries = &listing.entries;
    listing.vanished.retain(|name| !entries.contains_key(name));
    Ok(listing)
}

fn read(dir: &Path) -> io::Result<BTreeMap<OsString, Entry>> {
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Follows links, as opening the file would.
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_file() => {
                entries.insert(name, Entry::File(Stamp::of(&metadata)));
            }
            Ok(_) => {
                let reason = "neither a file nor a directory".to_owned();
                entries.insert(name, Entry::Unreadable(reason));
            }
            Err(error) => {
                entries.insert(name, Entry::Unreadable(error.to_string()));
            }
        }
    }
    Ok(entries)
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            inode: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Where a file comes from, and the order of a writer's files. The sink names its files
/// `part-<uid>-<subtask>-<checkpoint>-<nonce>-<sequence>.<ending>`; a writer is a sink's subtask,
/// through all its attempts. A file of another name is a writer of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// The sink's subtask.
    pub writer: OsString,
    /// The checkpoint that promised the file, the attempt's nonce, and the file's number in it.
    pub promise: Option<(u64, String, u64)>,
}

impl Origin {
    /// What a name says.
    pub fn of_name(name: &OsStr) -> Self {
        let text = name.to_str();
        text.and_then(Self::of_part).unwrap_or_else(|| Self {
            writer: name.to_owned(),
            promise: None,
        })
    }

    fn of_part(name: &str) -> Option<Self> {
        let (stem, _ending) = name.rsplit_once('.')?;
        // From the right: a uid may hold dashes itself.
        let mut parts = stem.rsplitn(4, '-');
        let sequence = parts.next()?.parse().ok()?;
        let nonce = parts.next()?.to_owned();
        let checkpoint = parts.next()?.parse().ok()?;
        Some(Self {
            writer: parts.next()?.into(),
            promise: Some((checkpoint, nonce, sequence)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listing: &Listing) -> Vec<&str> {
        let names = listing.entries.keys();
        names.map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn a_consumer_sees_files_without_a_dot_in_front() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".staging/x")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join(".hidden"), "").unwrap();
        fs::write(dir.path().join("part"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("broken")).unwrap();
        let listing = list(dir.path(), || {}).unwrap();
        assert_eq!(names(&listing), ["broken", "part"]);
        let broken = &listing.entries[&OsString::from("broken")];
        assert!(matches!(broken, Entry::Unreadable(_)), "{broken:?}");
    }

    #[test]
    fn a_view_is_a_listing_that_was_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let mut n_listed = 0;
        let listing = list(dir.path(), || {
            n_listed += 1;
            if n_listed < 3 {
                fs::write(dir.path().join(format!("part-{n_listed}")), "").unwrap();
            }
        });
        let listing = listing.unwrap();
        assert_eq!(names(&listing), ["part-1", "part-2"]);
        assert_eq!((listing.is_settled, n_listed), (true, 3));
    }

    #[test]
    fn names_that_go_are_remembered_and_restlessness_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0"), "").unwrap();
        let mut n = 0;
        let listing = list(dir.path(), || {
            fs::remove_file(dir.path().join(n.to_string())).unwrap();
            n += 1;
            fs::write(dir.path().join(n.to_string()), "").unwrap();
        });
        let listing = listing.unwrap();
        assert!(!listing.is_settled);
        assert_eq!(listing.vanished.len(), n);
    }

    #[test]
    fn a_name_says_which_subtask_and_checkpoint_a_file_is_of() {
        let origin = |name: &str| Origin::of_name(name.as_ref());
        let first = origin("part-my-sink-00003-0000000009-00000000000000ff-999999.jsonl");
        assert_eq!(first.writer, "part-my-sink-00003");
        assert_eq!(
            first.promise,
            Some((9, "00000000000000ff".to_owned(), 999_999))
        );
        let second = origin("part-my-sink-00003-0000000009-00000000000000ff-1000000.jsonl");
        let third = origin("part-my-sink-00003-0000000010-0000000000000001-000000.jsonl");
        assert!(first < second && second < third);
        for other in ["other", "part-1.json", "part-a-b-c-d.json", ""] {
            assert_eq!(origin(other).writer, other);
            assert_eq!(origin(other).promise, None);
        }
    }
}
