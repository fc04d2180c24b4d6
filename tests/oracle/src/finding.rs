//! What is wrong, with its full story: where, what was expected, what was found.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::listing::Origin;

/// How many findings keep their story, beside the first of each kind. All are counted.
const STORIES_MAX: usize = 20;
/// How much of a line a story quotes.
const QUOTED_CHARS_MAX: usize = 200;

/// Kinds of findings, each breaking an invariant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A row stands there twice.
    Duplicate,
    /// A later row of a key is visible, an earlier one is not.
    Gap,
    /// A writer's rows of a key do not ascend.
    Order,
    /// The running sum beside n is not the one that belongs to n.
    WrongSum,
    /// A key that the workload does not have.
    UnknownKey,
    /// An n that the workload does not have.
    NoSuchN,
    /// A line that is no row.
    Malformed,
    /// The last line of a file has no end: the file is not whole.
    TornLine,
    /// A file that was visible has other content now.
    FileChanged,
    /// A file that was visible is gone.
    FileVanished,
    /// A file or the directory cannot be read.
    Unreadable,
    /// The directory is not there, or did not stand still for as long as a listing takes.
    NoView,
    /// A key does not have all its rows although the job is done.
    Missing,
    /// There are more or fewer rows in all than the workload has.
    WrongTotal,
    /// There is no row at all: nothing was judged.
    Empty,
    /// The time was up before the job was done.
    NotDone,
}

impl Kind {
    /// The word in the verdict.
    pub fn name(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Gap => "gap",
            Self::Order => "order",
            Self::WrongSum => "wrong-sum",
            Self::UnknownKey => "unknown-key",
            Self::NoSuchN => "no-such-n",
            Self::Malformed => "malformed",
            Self::TornLine => "torn-line",
            Self::FileChanged => "file-changed",
            Self::FileVanished => "file-vanished",
            Self::Unreadable => "unreadable",
            Self::NoView => "no-view",
            Self::Missing => "missing",
            Self::WrongTotal => "wrong-total",
            Self::Empty => "empty",
            Self::NotDone => "not-done",
        }
    }

    /// What it breaks: I1 no committed duplicate, I2 no gap per key, I3 order per key, I4 the
    /// committed view only grows and is a prefix, I5 nothing visible beyond the last durable
    /// checkpoint, or the rule of the workload.
    pub fn breaks(self) -> &'static str {
        match self {
            Self::Duplicate => "I1",
            Self::Gap => "I2, I4",
            Self::Order => "I3",
            Self::Missing | Self::WrongTotal => "I2",
            Self::FileChanged | Self::FileVanished | Self::TornLine => "I4, I5",
            Self::WrongSum | Self::UnknownKey | Self::NoSuchN | Self::Malformed => "content",
            Self::Unreadable | Self::NoView | Self::Empty | Self::NotDone => "nothing to judge",
        }
    }
}

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// Name of the file within the directory.
    pub file: String,
    /// From 1.
    pub line: u64,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file, self.line)
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What kind.
    pub kind: Kind,
    /// The view in which it was seen, from 1.
    pub view: u64,
    /// The file.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<u64>,
    /// The key.
    pub key: Option<i128>,
    /// The row's number within its key.
    pub n: Option<i128>,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// The other place that it contradicts.
    pub other: Option<Location>,
    /// The line as it stands, shortened.
    pub text: Option<String>,
}

impl Finding {
    /// Without a place.
    pub fn new(kind: Kind, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            kind,
            view: 0,
            file: None,
            line: None,
            key: None,
            n: None,
            expected: expected.into(),
            found: found.into(),
            other: None,
            text: None,
        }
    }

    /// In a file.
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// At a line of a file.
    pub fn at(mut self, location: Location) -> Self {
        (self.file, self.line) = (Some(location.file), Some(location.line));
        self
    }

    /// Of a row.
    pub fn of_row(mut self, key: i128, n: i128) -> Self {
        (self.key, self.n) = (Some(key), Some(n));
        self
    }

    /// With the line itself.
    pub fn quoting(mut self, line: &[u8]) -> Self {
        let line = &line[..line.len().min(4 * QUOTED_CHARS_MAX)];
        let text = String::from_utf8_lossy(line);
        self.text = Some(text.chars().take(QUOTED_CHARS_MAX).collect());
        self
    }

    /// The story as one object.
    pub fn to_json(&self) -> Value {
        let mut story = Map::new();
        let mut tell = |name: &str, value: Option<Value>| {
            story.extend(value.map(|value| (name.to_owned(), value)));
        };
        tell("kind", Some(self.kind.name().into()));
        tell("breaks", Some(self.kind.breaks().into()));
        tell("view", Some(self.view.into()));
        tell("file", self.file.clone().map(Value::from));
        let origin = self
            .file
            .as_deref()
            .map(|file| Origin::of_name(file.as_ref()));
        if let Some((checkpoint, nonce, _)) = origin.and_then(|origin| origin.promise) {
            tell("checkpoint", Some(checkpoint.into()));
            tell("attempt_nonce", Some(nonce.into()));
        }
        tell("line", self.line.map(Value::from));
        tell("key", self.key.map(integer));
        tell("n", self.n.map(integer));
        tell("expected", Some(self.expected.clone().into()));
        tell("found", Some(self.found.clone().into()));
        let other = self.other.as_ref();
        tell(
            "other",
            other.map(|other| json!({"file": other.file, "line": other.line})),
        );
        tell("text", self.text.clone().map(Value::from));
        tell("story", Some(self.to_string().into()));
        Value::Object(story)
    }
}

/// A JSON number where it fits, else its digits as text.
fn integer(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in view {}", self.kind.name(), self.view)?;
        if let Some(file) = &self.file {
            write!(f, ", {file}")?;
        }
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(key) = self.key {
            write!(f, ", key {key}")?;
        }
        if let Some(n) = self.n {
            write!(f, ", n {n}")?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

/// All findings: counted by kind, the first ones kept.
#[derive(Default)]
pub struct Findings {
    counts: BTreeMap<Kind, u64>,
    kept: Vec<Finding>,
}

impl Findings {
    /// Counts a finding. Its story is made only where it will be kept.
    pub fn add(&mut self, kind: Kind, story: impl FnOnce() -> Finding) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count == 1 || self.kept.len() < STORIES_MAX {
            self.kept.push(story());
        }
    }

    /// How many of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The kinds found and how many of each.
    pub fn counts(&self) -> &BTreeMap<Kind, u64> {
        &self.counts
    }

    /// The kept ones in the order they were found.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }
}
