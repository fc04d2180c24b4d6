//! Names of stored objects and handles to them.

use std::fmt;
use std::sync::Arc;

/// xxh3-128 of an object's bytes; compared whenever the object is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checksum(pub u128);

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that cannot name an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is not an object name: expected segments of letters, digits, '-', '_' or '.', \
     joined by '/', none of them empty, '.' or '..', 512 bytes at most"
)]
pub struct ObjectNameError {
    /// The text as given, cut at 80 characters.
    pub found: String,
}

/// A name relative to the checkpoint directory of one job, such as `chk-7/3-9f/_metadata`. It
/// cannot leave that directory, whoever wrote it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(Arc<str>);

impl ObjectName {
    /// Folder of the objects that several checkpoints may refer to.
    pub const SHARED_FOLDER: &str = "shared";

    /// Whether several checkpoints may refer to the object: those are deleted by counting only, never
    /// because one checkpoint was given up (DESIGN 7).
    pub fn is_shared(&self) -> bool {
        let folder = self.0.split_once('/').map(|(folder, _)| folder);
        folder == Some(Self::SHARED_FOLDER)
    }

    /// Checks that the name stays below the directory it is relative to.
    pub fn new(name: &str) -> Result<Self, ObjectNameError> {
        let segment_ok = |segment: &str| {
            !segment.is_empty()
                && segment != "."
                && segment != ".."
                && segment
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        if name.len() > 512 || !name.split('/').all(segment_ok) {
            return Err(ObjectNameError {
                found: name.chars().take(80).collect(),
            });
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A stored piece of state: inline where it is small, an object otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateHandle {
    /// The bytes themselves, kept in the acknowledgement and in `_metadata`.
    Inline(Arc<[u8]>),
    /// An object in the job's checkpoint directory.
    Object {
        /// Where it lies.
        name: ObjectName,
        /// Its length in bytes.
        size: u64,
        /// Its checksum, verified at every read.
        checksum: Checksum,
    },
}

impl StateHandle {
    /// Length of the state in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Object { size, .. } => *size,
        }
    }

    /// The object's name; none for inline state.
    pub fn object(&self) -> Option<&ObjectName> {
        match self {
            Self::Inline(_) => None,
            Self::Object { name, .. } => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_directory() {
        for bad in [
            "", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a\\b", "a%2fb", "a\0",
        ] {
            assert!(ObjectName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ObjectName::new("chk-12/3-00ff/_metadata").is_ok());
    }
}
