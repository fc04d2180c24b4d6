//! What an error asks of whoever handles it.

use std::fmt;

/// What the scheduler does about an error that reached it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Disposition {
    /// The operation may be tried again as it is.
    Retry,
    /// The task fails; the restart strategy decides.
    FailTask,
    /// The job fails for good: trying again cannot help.
    FailJob,
    /// The process must end: it can no longer vouch for what it does.
    Fatal,
}

/// What is known of a write to a store that was not confirmed. The two are never merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WriteOutcome {
    /// Nothing was written and nothing will be.
    DidNotHappen,
    /// It may have been written, or may still be: only reading back can tell.
    MayHaveHappened,
}

impl fmt::Display for WriteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DidNotHappen => "the write did not happen",
            Self::MayHaveHappened => "the write may have happened",
        })
    }
}
