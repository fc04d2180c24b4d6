//! What the next snapshot is made of: everything, or the files of a completed checkpoint and what
//! changed since.
//!
//! Decided here, done by the journal. Changes are numbered by their place in the journal; a snapshot
//! covers all in front of a place. Three rules keep this safe (B10.4):
//!
//! - Only files of a checkpoint that is known to be complete are referred to, and only as long as no
//!   newer one is known: files of older ones may be gone.
//! - What was uploaded for a checkpoint that is not known to be complete is uploaded again.
//! - When in doubt, everything: that is always right.

use std::collections::BTreeMap;

use millstream_types::{CheckpointId, StateHandle};

/// A snapshot of more files than this is written anew: a restore has to merge them.
const FILES_MAX: usize = 128;
/// No snapshot has more, whatever came to nothing.
const FILES_LIMIT: usize = 1024;
/// Snapshots whose completion is not known yet and still awaited. Of others nothing is expected.
const TAKEN_MAX: usize = 16;
/// How often the limits are doubled at most.
const RESTS_MAX: u32 = 6;

/// What a snapshot consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// All of it, for this checkpoint alone.
    Alone,
    /// All of it; later snapshots may stand on it.
    All,
    /// These files, and then the changes from a place of the journal on.
    Changes { behind: Vec<StateHandle>, from: u64 },
}

/// A snapshot that later ones stand on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Base {
    checkpoint: CheckpointId,
    files: Vec<StateHandle>,
    /// The first place of the journal that is not in it.
    upto: u64,
}

impl Base {
    fn all_bytes(&self) -> u64 {
        self.files.first().map_or(0, StateHandle::size)
    }

    fn change_bytes(&self) -> u64 {
        self.files.iter().skip(1).map(StateHandle::size).sum()
    }
}

/// A snapshot that may become a base.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Taken {
    is_all: bool,
    upto: u64,
    /// Known when all of them are stored.
    files: Option<Vec<StateHandle>>,
}

/// Changes that are in the journal.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pending {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// The snapshots of one backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ledger {
    /// State of less than this is written whole each time, into a file of its own.
    small_bytes: u64,
    /// About everything, at the last snapshot.
    live_bytes: u64,
    base: Option<Base>,
    taken: BTreeMap<CheckpointId, Taken>,
    /// Snapshots of everything in a row that came to nothing while there was a base.
    rests: u32,
    /// The last one of everything, as long as nothing is known of it.
    last_all: Option<CheckpointId>,
}

impl Ledger {
    /// No snapshot was taken yet.
    pub(crate) fn new(small_bytes: u64) -> Self {
        Self {
            small_bytes,
            live_bytes: 0,
            base: None,
            taken: BTreeMap::new(),
            rests: 0,
            last_all: None,
        }
    }

    /// Forgets every snapshot: the next one is of everything.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.small_bytes);
    }

    /// Whether the journal holds more than any snapshot would be made of: while none is completed,
    /// what changes again and again would fill the disk.
    pub(crate) fn is_too_much(&self, pending_bytes: u64) -> bool {
        let all = self.base.as_ref().map_or(self.live_bytes, Base::all_bytes);
        pending_bytes > 2 * (all << self.rests) + 4 * self.small_bytes
    }

    /// What was restored: files of a completed checkpoint, and nothing is in the journal yet.
    pub(crate) fn adopt(&mut self, checkpoint: CheckpointId, files: &[StateHandle]) {
        self.base = Some(Base {
            checkpoint,
            files: files.to_vec(),
            upto: 0,
        });
    }

    /// Decides on a snapshot. `upto` is the end of the journal, `pending` what it holds that is not
    /// in the base, `live_bytes` about the size of everything.
    pub(crate) fn plan(
        &mut self,
        checkpoint: CheckpointId,
        upto: u64,
        pending: Pending,
        live_bytes: u64,
    ) -> Plan {
        if live_bytes < self.small_bytes && self.base.is_none() {
            self.reset();
            return Plan::Alone;
        }
        self.live_bytes = live_bytes;
        if self.last_all.take().is_some() && self.base.is_some() {
            // Everything once more would fail for the same reason: less, and later.
            self.rests = (self.rests + 1).min(RESTS_MAX);
        }
        let plan = match &self.base {
            Some(base) if self.is_worth(base, pending) => Plan::Changes {
                behind: base.files.clone(),
                from: base.upto,
            },
            Some(_) | None => Plan::All,
        };
        let is_all = plan == Plan::All;
        if is_all {
            self.last_all = Some(checkpoint);
        }
        let taken = Taken {
            is_all,
            upto,
            files: None,
        };
        self.taken.insert(checkpoint, taken);
        while self.taken.len() > TAKEN_MAX {
            self.taken.pop_first();
        }
        plan
    }

    /// Whether changes behind the base are better than everything anew: not as soon as they are more
    /// than what they change, so that at most twice of what changes is uploaded; nor as soon as they
    /// are in more files than a restore should merge.
    fn is_worth(&self, base: &Base, pending: Pending) -> bool {
        let changes = base.change_bytes().saturating_add(pending.bytes);
        let files = base.files.len() + pending.files;
        let files_max = (FILES_MAX << self.rests).min(FILES_LIMIT);
        changes <= base.all_bytes() << self.rests && files <= files_max
    }

    /// All files of a snapshot are stored.
    pub(crate) fn stored(&mut self, checkpoint: CheckpointId, files: &[StateHandle]) {
        if let Some(taken) = self.taken.get_mut(&checkpoint) {
            taken.files = Some(files.to_vec());
        }
    }

    /// A checkpoint is known to be complete, and no older one is needed.
    pub(crate) fn completed(&mut self, checkpoint: CheckpointId) {
        if self
            .base
            .as_ref()
            .is_some_and(|base| base.checkpoint >= checkpoint)
        {
            return;
        }
        self.base = self.taken.get(&checkpoint).and_then(|taken| {
            Some(Base {
                checkpoint,
                files: taken.files.clone()?,
                upto: taken.upto,
            })
        });
        if self
            .taken
            .get(&checkpoint)
            .is_some_and(|taken| taken.is_all)
        {
            self.rests = 0;
        }
        self.taken.retain(|id, _| *id > checkpoint);
        if self.last_all.is_some_and(|all| all <= checkpoint) {
            self.last_all = None;
        }
    }

    /// The first place of the journal that may still be asked for; none if there is no snapshot that
    /// another could stand on.
    pub(crate) fn needs_from(&self) -> Option<u64> {
        let base = self.base.as_ref().map(|base| base.upto);
        base.or_else(|| self.taken.values().map(|taken| taken.upto).min())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(bytes: u64) -> StateHandle {
        StateHandle::Inline(Arc::from(vec![0; bytes as usize]))
    }

    fn id(id: u64) -> CheckpointId {
        CheckpointId(id)
    }

    fn pending(files: usize, bytes: u64) -> Pending {
        Pending { files, bytes }
    }

    fn plan(ledger: &mut Ledger, checkpoint: u64, upto: u64, changes: Pending) -> Plan {
        ledger.plan(id(checkpoint), upto, changes, 10 * MIB)
    }

    /// A ledger whose checkpoint 1, of everything, is complete.
    fn started() -> Ledger {
        let mut ledger = Ledger::new(MIB);
        assert_eq!(plan(&mut ledger, 1, 0, pending(0, 0)), Plan::All);
        ledger.stored(id(1), &[file(1000)]);
        ledger.completed(id(1));
        ledger
    }

    fn behind(files: &[u64], from: u64) -> Plan {
        let behind = files.iter().map(|bytes| file(*bytes)).collect();
        Plan::Changes { behind, from }
    }

    #[test]
    fn changes_stand_behind_the_newest_checkpoint_that_is_known_to_be_complete() {
        let mut ledger = started();
        assert_eq!(plan(&mut ledger, 2, 1, pending(1, 100)), behind(&[1000], 0));
        ledger.stored(id(2), &[file(1000), file(100)]);
        // Nothing is known of 2 yet: its changes go up again.
        assert_eq!(plan(&mut ledger, 3, 2, pending(2, 150)), behind(&[1000], 0));
        ledger.stored(id(3), &[file(1000), file(100), file(50)]);
        ledger.completed(id(2));
        assert_eq!(ledger.needs_from(), Some(1));
        assert_eq!(
            plan(&mut ledger, 4, 3, pending(2, 90)),
            behind(&[1000, 100], 1)
        );
        ledger.completed(id(3));
        assert_eq!(ledger.needs_from(), Some(2));
        // The news of an older one comes late and changes nothing.
        ledger.completed(id(2));
        assert_eq!(ledger.needs_from(), Some(2));
    }

    #[test]
    fn without_a_file_of_the_newest_complete_checkpoint_everything_is_written() {
        // Complete, although this backend never took it or does not know where its files are.
        let mut ledger = started();
        ledger.completed(id(7));
        assert_eq!(plan(&mut ledger, 8, 3, pending(3, 10)), Plan::All);
        let mut ledger = started();
        plan(&mut ledger, 2, 1, pending(1, 100));
        ledger.completed(id(2));
        assert_eq!(plan(&mut ledger, 3, 2, pending(1, 10)), Plan::All);
    }

    #[test]
    fn changes_that_are_more_than_what_they_change_are_written_anew() {
        let mut ledger = started();
        assert_eq!(
            plan(&mut ledger, 2, 1, pending(1, 1000)),
            behind(&[1000], 0)
        );
        assert_eq!(plan(&mut ledger, 3, 1, pending(1, 1001)), Plan::All);
        let mut ledger = started();
        assert_eq!(
            plan(&mut ledger, 2, 1, pending(127, 10)),
            behind(&[1000], 0)
        );
        assert_eq!(plan(&mut ledger, 3, 1, pending(128, 10)), Plan::All);
        // What stands behind everything counts too.
        let files = [file(1000), file(600)];
        let mut ledger = Ledger::new(MIB);
        ledger.adopt(id(5), &files);
        assert_eq!(
            plan(&mut ledger, 6, 1, pending(1, 400)),
            behind(&[1000, 600], 0)
        );
        assert_eq!(plan(&mut ledger, 7, 1, pending(1, 401)), Plan::All);
    }

    /// A store too slow for everything must not be asked for it again and again.
    #[test]
    fn everything_that_comes_to_nothing_is_put_off_for_twice_as_much() {
        let mut ledger = started();
        assert_eq!(plan(&mut ledger, 2, 1, pending(1, 1001)), Plan::All);
        assert_eq!(
            plan(&mut ledger, 3, 2, pending(2, 1500)),
            behind(&[1000], 0)
        );
        assert_eq!(plan(&mut ledger, 4, 3, pending(3, 2001)), Plan::All);
        assert_eq!(
            plan(&mut ledger, 5, 4, pending(4, 4000)),
            behind(&[1000], 0)
        );
        assert_eq!(plan(&mut ledger, 6, 5, pending(5, 4001)), Plan::All);
        ledger.stored(id(6), &[file(2000)]);
        ledger.completed(id(6));
        assert_eq!(plan(&mut ledger, 7, 6, pending(1, 2001)), Plan::All);
        // Without a base there is nothing else to do.
        let mut ledger = Ledger::new(MIB);
        for checkpoint in 1..5 {
            assert_eq!(plan(&mut ledger, checkpoint, 0, pending(0, 0)), Plan::All);
        }
    }

    #[test]
    fn a_journal_beyond_all_use_is_given_up() {
        let mut ledger = Ledger::new(10);
        assert_eq!(ledger.plan(id(1), 0, pending(0, 0), 500), Plan::All);
        assert!(!ledger.is_too_much(1_040) && ledger.is_too_much(1_041));
        ledger.stored(id(1), &[file(1_000)]);
        ledger.completed(id(1));
        assert!(!ledger.is_too_much(2_040) && ledger.is_too_much(2_041));
        ledger.reset();
        assert_eq!(ledger.needs_from(), None);
        assert_eq!(ledger.plan(id(2), 9, pending(0, 0), 500), Plan::All);
    }

    #[test]
    fn little_state_is_written_alone_and_notes_nothing() {
        let mut ledger = Ledger::new(MIB);
        assert_eq!(ledger.plan(id(1), 0, pending(0, 0), MIB - 1), Plan::Alone);
        assert_eq!(ledger.needs_from(), None);
        ledger.stored(id(1), &[file(10)]);
        ledger.completed(id(1));
        assert_eq!(ledger.plan(id(2), 0, pending(0, 0), MIB), Plan::All);
        assert_eq!(ledger.needs_from(), Some(0));
    }

    #[test]
    fn a_late_completion_is_used_and_a_forgotten_one_is_not() {
        let mut ledger = Ledger::new(MIB);
        plan(&mut ledger, 1, 0, pending(0, 0));
        ledger.stored(id(1), &[file(1000)]);
        assert_eq!(plan(&mut ledger, 2, 1, pending(1, 10)), Plan::All);
        ledger.completed(id(1));
        assert_eq!(plan(&mut ledger, 3, 2, pending(2, 20)), behind(&[1000], 0));
        for checkpoint in 4..=30 {
            plan(&mut ledger, checkpoint, checkpoint, pending(2, 20));
        }
        assert!(ledger.taken.len() <= TAKEN_MAX);
        ledger.completed(id(4));
        assert_eq!(plan(&mut ledger, 31, 31, pending(2, 20)), Plan::All);
    }
}
