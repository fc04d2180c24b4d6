//! Finding the tip: a listing as a hint, upwards until a number is free, downwards to where the
//! chain can be checked from.

use std::collections::VecDeque;
use std::time::Duration;

use millstream_types::MonoTime;

use super::entry::{Entry, EntryKind, EntryNumber};
use super::machine::{Answer, ClaimChain, Phase};
use super::messages::{Action, JobRecord, Listing, Refusal, Slot, Ticket};
use super::tip::{ChainError, Tip, verify_under};

/// Entries may be deleted while they are read, and a listing may be older than what it lists; then
/// reading begins again, this often.
pub(super) const REREADS_MAX: u32 = 8;

/// A chain that changed is read again at once. A listing that is behind gets time, twice as much
/// each time: eleven seconds in all.
const REREAD_WAIT_FIRST: Duration = Duration::from_millis(100);
const REREAD_WAIT_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(super) struct Reading {
    stage: Stage,
    listed: EntryNumber,
    /// What was read above the known tip, in order.
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Stage {
    List,
    Up(EntryNumber),
    Down(EntryNumber),
}

impl Reading {
    fn at(stage: Stage, listed: EntryNumber) -> Phase {
        Phase::Reading(Self {
            stage,
            listed,
            entries: VecDeque::new(),
        })
    }

    pub(super) fn request(&self, ticket: Ticket) -> Action {
        match self.stage {
            Stage::List => Action::List {
                ticket,
                above: EntryNumber::NONE,
            },
            Stage::Up(number) | Stage::Down(number) => Action::Probe { ticket, number },
        }
    }

    pub(super) fn answer(&self) -> Answer {
        match self.stage {
            Stage::List => Answer::Listing,
            Stage::Up(_) | Stage::Down(_) => Answer::Slot,
        }
    }

    /// Whether what was read reaches down to where a check can begin.
    fn is_rooted(&self) -> bool {
        self.entries
            .front()
            .is_some_and(|first| first.number == EntryNumber::FIRST)
            || self.entries.iter().any(is_boundary)
    }
}

fn is_boundary(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Boundary { .. })
}

impl ClaimChain {
    pub(super) fn read_from_listing(&mut self, actions: &mut Vec<Action>) {
        self.phase = Reading::at(Stage::List, EntryNumber::NONE);
        self.issue(actions);
    }

    /// The same, a little later.
    fn read_from_listing_at(&mut self, due: MonoTime) {
        self.phase = Reading::at(Stage::List, EntryNumber::NONE);
        self.read_later(due);
    }

    /// Goes on above the known tip, after the slot wanted turned out to be taken.
    pub(super) fn read_above_tip(&mut self, actions: &mut Vec<Action>) {
        let next = self.known().next();
        self.phase = Reading::at(Stage::Up(next), EntryNumber::NONE);
        self.issue(actions);
    }

    pub(super) fn on_listed(&mut self, now: MonoTime, listing: Listing, actions: &mut Vec<Action>) {
        let highest = match listing {
            Listing::Unavailable => return self.retry(now),
            Listing::Empty => EntryNumber::NONE,
            Listing::Highest(number) => number,
        };
        self.succeeded();
        match &self.phase {
            Phase::Reading(_) => self.read_up_from_hint(highest, actions),
            Phase::Writing(_) => self.on_confirmed(highest, actions),
            Phase::Looking(_) => self.on_looked(highest, actions),
            Phase::Idle | Phase::Owner => {}
        }
    }

    /// Begins at the entry known best: reading it again shows whether it is still there.
    fn read_up_from_hint(&mut self, listed: EntryNumber, actions: &mut Vec<Action>) {
        let known = self.known();
        let start = if known > EntryNumber::NONE {
            known
        } else {
            listed.max(EntryNumber::FIRST)
        };
        self.phase = Reading::at(Stage::Up(start), listed);
        self.issue(actions);
    }

    pub(super) fn on_read(&mut self, now: MonoTime, slot: Slot, actions: &mut Vec<Action>) {
        let number = match &self.phase {
            Phase::Reading(Reading { stage, .. }) => match stage {
                Stage::List => return,
                Stage::Up(number) | Stage::Down(number) => *number,
            },
            Phase::Writing(writing) => writing.entry.number,
            Phase::Looking(_) => self.known().next(),
            Phase::Idle | Phase::Owner => return,
        };
        let found = match slot {
            Slot::Unavailable => return self.retry(now),
            Slot::Corrupt(cause) => {
                return self.refuse(Refusal::Unreadable { number, cause }, actions);
            }
            Slot::Present(entry) if entry.number != number => {
                let error = ChainError::Gap {
                    expected: number,
                    found: entry.number,
                };
                return self.refuse(Refusal::Broken(error), actions);
            }
            Slot::Present(entry) => Some(*entry),
            Slot::Absent => None,
        };
        match &self.phase {
            Phase::Reading(Reading {
                stage: Stage::Down(_),
                ..
            }) => self.on_below(now, number, found, actions),
            Phase::Reading(_) if number == self.known() => {
                self.on_known(now, number, found, actions);
            }
            Phase::Reading(_) => self.on_above(now, number, found, actions),
            Phase::Writing(_) => self.on_read_back(now, found, actions),
            Phase::Looking(_) => self.on_next(found, actions),
            Phase::Idle | Phase::Owner => {}
        }
    }

    /// The entry that was the tip when last seen.
    fn on_known(
        &mut self,
        now: MonoTime,
        known: EntryNumber,
        found: Option<Entry>,
        actions: &mut Vec<Action>,
    ) {
        let (Phase::Reading(reading), Some(tip)) = (&mut self.phase, &self.tip) else {
            return;
        };
        match found {
            Some(entry) if entry.hash() == tip.hash() => {
                reading.stage = Stage::Up(known.next());
                self.issue(actions);
            }
            // Deleted, perhaps with another in its place: the chain went on far above it.
            Some(_) | None if reading.listed > known => {
                let listed = reading.listed;
                self.tip = None;
                self.read_up_from_hint(listed, actions);
            }
            Some(_) | None => self.read_again(now, Refusal::Regressed { known }, actions),
        }
    }

    fn on_above(
        &mut self,
        now: MonoTime,
        number: EntryNumber,
        found: Option<Entry>,
        actions: &mut Vec<Action>,
    ) {
        let known = self.known();
        let Phase::Reading(reading) = &mut self.phase else {
            return;
        };
        let missing = reading.listed >= number;
        match found {
            Some(entry) => {
                reading.entries.push_back(entry);
                reading.stage = Stage::Up(number.next());
                self.issue(actions);
            }
            None if missing => self.read_again(now, Refusal::Missing { number }, actions),
            None if known > EntryNumber::NONE || reading.is_rooted() => {
                self.on_complete(now, actions);
            }
            None => match reading.entries.front().map(|first| first.number.previous()) {
                Some(below) => {
                    reading.stage = Stage::Down(below);
                    self.issue(actions);
                }
                None => self.on_empty(now, actions),
            },
        }
    }

    fn on_below(
        &mut self,
        now: MonoTime,
        number: EntryNumber,
        found: Option<Entry>,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Reading(reading) = &mut self.phase else {
            return;
        };
        let Some(entry) = found else {
            return self.read_again(now, Refusal::Missing { number }, actions);
        };
        reading.entries.push_front(entry);
        if reading.is_rooted() {
            return self.on_complete(now, actions);
        }
        reading.stage = Stage::Down(number.previous());
        self.issue(actions);
    }

    /// What was read does not fit together. That is so while entries are being deleted, and where
    /// a writer deposed long ago left an orphan among deleted numbers, and where the store lists
    /// what was written lately only after a while; a new listing tells. If it stays so, the chain is
    /// damaged.
    pub(super) fn read_again(
        &mut self,
        now: MonoTime,
        refusal: Refusal,
        actions: &mut Vec<Action>,
    ) {
        self.tip = None;
        let rereads = match &mut self.claim {
            Some(claim) if claim.rereads < REREADS_MAX => {
                claim.rereads += 1;
                claim.rereads
            }
            Some(_) | None => return self.refuse(refusal, actions),
        };
        match rereads.checked_sub(2) {
            None => self.read_from_listing(actions),
            Some(doublings) => {
                let wait = REREAD_WAIT_FIRST.saturating_mul(1 << doublings);
                self.read_from_listing_at(now + wait.min(REREAD_WAIT_MAX));
            }
        }
    }

    fn on_empty(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        match self.claim.as_ref().map(|claim| claim.job) {
            _ if self.seen > EntryNumber::NONE => {
                self.read_again(now, Refusal::Regressed { known: self.seen }, actions);
            }
            Some(JobRecord::BeingSubmitted) => {
                self.tip = Some(Tip::genesis(self.job));
                self.write_claim(actions);
            }
            Some(JobRecord::Stored) | None => self.read_again(now, Refusal::NoChain, actions),
        }
    }

    /// The chain was read to its tip and down to where the check begins.
    fn on_complete(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        let Phase::Reading(reading) = &self.phase else {
            return;
        };
        let tip = match self
            .tip
            .take()
            .filter(|tip| tip.number() > EntryNumber::NONE)
        {
            Some(mut tip) => reading
                .entries
                .iter()
                .try_for_each(|entry| tip.extend_under(entry, self.sabotage))
                .map(|()| tip),
            None => {
                // What lies below the newest boundary may be half deleted.
                let start = reading.entries.iter().rposition(is_boundary).unwrap_or(0);
                verify_under(self.job, reading.entries.iter().skip(start), self.sabotage)
            }
        };
        match tip {
            Ok(tip) if tip.number() < self.seen => {
                self.read_again(now, Refusal::Regressed { known: self.seen }, actions);
            }
            Ok(tip) => {
                self.seen = tip.number();
                self.tip = Some(tip);
                self.write_claim(actions);
            }
            Err(error) => self.read_again(now, Refusal::Broken(error), actions),
        }
    }

    fn known(&self) -> EntryNumber {
        self.tip.as_ref().map_or(EntryNumber::NONE, Tip::number)
    }
}
