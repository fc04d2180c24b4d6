//! Writing one entry, and knowing whether it is written.
//!
//! Create, read back where the answer leaves it open, create again where the slot is free, and in
//! the end list what lies above. That listing is the boundary check of fence F6: a number that
//! was free only because its entry had been deleted lies below a BOUNDARY, which is never deleted
//! before the next one is there, and is older than any listing is behind (`pruning`).

use millstream_types::sabotage::Rule;
use millstream_types::{CheckpointId, Epoch, MonoTime};

use super::entry::{CheckpointIds, Entry, EntryKind, EntryNumber};
use super::machine::{Answer, ClaimChain, Phase};
use super::messages::{Action, CreateOutcome, Loss, Refusal, Ticket};
use super::reading::REREADS_MAX;

#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(super) struct Writing {
    pub(super) entry: Entry,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Stage {
    Create,
    ReadBack,
    Confirm,
}

/// What an owner looks at: first the number that a claim would have taken, which a store reads as it
/// is; then, since that one may have been deleted, what is listed above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(super) enum Look {
    Next,
    Above,
}

impl Look {
    pub(super) fn answer(self) -> Answer {
        match self {
            Self::Next => Answer::Slot,
            Self::Above => Answer::Listing,
        }
    }

    pub(super) fn request(self, ticket: Ticket, above: EntryNumber) -> Action {
        match self {
            Self::Next => Action::Probe {
                ticket,
                number: above.next(),
            },
            Self::Above => Action::List { ticket, above },
        }
    }
}

impl Writing {
    pub(super) fn append(entry: Entry) -> Self {
        Self {
            entry,
            stage: Stage::Create,
        }
    }

    pub(super) fn answer(&self) -> Answer {
        match self.stage {
            Stage::Create => Answer::Outcome,
            Stage::ReadBack => Answer::Slot,
            Stage::Confirm => Answer::Listing,
        }
    }

    pub(super) fn is_claim(&self) -> bool {
        matches!(self.entry.kind, EntryKind::Claim { .. })
    }

    pub(super) fn request(&self, ticket: Ticket) -> Action {
        let number = self.entry.number;
        match self.stage {
            Stage::Create => Action::Create {
                ticket,
                entry: Box::new(self.entry.clone()),
            },
            Stage::ReadBack => Action::ReadBack { ticket, number },
            Stage::Confirm => Action::List {
                ticket,
                above: number,
            },
        }
    }
}

impl ClaimChain {
    /// Claims the number after the tip, unless the job ended.
    pub(super) fn write_claim(&mut self, actions: &mut Vec<Action>) {
        let (Some(tip), Some(claim)) = (&self.tip, &self.claim) else {
            return;
        };
        if let Some(state) = tip.terminal() {
            let completed = tip.completed().to_vec();
            return self.refuse(Refusal::Terminal { state, completed }, actions);
        }
        if let Some((epoch, loss)) = &claim.passed
            && tip.epoch() >= *epoch
        {
            let loss = loss.clone();
            return self.lose(loss, actions);
        }
        let first = if self.sabotage.removed(Rule::ReuseCheckpointIds) {
            let restore = tip.restore_point().map(|point| point.checkpoint.id);
            restore.map_or(CheckpointId(1), CheckpointId::next)
        } else {
            tip.ids().end
        };
        let entry = Entry {
            number: tip.number().next(),
            prev: tip.hash(),
            epoch: tip.epoch().next(),
            nonce: claim.nonce,
            kind: EntryKind::Claim {
                ids: CheckpointIds::block(first, self.block.get()),
            },
        };
        self.write(Writing::append(entry), actions);
    }

    pub(super) fn write(&mut self, writing: Writing, actions: &mut Vec<Action>) {
        if self.sabotage.removed(Rule::AnnounceBeforeDurable) && !writing.is_claim() {
            actions.push(appended(&writing.entry));
        }
        self.phase = Phase::Writing(writing);
        self.issue(actions);
    }

    pub(super) fn on_created(
        &mut self,
        now: MonoTime,
        outcome: CreateOutcome,
        actions: &mut Vec<Action>,
    ) {
        match outcome {
            CreateOutcome::Ok => {
                self.succeeded();
                self.go_on(Stage::Confirm, actions);
            }
            CreateOutcome::MayHaveHappened if self.sabotage.removed(Rule::AssumeHappened) => {
                self.go_on(Stage::Confirm, actions);
            }
            CreateOutcome::AlreadyExists | CreateOutcome::MayHaveHappened => {
                self.go_on(Stage::ReadBack, actions);
            }
            CreateOutcome::DidNotHappen => self.retry(now),
        }
    }

    /// What the slot holds decides; `None` means that the write did not happen yet.
    pub(super) fn on_read_back(
        &mut self,
        now: MonoTime,
        found: Option<Entry>,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Writing(writing) = &mut self.phase else {
            return;
        };
        match found {
            // The same entry again: if the first write lands after all, this one finds it there.
            None => {
                writing.stage = Stage::Create;
                self.retry(now);
            }
            Some(entry) if entry == writing.entry => {
                self.succeeded();
                self.go_on(Stage::Confirm, actions);
            }
            Some(entry) if writing.is_claim() => {
                self.succeeded();
                self.step_over(now, &entry, actions);
            }
            Some(entry) if self.sabotage.removed(Rule::AppendAfterForeign) => {
                self.append_after(&entry, actions);
            }
            Some(entry) => self.lose(taken_by(&entry), actions),
        }
    }

    /// A claimant whose slot was taken goes on above it.
    fn step_over(&mut self, now: MonoTime, entry: &Entry, actions: &mut Vec<Action>) {
        let Some(tip) = &mut self.tip else { return };
        match tip.extend_under(entry, self.sabotage) {
            Ok(()) => self.read_above_tip(actions),
            Err(error) => self.read_again(now, Refusal::Broken(error), actions),
        }
    }

    fn append_after(&mut self, foreign: &Entry, actions: &mut Vec<Action>) {
        let (Phase::Writing(writing), Some(tip)) = (&self.phase, &mut self.tip) else {
            return;
        };
        let mut entry = writing.entry.clone();
        if tip.extend_under(foreign, self.sabotage).is_ok() {
            entry.number = tip.number().next();
            entry.prev = tip.hash();
            self.write(Writing::append(entry), actions);
        }
    }

    /// The entry is there; `highest` is what lies above it.
    pub(super) fn on_confirmed(&mut self, highest: EntryNumber, actions: &mut Vec<Action>) {
        let (Phase::Writing(writing), Some(tip)) = (&self.phase, &mut self.tip) else {
            return;
        };
        let entry = writing.entry.clone();
        if highest > entry.number && !self.sabotage.removed(Rule::AppendAfterForeign) {
            let loss = Loss::Passed {
                number: entry.number,
                highest,
            };
            return match entry.kind {
                EntryKind::Claim { .. } => self.on_claim_passed(entry.epoch, loss, actions),
                _ => self.lose(loss, actions),
            };
        }
        if let Err(error) = tip.extend_under(&entry, self.sabotage) {
            return self.refuse(Refusal::Broken(error), actions);
        }
        let restore = tip.restore_point().cloned();
        self.seen = entry.number;
        self.written();
        if let EntryKind::Claim { ids } = entry.kind {
            actions.push(Action::Claimed {
                epoch: entry.epoch,
                restore,
                ids,
            });
        } else if !self.sabotage.removed(Rule::AnnounceBeforeDurable) {
            actions.push(appended(&entry));
        }
        self.write_next(actions);
    }

    /// Looks above the newest entry, where nothing is written.
    pub(super) fn look(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Looking(Look::Next);
        match self.sabotage.removed(Rule::NeverLookAbove) {
            true => self.on_looked(EntryNumber::NONE, actions),
            false => self.issue(actions),
        }
    }

    pub(super) fn on_next(&mut self, found: Option<Entry>, actions: &mut Vec<Action>) {
        self.succeeded();
        match found {
            Some(entry) if !self.sabotage.removed(Rule::AppendAfterForeign) => {
                self.lose(taken_by(&entry), actions);
            }
            Some(_) | None => {
                self.phase = Phase::Looking(Look::Above);
                self.issue(actions);
            }
        }
    }

    pub(super) fn on_looked(&mut self, highest: EntryNumber, actions: &mut Vec<Action>) {
        let Some(tip) = &self.tip else { return };
        let (number, epoch) = (tip.number(), tip.epoch());
        if highest > number && !self.sabotage.removed(Rule::AppendAfterForeign) {
            return self.lose(Loss::Passed { number, highest }, actions);
        }
        actions.push(Action::Confirmed { epoch });
        self.write_next(actions);
    }

    /// The chain is above our CLAIM. If the number was free only because the owner had deleted its
    /// entry, the claim never held and is made again; if another's claim followed, the job is
    /// theirs, which the next reading shows.
    fn on_claim_passed(&mut self, epoch: Epoch, loss: Loss, actions: &mut Vec<Action>) {
        match &mut self.claim {
            Some(claim) if claim.rereads < REREADS_MAX => {
                claim.rereads += 1;
                claim.passed = Some((epoch, loss));
                self.tip = None;
                self.read_from_listing(actions);
            }
            Some(_) | None => self.lose(loss, actions),
        }
    }

    fn go_on(&mut self, stage: Stage, actions: &mut Vec<Action>) {
        if let Phase::Writing(writing) = &mut self.phase {
            writing.stage = stage;
            let own = writing.entry.number;
            if stage == Stage::Confirm && self.sabotage.removed(Rule::NeverLookAbove) {
                return self.on_confirmed(own, actions);
            }
        }
        self.issue(actions);
    }
}

fn taken_by(entry: &Entry) -> Loss {
    Loss::SlotTaken {
        number: entry.number,
        epoch: entry.epoch,
        nonce: entry.nonce,
    }
}

fn appended(entry: &Entry) -> Action {
    Action::Appended {
        number: entry.number,
        kind: entry.kind.clone(),
    }
}
