//! The task that runs one chain: one machine, at most one request to the store.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_coordination::chain::{
    Action, Append, CheckpointIds, ClaimChain, CreateOutcome, Entry, EntryKind, EntryNumber, Event,
    JobRecord, Listing, Loss, Pruning, Rejection, RestorePoint, Slot, Tip, WriterNonce,
};
use millstream_types::{Epoch, JobId, WriteOutcome};
use tokio::sync::{mpsc, oneshot};

use super::{ChainFailure, Trouble};
use crate::error::StoreError;
use crate::names::{self, Named};
use crate::store::{Created, Store};

/// An entry is a few hundred bytes; a boundary names the retained checkpoints.
const ENTRY_BYTES_MAX: u64 = 1 << 20;

/// Reads of an entry that makes no sense, before the object is to blame and not the link.
const READS_MAX: u32 = 3;

/// Appends that wait for the one that is being written; more are refused, never a claim.
const WAITING_MAX: usize = 64;

/// Names listed in one request.
const PAGE: usize = 1_000;

pub(super) type ClaimReply =
    oneshot::Sender<Result<(Epoch, Option<RestorePoint>, CheckpointIds), ChainFailure>>;
pub(super) type AppendReply = oneshot::Sender<Result<Appended, ChainFailure>>;
pub(super) type ConfirmReply = oneshot::Sender<Result<Epoch, ChainFailure>>;

/// An entry that is durable.
pub(super) struct Appended {
    pub(super) number: EntryNumber,
    pub(super) kind: EntryKind,
    /// Entries below may be deleted.
    pub(super) prunable_below: EntryNumber,
    /// The completed checkpoints that the chain knows then, oldest first.
    pub(super) completed: Vec<RestorePoint>,
}

/// A call of a handle.
pub(super) enum Request {
    Claim {
        record: JobRecord,
        reply: ClaimReply,
    },
    Append {
        append: Append,
        reply: AppendReply,
    },
    /// A look whether the claim is still the newest.
    Confirm {
        reply: ConfirmReply,
    },
    /// Which entries may be deleted by now.
    Prunable {
        reply: oneshot::Sender<Result<EntryNumber, ChainFailure>>,
    },
}

/// Who waits for something in line.
enum InLine {
    Append(AppendReply),
    Confirm(ConfirmReply),
}

pub(super) struct Driver {
    store: Store,
    job: JobId,
    machine: ClaimChain,
    claim: Option<ClaimReply>,
    /// The append that the machine has; it gets one at a time, so that its answer is this one's.
    append: Option<InLine>,
    waiting: VecDeque<(Append, InLine)>,
    pruning: Pruning,
    in_flight: Option<BoxFuture<'static, Event>>,
    /// How the claim was lost. Whoever asks next is told, not only who asked when it was found out.
    lost: Option<Loss>,
    /// What the store last failed with, until it serves a request again.
    trouble: Trouble,
}

impl Driver {
    pub(super) fn new(
        store: Store,
        job: JobId,
        machine: ClaimChain,
        pruning: Pruning,
        trouble: Trouble,
    ) -> Self {
        Self {
            store,
            job,
            machine,
            claim: None,
            append: None,
            waiting: VecDeque::new(),
            pruning,
            in_flight: None,
            lost: None,
            trouble,
        }
    }

    /// Serves calls until the last handle is gone.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let answered = match &mut self.in_flight {
                Some(request) => request.as_mut().left_future(),
                None => pending().right_future(),
            };
            let due = self.store.clock().sleep_until(self.machine.deadline());
            // Nothing is lost when a branch is dropped: the request stays in `in_flight`.
            tokio::select! {
                biased;
                event = answered => {
                    self.in_flight = None;
                    self.step(event);
                }
                request = requests.recv() => match request {
                    Some(request) => self.on_request(request),
                    None => return,
                },
                () = due => self.step(Event::Tick),
            }
        }
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Claim { record, reply } => {
                let job = self.job;
                self.end_all(|| ChainFailure::GivenUp { job });
                // Whatever is on its way to the store is settled by the claim's own slot.
                self.in_flight = None;
                self.lost = None;
                self.claim = Some(reply);
                let nonce = WriterNonce(u128::from_be_bytes(self.store.rng().bytes16()));
                self.step(Event::Claim { nonce, job: record });
            }
            Request::Append { append, reply } => self.wait_in_line(append, InLine::Append(reply)),
            Request::Confirm { reply } => {
                self.wait_in_line(Append::Nothing, InLine::Confirm(reply));
            }
            Request::Prunable { reply } => {
                let now = self.store.clock().monotonic();
                // Whoever asked may have gone.
                let _ = reply.send(Ok(self.pruning.prunable_below(now)));
            }
        }
    }

    fn wait_in_line(&mut self, append: Append, who: InLine) {
        if self.waiting.len() >= WAITING_MAX {
            let (job, limit) = (self.job, WAITING_MAX);
            let rejection = Rejection::QueueFull { limit };
            return who.fail(ChainFailure::Rejected { job, rejection });
        }
        self.waiting.push_back((append, who));
        self.append_next();
    }

    fn append_next(&mut self) {
        while self.append.is_none()
            && let Some((append, who)) = self.waiting.pop_front()
        {
            self.append = Some(who);
            self.step(Event::Append(append));
        }
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.machine
            .step(self.store.clock().monotonic(), event, &mut actions);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        let job = self.job;
        match action {
            Action::List { ticket, above } => {
                self.request(list(self.store.clone(), above), move |listing| {
                    Event::Listed {
                        ticket,
                        listing: listing.unwrap_or(Listing::Unavailable),
                    }
                });
            }
            Action::Probe { ticket, number } | Action::ReadBack { ticket, number } => {
                self.request(read(self.store.clone(), number), move |slot| Event::Read {
                    ticket,
                    slot: slot.unwrap_or(Slot::Unavailable),
                });
            }
            Action::Create { ticket, entry } => {
                let created = move |created| Event::Created {
                    ticket,
                    outcome: create_outcome(created),
                };
                self.request(create(self.store.clone(), *entry), created);
            }
            Action::Claimed {
                epoch,
                restore,
                ids,
            } => {
                if let Some(reply) = self.claim.take() {
                    // A caller that went away has no use for the answer.
                    let _ = reply.send(Ok((epoch, restore, ids)));
                }
                self.append_next();
            }
            Action::Appended { number, kind } => self.on_appended(number, kind),
            Action::Confirmed { epoch } => {
                if let Some(InLine::Confirm(reply)) = self.append.take() {
                    let _ = reply.send(Ok(epoch));
                }
                self.append_next();
            }
            Action::Rejected { why: rejection, .. } => {
                if let Some(who) = self.append.take() {
                    who.fail(match (rejection, self.lost.clone()) {
                        (Rejection::NotTheOwner, Some(loss)) => ChainFailure::Fenced { job, loss },
                        (rejection, _) => ChainFailure::Rejected { job, rejection },
                    });
                }
                self.append_next();
            }
            Action::Lost(loss) => {
                self.lost = Some(loss.clone());
                self.end_all(|| ChainFailure::Fenced {
                    job,
                    loss: loss.clone(),
                });
            }
            Action::Refuse(refusal) => {
                let directory = self.store.address();
                self.end_all(|| ChainFailure::Refused {
                    job,
                    directory: directory.clone(),
                    refusal: refusal.clone(),
                });
            }
        }
    }

    fn on_appended(&mut self, number: EntryNumber, kind: EntryKind) {
        let now = self.store.clock().monotonic();
        if let EntryKind::Boundary { .. } = kind {
            self.pruning.on_boundary(now, number);
        }
        // Whoever waits may have gone away.
        if let Some(InLine::Append(reply)) = self.append.take() {
            let _ = reply.send(Ok(Appended {
                number,
                kind,
                prunable_below: self.pruning.prunable_below(now),
                completed: self.machine.tip().map_or_else(Vec::new, completed),
            }));
        }
        self.append_next();
    }

    fn request<T: 'static>(
        &mut self,
        request: impl Future<Output = Result<T, Arc<StoreError>>> + Send + 'static,
        event: impl FnOnce(Result<T, Arc<StoreError>>) -> Event + Send + 'static,
    ) {
        let trouble = self.trouble.clone();
        let served = request.map(move |served| {
            *trouble.lock() = served.as_ref().err().cloned();
            event(served)
        });
        self.in_flight = Some(served.boxed());
    }

    fn end_all(&mut self, failure: impl Fn() -> ChainFailure) {
        if let Some(reply) = self.claim.take() {
            let _ = reply.send(Err(failure()));
        }
        let waiting = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|(_, who)| who);
        for who in self.append.take().into_iter().chain(waiting) {
            who.fail(failure());
        }
    }
}

impl InLine {
    /// Whoever waits may have gone away.
    fn fail(self, failure: ChainFailure) {
        match self {
            Self::Append(reply) => drop(reply.send(Err(failure))),
            Self::Confirm(reply) => drop(reply.send(Err(failure))),
        }
    }
}

fn completed(tip: &Tip) -> Vec<RestorePoint> {
    tip.completed().to_vec()
}

pub(super) async fn list(store: Store, above: EntryNumber) -> Result<Listing, Arc<StoreError>> {
    let mut after = (above > EntryNumber::NONE).then(|| store.mark(&names::chain(above.0)));
    let mut highest = Listing::Empty;
    loop {
        let page = store
            .list(names::CHAIN_FOLDER, after.as_ref(), PAGE)
            .await?;
        let numbers = page
            .names
            .iter()
            .filter_map(|name| match names::parse(name) {
                Some(Named::Chain(number)) if number > above.0 => Some(number),
                Some(_) | None => None,
            });
        if let Some(number) = numbers.max() {
            highest = Listing::Highest(EntryNumber(number));
        }
        after = page.next;
        if after.is_none() {
            return Ok(highest);
        }
    }
}

pub(super) async fn read(store: Store, number: EntryNumber) -> Result<Slot, Arc<StoreError>> {
    let name = names::chain(number.0);
    let mut reads = 0;
    loop {
        reads += 1;
        let bytes = match store.get(&name, ENTRY_BYTES_MAX).await {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound { .. }) => return Ok(Slot::Absent),
            Err(error) => return Err(error.into()),
        };
        match Entry::from_canonical_bytes(&bytes) {
            Ok(entry) => return Ok(Slot::Present(Box::new(entry))),
            Err(error) if reads == READS_MAX => return Ok(Slot::Corrupt(error)),
            Err(_) => {}
        }
    }
}

async fn create(store: Store, entry: Entry) -> Result<Created, Arc<StoreError>> {
    let bytes = Bytes::from(entry.canonical_bytes());
    Ok(store
        .create_entry(&names::chain(entry.number.0), bytes)
        .await?)
}

fn create_outcome(created: Result<Created, Arc<StoreError>>) -> CreateOutcome {
    match created {
        Ok(Created::New) => CreateOutcome::Ok,
        Ok(Created::Exists) => CreateOutcome::AlreadyExists,
        Err(error) => match error.outcome() {
            WriteOutcome::DidNotHappen => CreateOutcome::DidNotHappen,
            WriteOutcome::MayHaveHappened => CreateOutcome::MayHaveHappened,
        },
    }
}
