//! Where a value comes from.

use std::fmt;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The daemon's file.
    File(Place),
    /// The configuration of the cluster, seen from a job.
    Cluster,
    /// The job; the place is known where its file was read.
    Job(Option<Place>),
    /// The environment variable of this name.
    Variable(String),
    /// A flag `-D`.
    Flag,
}

impl Origin {
    /// The kind of origin in one word, as REST shows it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Cluster => "cluster",
            Self::Job(_) => "job",
            Self::Variable(_) => "environment",
            Self::Flag => "flag",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => place.fmt(f),
            Self::Job(Some(place)) => write!(f, "job, {place}"),
            Self::Variable(name) => write!(f, "environment, {name}"),
            Self::Default | Self::Cluster | Self::Job(None) | Self::Flag => {
                f.write_str(self.word())
            }
        }
    }
}
