//! The machine: one job's claim chain as one jobmanager sees it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use millstream_types::sabotage::{Rule, Sabotage};
use millstream_types::{Epoch, JobId, MonoTime};

use super::entry::{CheckpointIds, Entry, EntryKind, EntryNumber, WriterNonce};
use super::messages::{Action, Append, Event, JobRecord, Loss, Refusal, Rejection, Ticket};
use super::reading::Reading;
use super::tip::Tip;
use super::writing::{Look, Writing};

const QUEUE_MAX: usize = 64;
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Claims a job, and appends to its chain for as long as the claim holds.
///
/// At most one object-store request is outstanding; appends wait in line. The machine outlives
/// its claims: `Event::Claim` begins the next epoch, after a loss as well as for a restart.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ClaimChain {
    pub(super) job: JobId,
    pub(super) block: NonZeroU32,
    pub(super) claim: Option<Claim>,
    pub(super) phase: Phase,
    /// The chain as far as it was read or written.
    pub(super) tip: Option<Tip>,
    /// The highest number the chain was ever seen to reach; it cannot become shorter.
    pub(super) seen: EntryNumber,
    pub(super) queue: VecDeque<Append>,
    /// The request outstanding.
    awaited: Option<Ticket>,
    seq: u32,
    retry_at: MonoTime,
    failures: u32,
    pub(super) sabotage: Sabotage,
}

/// A claim, wanted or held.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(super) struct Claim {
    pub nonce: WriterNonce,
    pub job: JobRecord,
    /// How often reading began again, because entries were deleted meanwhile.
    pub rereads: u32,
    /// An earlier CLAIM of it that lies below the chain's tip: its epoch, and how that was found.
    pub passed: Option<(Epoch, Loss)>,
}

/// What kind of event answers a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Listing,
    Slot,
    Outcome,
}

#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(super) enum Phase {
    /// Nothing is claimed.
    Idle,
    /// Finding the tip for a claim.
    Reading(Reading),
    /// An entry is on its way.
    Writing(Writing),
    /// The owner wants to know whether anything lies above its newest entry.
    Looking(Look),
    /// The claim is held and nothing is on its way.
    Owner,
}

impl ClaimChain {
    /// The chain of `job`. A claim sets `block` checkpoint ids aside.
    pub fn new(job: JobId, block: NonZeroU32) -> Self {
        Self::with_sabotage(job, block, Sabotage::default())
    }

    /// The same with rules taken away, for tests that show what the rules are for.
    pub fn with_sabotage(job: JobId, block: NonZeroU32, sabotage: Sabotage) -> Self {
        Self {
            job,
            block,
            claim: None,
            phase: Phase::Idle,
            tip: None,
            seen: EntryNumber::NONE,
            queue: VecDeque::new(),
            awaited: None,
            seq: 0,
            retry_at: MonoTime::NEVER,
            failures: 0,
            sabotage,
        }
    }

    /// The epoch of the claim held; `None` while it is only wanted.
    pub fn owned_epoch(&self) -> Option<Epoch> {
        match &self.phase {
            Phase::Idle | Phase::Reading(_) => None,
            Phase::Writing(writing) if writing.is_claim() => None,
            Phase::Writing(_) | Phase::Looking(_) | Phase::Owner => {
                self.tip.as_ref().map(Tip::epoch)
            }
        }
    }

    /// The chain as far as this machine read or wrote it.
    pub fn tip(&self) -> Option<&Tip> {
        self.tip.as_ref()
    }

    /// How often in a row the store left the request outstanding open; 0 while all is well.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        self.retry_at
    }

    /// Takes one event and says what is to be done.
    pub fn step(&mut self, now: MonoTime, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Claim { nonce, job } => self.start(nonce, job, actions),
            Event::Append(request) => self.append(request, actions),
            Event::Listed { ticket, listing } => {
                if self.accept(ticket, Answer::Listing) {
                    self.on_listed(now, listing, actions);
                }
            }
            Event::Read { ticket, slot } => {
                if self.accept(ticket, Answer::Slot) {
                    self.on_read(now, slot, actions);
                }
            }
            Event::Created { ticket, outcome } => {
                if self.accept(ticket, Answer::Outcome) {
                    self.on_created(now, outcome, actions);
                }
            }
            Event::Tick => {
                if now >= self.retry_at {
                    self.retry_at = MonoTime::NEVER;
                    self.issue(actions);
                }
            }
        }
    }

    fn start(&mut self, nonce: WriterNonce, job: JobRecord, actions: &mut Vec<Action>) {
        if self.sabotage.removed(Rule::RestartWithoutClaim)
            && self.owned_epoch().is_some()
            && let Some(tip) = &mut self.tip
        {
            let restore = tip.restore_point().cloned();
            let (epoch, ids) = tip.restart_without_claim();
            actions.push(Action::Claimed {
                epoch,
                restore,
                ids,
            });
            self.phase = Phase::Owner;
            self.awaited = None;
            return;
        }
        self.stop();
        self.claim = Some(Claim {
            nonce,
            job,
            rereads: 0,
            passed: None,
        });
        self.read_from_listing(actions);
    }

    fn append(&mut self, request: Append, actions: &mut Vec<Action>) {
        let rejection = if self.owned_epoch().is_none() {
            Rejection::NotTheOwner
        } else if self.queue.len() >= QUEUE_MAX {
            Rejection::QueueFull { limit: QUEUE_MAX }
        } else {
            self.queue.push_back(request);
            if self.phase == Phase::Owner {
                self.write_next(actions);
            }
            return;
        };
        actions.push(Action::Rejected {
            request,
            why: rejection,
        });
    }

    /// Writes the next request in line that the chain's rules admit.
    pub(super) fn write_next(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Owner;
        while let (Some(request), Some(tip), Some(claim)) =
            (self.queue.pop_front(), &self.tip, &self.claim)
        {
            if self.sabotage.removed(Rule::PruneWithoutBoundary)
                && let Append::Boundary { .. } = request
                && let Some(kind) = kind_of(&request, tip)
            {
                let number = tip.number();
                actions.push(Action::Appended { number, kind });
                continue;
            }
            let Some(kind) = kind_of(&request, tip) else {
                return self.look(actions);
            };
            let entry = Entry {
                number: tip.number().next(),
                prev: tip.hash(),
                epoch: tip.epoch(),
                nonce: claim.nonce,
                kind,
            };
            match tip.clone().extend_under(&entry, self.sabotage) {
                Ok(()) => return self.write(Writing::append(entry), actions),
                Err(error) => {
                    let why = Rejection::Invalid(error);
                    actions.push(Action::Rejected { request, why });
                }
            }
        }
    }

    /// Emits the request that the phase waits for.
    pub(super) fn issue(&mut self, actions: &mut Vec<Action>) {
        let Some(claim) = &self.claim else { return };
        let above = self.tip.as_ref().map_or(EntryNumber::NONE, Tip::number);
        let ticket = Ticket {
            nonce: claim.nonce,
            above,
            seq: self.seq,
        };
        let action = match &self.phase {
            Phase::Idle | Phase::Owner => return,
            Phase::Reading(reading) => reading.request(ticket),
            Phase::Writing(writing) => writing.request(ticket),
            Phase::Looking(look) => look.request(ticket, above),
        };
        self.seq += 1;
        self.awaited = Some(ticket);
        actions.push(action);
    }

    /// Waits a little, then does the same again. There is no last time: what is open stays open
    /// until it is known, or until a new claim takes its place.
    pub(super) fn retry(&mut self, now: MonoTime) {
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(6));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + wait.min(RETRY_MAX);
    }

    /// Makes the request that the phase waits for at this time.
    pub(super) fn read_later(&mut self, due: MonoTime) {
        self.awaited = None;
        self.retry_at = due;
    }

    pub(super) fn lose(&mut self, loss: Loss, actions: &mut Vec<Action>) {
        self.stop();
        actions.push(Action::Lost(loss));
    }

    pub(super) fn refuse(&mut self, refusal: Refusal, actions: &mut Vec<Action>) {
        self.stop();
        actions.push(Action::Refuse(refusal));
    }

    fn stop(&mut self) {
        self.claim = None;
        self.phase = Phase::Idle;
        self.queue.clear();
        self.awaited = None;
        self.seq = 0;
        self.succeeded();
    }

    /// The store answered: the next trouble starts with the shortest wait.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.retry_at = MonoTime::NEVER;
    }

    /// An entry was confirmed. Numbers only rise, so tickets may count from 0 again.
    pub(super) fn written(&mut self) {
        self.seq = 0;
    }

    /// Whether this answers what is outstanding. Late and repeated answers do not.
    fn accept(&mut self, ticket: Ticket, answer: Answer) -> bool {
        let fits = match &self.phase {
            Phase::Idle | Phase::Owner => false,
            Phase::Reading(reading) => reading.answer() == answer,
            Phase::Writing(writing) => writing.answer() == answer,
            Phase::Looking(look) => look.answer() == answer,
        };
        fits && self.awaited.take_if(|awaited| *awaited == ticket).is_some()
    }
}

/// What is written; nothing, if the request is for a look.
fn kind_of(request: &Append, tip: &Tip) -> Option<EntryKind> {
    Some(match request {
        Append::Reserve(count) => EntryKind::Reserve {
            ids: CheckpointIds::block(tip.ids().end, count.get()),
        },
        Append::Completed(checkpoint) => EntryKind::Completed(checkpoint.clone()),
        Append::Terminal(state) => EntryKind::Terminal(*state),
        Append::Boundary { retain } => {
            let kept = tip.completed().len().min(retain.get() as usize);
            EntryKind::Boundary {
                retained: tip.completed()[tip.completed().len() - kept..].to_vec(),
                ids: tip.ids(),
            }
        }
        Append::Nothing => return None,
    })
}
