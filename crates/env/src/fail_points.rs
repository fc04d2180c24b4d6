//! Places where a test ends, stops or breaks this process, so that a kill hits a chosen moment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Exit;

/// The places that code offers. Each lies between two effects whose order matters.
pub const FAIL_POINTS: [&str; 8] = [
    ALIGNMENT,
    SNAPSHOT,
    UPLOAD,
    METADATA_STORED,
    CHAIN_ENTRY_STORED,
    COMMIT,
    RESTORE,
    DEPLOY,
];
/// A subtask has the barrier of some of its channels, not of all.
pub const ALIGNMENT: &str = "alignment";
/// A subtask froze its state and has not begun to upload it.
pub const SNAPSHOT: &str = "snapshot";
/// A part of a snapshot is uploaded, not all of it.
pub const UPLOAD: &str = "upload";
/// `_metadata` is stored and the COMPLETED entry is not.
pub const METADATA_STORED: &str = "metadata-stored";
/// The COMPLETED entry is durable and nobody was told.
pub const CHAIN_ENTRY_STORED: &str = "chain-entry-stored";
/// A sink committed a part of what was promised.
pub const COMMIT: &str = "commit";
/// A part of the state is restored.
pub const RESTORE: &str = "restore";
/// The CLAIM is durable and no task is deployed.
pub const DEPLOY: &str = "deploy";

/// The armed fail points of a process; none, usually. In builds without debug assertions nothing can
/// be armed and [`FailPoints::hit`] is empty. Cloning shares the counts.
#[derive(Clone, Default)]
pub struct FailPoints {
    armed: Option<Arc<Armed>>,
}

struct Armed {
    exit: Exit,
    plans: Mutex<BTreeMap<String, Plan>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    act: Act,
    /// Hits until it acts; 0 once it has.
    left: u64,
}

/// What happens at a fail point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Kill,
    Stop,
    Panic,
}

/// A specification that arms nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FailPointError {
    /// Not of the form.
    #[error("fail point {found:?} is not name:kill|stop|panic or name:action:nth")]
    Form {
        /// As given.
        found: String,
    },
    /// No such place.
    #[error("there is no fail point {found:?}: the fail points are {}", FAIL_POINTS.join(", "))]
    Unknown {
        /// As given.
        found: String,
    },
    /// This build has none.
    #[error("this build has no fail points: use one with debug assertions")]
    NotBuilt,
}

impl FailPoints {
    /// Arms fail points: `upload:kill,restore:stop:3` kills the process the first time it is in an
    /// upload, and stops it (SIGSTOP) the third time it restores. Empty arms none.
    pub fn parse(specification: &str, exit: &Exit) -> Result<Self, FailPointError> {
        let entries = specification
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        let plans: BTreeMap<String, Plan> = entries.map(plan).collect::<Result<_, _>>()?;
        if plans.is_empty() {
            return Ok(Self::default());
        }
        if !cfg!(debug_assertions) {
            return Err(FailPointError::NotBuilt);
        }
        let armed = Armed {
            exit: exit.clone(),
            plans: Mutex::new(plans),
        };
        Ok(Self {
            armed: Some(Arc::new(armed)),
        })
    }

    /// Called by code that is at the place `name`, one of [`FAIL_POINTS`].
    ///
    /// # Panics
    /// If the specification says so.
    pub fn hit(&self, name: &'static str) {
        debug_assert!(
            FAIL_POINTS.contains(&name),
            "{name:?} is not in FAIL_POINTS: add it"
        );
        if let (true, Some(armed)) = (cfg!(debug_assertions), &self.armed) {
            armed.hit(name);
        }
    }
}

impl Armed {
    fn hit(&self, name: &str) {
        let act = {
            let mut plans = self.plans.lock();
            match plans.get_mut(name) {
                Some(plan) if plan.left > 0 => {
                    plan.left -= 1;
                    (plan.left == 0).then_some(plan.act)
                }
                _ => None,
            }
        };
        match act {
            None => {}
            Some(Act::Kill) => self.exit.kill(name),
            Some(Act::Stop) => self.exit.stop(name),
            Some(Act::Panic) => panic!("fail point {name}"),
        }
    }
}

fn plan(entry: &str) -> Result<(String, Plan), FailPointError> {
    let malformed = || FailPointError::Form {
        found: entry.to_owned(),
    };
    let mut parts = entry.split(':');
    let name = parts.next().unwrap_or_default();
    let act = match parts.next() {
        Some("kill") => Act::Kill,
        Some("stop") => Act::Stop,
        Some("panic") => Act::Panic,
        _ => return Err(malformed()),
    };
    let left = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(nth), None) => nth
            .parse()
            .ok()
            .filter(|nth| *nth > 0)
            .ok_or_else(malformed)?,
        (Some(_), Some(_)) => return Err(malformed()),
    };
    if !FAIL_POINTS.contains(&name) {
        return Err(FailPointError::Unknown {
            found: name.to_owned(),
        });
    }
    Ok((name.to_owned(), Plan { act, left }))
}

impl fmt::Debug for FailPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.armed {
            None => f.write_str("FailPoints(none)"),
            Some(armed) => f
                .debug_tuple("FailPoints")
                .field(&*armed.plans.lock())
                .finish(),
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use crate::ExitRecord;

    #[test]
    fn acts_at_the_asked_for_hit_and_only_then() {
        let (exit, log) = Exit::recording();
        let points = FailPoints::parse("upload:kill:2, restore:stop", &exit).unwrap();
        points.hit(UPLOAD);
        points.hit(ALIGNMENT);
        assert!(log.records().is_empty());
        points.hit(UPLOAD);
        points.hit(RESTORE);
        points.hit(UPLOAD);
        points.hit(RESTORE);
        let expected = [
            ExitRecord::Killed("upload".into()),
            ExitRecord::Stopped("restore".into()),
        ];
        assert_eq!(log.records(), expected);
    }

    #[test]
    #[should_panic(expected = "fail point commit")]
    fn a_panic_is_raised_where_the_code_is() {
        FailPoints::parse("commit:panic", &Exit::recording().0)
            .unwrap()
            .hit(COMMIT);
    }

    #[test]
    fn nothing_is_armed_by_nothing() {
        let (exit, log) = Exit::recording();
        let points = FailPoints::parse(" ", &exit).unwrap();
        FAIL_POINTS.iter().for_each(|name| points.hit(name));
        assert!(log.records().is_empty());
    }

    #[test]
    fn a_wrong_specification_is_refused_with_what_is_right() {
        let error = |text| {
            FailPoints::parse(text, &Exit::recording().0)
                .unwrap_err()
                .to_string()
        };
        assert!(error("uplaod:kill").contains("alignment, snapshot, upload"));
        for malformed in [
            "upload",
            "upload:explode",
            "upload:kill:0",
            "upload:kill:1:2",
        ] {
            assert!(
                error(malformed).contains("name:kill|stop|panic"),
                "{malformed}"
            );
        }
    }
}
