//! Where checkpoints and jobs are stored.

use std::fmt;
use std::path::{Path, PathBuf};

use super::ValueFault;
use super::read::refused;

/// A directory on a local or shared file system, or a prefix in an S3 bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageLocation {
    /// A directory; a relative one is resolved by whoever opens it.
    Local(PathBuf),
    /// A prefix in a bucket.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix, without slashes at its ends; may be empty.
        prefix: String,
    },
}

impl StorageLocation {
    /// Reads `/path`, `path`, `file:///path` or `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Why the text is no location.
    pub fn parse(text: &str) -> Result<Self, ValueFault> {
        if text.chars().any(char::is_control) {
            return Err(refused(text, "a control character is in the location"));
        }
        match text.split_once("://") {
            None if text.starts_with("file:/") => {
                Ok(Self::Local(PathBuf::from(&text["file:".len()..])))
            }
            None => Ok(Self::Local(PathBuf::from(text))),
            Some(("file", path)) if path.starts_with('/') => Ok(Self::Local(PathBuf::from(path))),
            Some(("file", _)) => Err(refused(text, "a file location is file:///path")),
            Some(("s3", rest)) => Self::parse_s3(text, rest),
            Some((_, _)) => Err(refused(
                text,
                "expected a path, file:///path or s3://bucket/prefix",
            )),
        }
    }

    fn parse_s3(text: &str, rest: &str) -> Result<Self, ValueFault> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let bucket_char =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(bucket_char) {
            return Err(refused(
                text,
                "a bucket has 3 to 63 of a-z, 0-9, '.' and '-'",
            ));
        }
        let prefix = prefix.trim_end_matches('/');
        let part_is_good = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !prefix.is_empty() && !prefix.split('/').all(part_is_good) {
            return Err(refused(text, "the prefix has an empty part, '.' or '..'"));
        }
        if prefix.contains(['?', '#', '%']) {
            return Err(refused(text, "the prefix has '?', '#' or '%'"));
        }
        Ok(Self::S3 {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The directory, if it is one.
    #[must_use]
    pub fn local_path(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::S3 { .. } => None,
        }
    }
}

impl fmt::Display for StorageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_buckets_are_told_apart() {
        let local = |path: &str| StorageLocation::Local(PathBuf::from(path));
        assert_eq!(StorageLocation::parse("/data/x"), Ok(local("/data/x")));
        assert_eq!(
            StorageLocation::parse("file:///data/x"),
            Ok(local("/data/x"))
        );
        assert_eq!(StorageLocation::parse("file:/data/x"), Ok(local("/data/x")));
        assert_eq!(StorageLocation::parse("data"), Ok(local("data")));
        let bucket = StorageLocation::parse("s3://bucket/a/b/").expect("s3");
        assert_eq!(bucket.to_string(), "s3://bucket/a/b");
        assert_eq!(bucket.local_path(), None);
    }

    #[test]
    fn what_is_no_location_is_refused() {
        for text in [
            "s3://x/y",
            "s3://Bucket/x",
            "s3://buc/../x",
            "s3://buc//x",
            "hdfs://h/x",
        ] {
            assert!(StorageLocation::parse(text).is_err(), "{text}");
        }
        assert!(StorageLocation::parse("file://host/x").is_err());
        assert!(StorageLocation::parse("s3://bucket/x?y=1").is_err());
    }
}
