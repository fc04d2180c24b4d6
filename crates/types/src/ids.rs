//! Ids of jobs, vertices, subtasks, attempts, checkpoints and taskmanagers.

use std::fmt;
use std::str::FromStr;

/// A text that is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {what}: expected {expected}")]
pub struct IdParseError {
    /// What was read: "job id", …
    pub what: &'static str,
    /// The text as given.
    pub found: String,
    /// The form that would have been accepted.
    pub expected: &'static str,
}

/// A job, for ever: 128 random bits, written as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId([u8; 16]);

impl JobId {
    /// The id made of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, most significant first.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl FromStr for JobId {
    type Err = IdParseError;

    fn from_str(text: &str) -> Result<Self, IdParseError> {
        let error = || IdParseError {
            what: "job id",
            found: text.chars().take(80).collect(),
            expected: "32 hexadecimal digits",
        };
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error());
        }
        let value = u128::from_str_radix(text, 16).map_err(|_| error())?;
        Ok(Self(value.to_be_bytes()))
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number_id!(
    /// A checkpoint or savepoint of one job. Starts at 1 and is never used twice, whatever fails.
    CheckpointId(u64), "chk-"
);
number_id!(
    /// A job-wide lineage of execution, allocated only by a CLAIM entry of the claim chain. Every
    /// start, restart and takeover has its own; what carries an older one is fenced.
    Epoch(u64), "epoch-"
);
number_id!(
    /// How often one subtask was started before: `#0` is its first execution. For people and
    /// names; fencing uses the [`Epoch`].
    Attempt(u32), "#"
);
number_id!(
    /// A job vertex (operator chain) within one job, by its position in the plan.
    VertexId(u32), "v"
);
number_id!(
    /// A slot of one taskmanager, from 0.
    SlotIndex(u32), "slot-"
);
number_id!(
    /// One life of a daemon process: a random number drawn at its start.
    Incarnation(u64), "inc-"
);

impl Epoch {
    /// The epoch after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl CheckpointId {
    /// The id after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One parallel instance of a job vertex: vertex and index from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubtaskId {
    /// The vertex.
    pub vertex: VertexId,
    /// Position among the vertex's subtasks, from 0.
    pub index: u32,
}

impl SubtaskId {
    /// Subtask `index` (from 0) of `vertex`.
    pub const fn new(vertex: VertexId, index: u32) -> Self {
        Self { vertex, index }
    }
}

impl fmt::Debug for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.vertex, self.index)
    }
}

/// For people, where the vertex's name is not known: `v2/0`.
impl fmt::Display for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}/{}", self.vertex, self.index)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $expected:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks the text; see the type for what is accepted.
            pub fn new(text: &str) -> Result<Self, IdParseError> {
                let allowed: fn(char) -> bool = $allowed;
                if text.is_empty() || text.len() > $max || !text.chars().all(allowed) {
                    return Err(IdParseError {
                        what: $what,
                        found: text.chars().take(80).collect(),
                        expected: $expected,
                    });
                }
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdParseError;

            fn from_str(text: &str) -> Result<Self, IdParseError> {
                Self::new(text)
            }
        }
    };
}

text_id!(
    /// The stable identity of an operator's state, chosen by the job's author (`uid:`).
    OperatorUid, "operator uid", 255,
    "1 to 255 letters, digits, '-', '_' or '.'",
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
);
text_id!(
    /// A taskmanager, stable over restarts of its process where `taskmanager.resource-id` is set.
    TaskmanagerId, "taskmanager id", 128,
    "1 to 128 letters, digits, '-', '_', '.' or ':'",
    |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_is_read_back_from_what_it_prints() {
        let id = JobId::from_bytes(*b"0123456789abcdef");
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
    }

    #[test]
    fn a_job_id_of_another_form_is_refused_with_the_form_expected() {
        for text in [
            "",
            "12",
            "+0000000000000000000000000000001",
            "zz",
            &"0".repeat(33),
        ] {
            let error = text.parse::<JobId>().unwrap_err();
            assert!(
                error.to_string().contains("32 hexadecimal digits"),
                "{error}"
            );
        }
    }

    #[test]
    fn uids_admit_what_can_stand_in_an_object_name_and_nothing_else() {
        assert!(OperatorUid::new("word-count.v2_a").is_ok());
        for bad in ["", "a/b", "a b", "ü", "..\0"] {
            assert!(OperatorUid::new(bad).is_err(), "{bad:?}");
        }
    }
}
