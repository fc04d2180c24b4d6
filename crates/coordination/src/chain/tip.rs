//! What a chain says up to some entry, and the rules every entry must keep (I8).

use millstream_types::sabotage::{Rule, Sabotage};
use millstream_types::{CheckpointId, Checksum, Epoch, JobId};

use super::entry::{
    CheckpointIds, Entry, EntryKind, EntryNumber, RestorePoint, TerminalState, WriterNonce,
};

#[cfg(test)]
mod tests;

/// A chain that breaks a rule. No code of ours writes one: someone else did, or entries were lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ChainError {
    /// It begins neither with number 1 nor with a BOUNDARY.
    #[error("claim chain begins with entry {found}, which is neither the first nor a BOUNDARY")]
    NoStart {
        /// Where it begins; 0 if it has no entry.
        found: EntryNumber,
    },
    /// A number is missing, or an object holds another entry than its name says.
    #[error("claim chain has entry {found} where {expected} belongs")]
    Gap {
        /// The number that belongs there.
        expected: EntryNumber,
        /// The number found.
        found: EntryNumber,
    },
    /// The entry does not follow the one before.
    #[error("claim chain is broken at entry {number}: it follows {found}, not {expected}")]
    BrokenHash {
        /// The entry that does not fit.
        number: EntryNumber,
        /// Hash of the entry before.
        expected: Checksum,
        /// What the entry names.
        found: Checksum,
    },
    /// A CLAIM with an epoch that is not above all before.
    #[error("entry {number} claims {found}, not above {before}")]
    EpochNotRising {
        /// The CLAIM.
        number: EntryNumber,
        /// The epoch in force before it.
        before: Epoch,
        /// The epoch it claims.
        found: Epoch,
    },
    /// An entry of someone who did not hold the claim.
    #[error("entry {number} was written under {found}, but the claim was held by {owner}")]
    NotTheOwner {
        /// The entry.
        number: EntryNumber,
        /// The epoch in force.
        owner: Epoch,
        /// The epoch under which it was written.
        found: Epoch,
    },
    /// Checkpoint ids that were handed out before, or not at all.
    #[error("entry {number} uses checkpoint id {id}, outside what this epoch may use")]
    CheckpointId {
        /// The entry.
        number: EntryNumber,
        /// The id.
        id: CheckpointId,
    },
    /// An entry after the end of the job.
    #[error("entry {number} follows the end of the job, which is {state}")]
    AfterTerminal {
        /// The entry.
        number: EntryNumber,
        /// How the job ended.
        state: TerminalState,
    },
}

/// What a chain says up to and including its entry `number`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Tip {
    number: EntryNumber,
    hash: Checksum,
    epoch: Epoch,
    owner: Option<WriterNonce>,
    ids: CheckpointIds,
    completed: Vec<RestorePoint>,
    terminal: Option<TerminalState>,
}

impl Tip {
    /// The chain of a job before its first entry.
    pub fn genesis(job: JobId) -> Self {
        Self {
            number: EntryNumber::NONE,
            hash: Entry::root(job),
            epoch: Epoch(0),
            owner: None,
            ids: CheckpointIds::block(CheckpointId(1), 0),
            completed: Vec::new(),
            terminal: None,
        }
    }

    /// Number of the newest entry.
    pub fn number(&self) -> EntryNumber {
        self.number
    }

    /// Hash of the newest entry.
    pub fn hash(&self) -> Checksum {
        self.hash
    }

    /// The epoch in force; 0 before the first CLAIM.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The checkpoint ids of the epoch in force. `end` is the first id never handed out.
    pub fn ids(&self) -> CheckpointIds {
        self.ids
    }

    /// The completed checkpoints since the newest BOUNDARY and those it retained, oldest first.
    pub fn completed(&self) -> &[RestorePoint] {
        &self.completed
    }

    /// The newest completed checkpoint: where a job restores from.
    pub fn restore_point(&self) -> Option<&RestorePoint> {
        self.completed.last()
    }

    /// How the job ended, if it did.
    pub fn terminal(&self) -> Option<TerminalState> {
        self.terminal
    }

    /// Appends an entry that keeps all rules; changes nothing otherwise.
    pub fn extend(&mut self, entry: &Entry) -> Result<(), ChainError> {
        self.extend_under(entry, Sabotage::default())
    }

    pub(super) fn extend_under(
        &mut self,
        entry: &Entry,
        sabotage: Sabotage,
    ) -> Result<(), ChainError> {
        self.check(entry, sabotage)?;
        match &entry.kind {
            EntryKind::Claim { ids } => {
                self.epoch = entry.epoch;
                self.owner = Some(entry.nonce);
                self.ids = *ids;
            }
            EntryKind::Reserve { ids } => self.ids.end = ids.end,
            EntryKind::Completed(checkpoint) => self.completed.push(RestorePoint {
                number: entry.number,
                epoch: entry.epoch,
                checkpoint: checkpoint.clone(),
            }),
            EntryKind::Terminal(state) => self.terminal = Some(*state),
            EntryKind::Boundary { retained, .. } => self.completed.clone_from(retained),
        }
        self.number = entry.number;
        self.hash = entry.hash();
        Ok(())
    }

    /// What a restart would do that does not claim: a new epoch that the chain knows nothing of.
    /// Reached only with [`Rule::RestartWithoutClaim`] taken away.
    pub(super) fn restart_without_claim(&mut self) -> (Epoch, CheckpointIds) {
        self.epoch = self.epoch.next();
        (self.epoch, self.ids)
    }

    fn check(&self, entry: &Entry, sabotage: Sabotage) -> Result<(), ChainError> {
        let number = entry.number;
        if number != self.number.next() {
            return Err(ChainError::Gap {
                expected: self.number.next(),
                found: number,
            });
        }
        if entry.prev != self.hash {
            let (expected, found) = (self.hash, entry.prev);
            return Err(ChainError::BrokenHash {
                number,
                expected,
                found,
            });
        }
        if let Some(state) = self.terminal {
            return Err(ChainError::AfterTerminal { number, state });
        }
        let owned = entry.epoch == self.epoch && self.owner == Some(entry.nonce);
        let lax = sabotage.removed(Rule::AppendAfterForeign)
            || sabotage.removed(Rule::RestartWithoutClaim);
        if let EntryKind::Claim { .. } = entry.kind {
            if entry.epoch <= self.epoch {
                let (before, found) = (self.epoch, entry.epoch);
                return Err(ChainError::EpochNotRising {
                    number,
                    before,
                    found,
                });
            }
        } else if !owned && !lax {
            let (owner, found) = (self.epoch, entry.epoch);
            return Err(ChainError::NotTheOwner {
                number,
                owner,
                found,
            });
        }
        match self.misused_id(entry) {
            Some(id) if !lax && !sabotage.removed(Rule::ReuseCheckpointIds) => {
                Err(ChainError::CheckpointId { number, id })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A checkpoint id in the entry that this epoch may not use there.
    fn misused_id(&self, entry: &Entry) -> Option<CheckpointId> {
        match &entry.kind {
            EntryKind::Claim { ids } => (ids.first < self.ids.end).then_some(ids.first),
            EntryKind::Reserve { ids } => (ids.first != self.ids.end).then_some(ids.first),
            EntryKind::Completed(checkpoint) => {
                let before = self.restore_point().map(|point| point.checkpoint.id);
                let fits = self.ids.contains(checkpoint.id) && before < Some(checkpoint.id);
                (!fits).then_some(checkpoint.id)
            }
            EntryKind::Terminal(_) => None,
            EntryKind::Boundary { ids, retained } => {
                // It may forget checkpoints, but invent none and not lose the newest.
                let kept = self.completed.ends_with(retained)
                    && (self.completed.is_empty() || !retained.is_empty());
                (*ids != self.ids || !kept).then_some(ids.first)
            }
        }
    }

    /// The chain as a BOUNDARY describes it; `None` for an entry of another kind.
    fn at_boundary(entry: &Entry) -> Option<Self> {
        match &entry.kind {
            EntryKind::Boundary { retained, ids } => Some(Self {
                number: entry.number,
                hash: entry.hash(),
                epoch: entry.epoch,
                owner: Some(entry.nonce),
                ids: *ids,
                completed: retained.clone(),
                terminal: None,
            }),
            EntryKind::Claim { .. }
            | EntryKind::Reserve { .. }
            | EntryKind::Completed(_)
            | EntryKind::Terminal(_) => None,
        }
    }
}

/// Checks a whole chain, from number 1 or a BOUNDARY on, and says what it amounts to.
pub fn verify<'a>(
    job: JobId,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<Tip, ChainError> {
    verify_under(job, entries, Sabotage::default())
}

pub(super) fn verify_under<'a>(
    job: JobId,
    entries: impl IntoIterator<Item = &'a Entry>,
    sabotage: Sabotage,
) -> Result<Tip, ChainError> {
    let mut entries = entries.into_iter().peekable();
    let first = entries.peek().copied();
    let found = first.map_or(EntryNumber::NONE, |entry| entry.number);
    let mut tip = Tip::genesis(job);
    if found != EntryNumber::FIRST {
        let boundary = entries.next().and_then(Tip::at_boundary);
        tip = boundary.ok_or(ChainError::NoStart { found })?;
    }
    for entry in entries {
        tip.extend_under(entry, sabotage)?;
    }
    Ok(tip)
}
