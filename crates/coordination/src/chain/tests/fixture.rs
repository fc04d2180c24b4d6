//! A store with faults and a jobmanager that drives the machine against it, for the tests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use millstream_types::{CheckpointId, Checksum, Epoch, JobId, MonoTime, ObjectName};

use super::super::*;

pub(in crate::chain) const JOB: JobId = JobId::from_bytes(*b"a job for tests.");

/// What goes wrong with one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::chain) enum Fault {
    Nothing,
    /// An error; nothing was done.
    Refused,
    /// A write is done but its answer is lost.
    AnswerLost,
    /// Nobody knows, and the write never lands.
    Dropped,
    /// Nobody knows, and the write lands later.
    Late,
    /// A listing leaves out what is younger than [`LAG`]; anything else goes well.
    Behind,
}

/// How far behind a listing may be, in turns of the world.
pub(in crate::chain) const LAG: u64 = 12;

#[derive(Default)]
pub(in crate::chain) struct Store {
    pub(in crate::chain) objects: BTreeMap<EntryNumber, Vec<u8>>,
    /// The first entry that ever landed at each number: the true chain.
    pub(in crate::chain) history: BTreeMap<EntryNumber, Entry>,
    late: Vec<Entry>,
    pub(in crate::chain) turn: u64,
    /// When each object was created.
    created: BTreeMap<EntryNumber, u64>,
}

impl Store {
    fn create(&mut self, entry: &Entry) -> CreateOutcome {
        if self.objects.contains_key(&entry.number) {
            return CreateOutcome::AlreadyExists;
        }
        self.objects.insert(entry.number, entry.canonical_bytes());
        self.created.insert(entry.number, self.turn);
        self.history
            .entry(entry.number)
            .or_insert_with(|| entry.clone());
        CreateOutcome::Ok
    }

    /// Lets a write land that nobody waits for any more.
    pub(in crate::chain) fn land_late(&mut self, index: usize) {
        if !self.late.is_empty() {
            let entry = self.late.remove(index % self.late.len());
            self.create(&entry);
        }
    }

    pub(in crate::chain) fn entry(&self, number: u64) -> Entry {
        Entry::from_canonical_bytes(&self.objects[&EntryNumber(number)]).unwrap()
    }

    fn slot(&self, number: EntryNumber) -> Slot {
        match self
            .objects
            .get(&number)
            .map(|bytes| Entry::from_canonical_bytes(bytes))
        {
            Some(Ok(entry)) => Slot::Present(Box::new(entry)),
            Some(Err(error)) => Slot::Corrupt(error),
            None => Slot::Absent,
        }
    }

    fn answer(&mut self, action: Action, fault: Fault) -> Event {
        match action {
            Action::List { ticket, above } => {
                let is_listed = |number: &&EntryNumber| {
                    fault != Fault::Behind || self.created[*number] + LAG <= self.turn
                };
                let highest = self.objects.keys().rfind(is_listed);
                let highest = highest.filter(|number| **number > above);
                let listing = match (fault, highest) {
                    (Fault::Nothing | Fault::Behind, Some(number)) => Listing::Highest(*number),
                    (Fault::Nothing | Fault::Behind, None) => Listing::Empty,
                    _ => Listing::Unavailable,
                };
                Event::Listed { ticket, listing }
            }
            Action::Probe { ticket, number } | Action::ReadBack { ticket, number } => {
                let slot = match fault {
                    Fault::Nothing | Fault::Behind => self.slot(number),
                    _ => Slot::Unavailable,
                };
                Event::Read { ticket, slot }
            }
            Action::Create { ticket, entry } => {
                let outcome = match fault {
                    Fault::Nothing | Fault::Behind => self.create(&entry),
                    Fault::Refused => CreateOutcome::DidNotHappen,
                    Fault::AnswerLost => {
                        self.create(&entry);
                        CreateOutcome::MayHaveHappened
                    }
                    Fault::Dropped => CreateOutcome::MayHaveHappened,
                    Fault::Late => {
                        self.late.push(*entry);
                        CreateOutcome::MayHaveHappened
                    }
                };
                Event::Created { ticket, outcome }
            }
            Action::Claimed { .. }
            | Action::Appended { .. }
            | Action::Confirmed { .. }
            | Action::Rejected { .. }
            | Action::Lost(_)
            | Action::Refuse(_) => unreachable!("not a request to the store: {action:?}"),
        }
    }
}

/// A jobmanager: the machine, the request it waits for, and what it was told.
pub(in crate::chain) struct Jobmanager {
    pub(in crate::chain) chain: ClaimChain,
    pub(in crate::chain) request: Option<Action>,
    pub(in crate::chain) told: Vec<Action>,
}

impl Jobmanager {
    pub(in crate::chain) fn new() -> Self {
        let block = NonZeroU32::new(4).unwrap();
        Self {
            chain: ClaimChain::new(JOB, block),
            request: None,
            told: Vec::new(),
        }
    }

    pub(in crate::chain) fn feed(&mut self, now: MonoTime, event: Event) {
        let mut actions = Vec::new();
        self.chain.step(now, event, &mut actions);
        for action in actions {
            match action {
                Action::List { .. }
                | Action::Probe { .. }
                | Action::ReadBack { .. }
                | Action::Create { .. } => self.request = Some(action),
                Action::Claimed { .. }
                | Action::Appended { .. }
                | Action::Confirmed { .. }
                | Action::Rejected { .. }
                | Action::Lost(_)
                | Action::Refuse(_) => self.told.push(action),
            }
        }
    }

    /// Answers the request outstanding, or lets the deadline pass.
    pub(in crate::chain) fn go_on(&mut self, store: &mut Store, fault: Fault) {
        let event = match self.request.take() {
            Some(request) => store.answer(request, fault),
            None => Event::Tick,
        };
        self.feed(self.chain.deadline().min(MonoTime::ZERO), event.clone());
        if event == Event::Tick {
            self.feed(self.chain.deadline(), event);
        }
    }

    /// Goes on without faults until nothing is outstanding, and says what it was told.
    pub(in crate::chain) fn finish(&mut self, store: &mut Store) -> Vec<Action> {
        while self.request.is_some() || self.chain.deadline() < MonoTime::NEVER {
            self.go_on(store, Fault::Nothing);
        }
        std::mem::take(&mut self.told)
    }

    pub(in crate::chain) fn claim(&mut self, nonce: u128, job: JobRecord) {
        self.request = None;
        self.feed(
            MonoTime::ZERO,
            Event::Claim {
                nonce: WriterNonce(nonce),
                job,
            },
        );
    }

    pub(in crate::chain) fn append(&mut self, request: Append) {
        self.feed(MonoTime::ZERO, Event::Append(request));
    }
}

pub(in crate::chain) fn completed(id: u64) -> CompletedCheckpoint {
    CompletedCheckpoint {
        id: CheckpointId(id),
        metadata: ObjectName::new(&format!("chk-{id}/1-aa/_metadata")).unwrap(),
        checksum: Checksum(u128::from(id)),
    }
}

pub(in crate::chain) fn claimed(
    epoch: u64,
    restore: Option<(u64, u64, u64)>,
    first: u64,
) -> Action {
    Action::Claimed {
        epoch: Epoch(epoch),
        restore: restore.map(|(number, epoch, id)| RestorePoint {
            number: EntryNumber(number),
            epoch: Epoch(epoch),
            checkpoint: completed(id),
        }),
        ids: CheckpointIds::block(CheckpointId(first), 4),
    }
}

pub(in crate::chain) fn appended(number: u64, kind: EntryKind) -> Action {
    Action::Appended {
        number: EntryNumber(number),
        kind,
    }
}

/// A store and the owner of a chain in it, which has `CLAIM` and these completed checkpoints.
pub(in crate::chain) fn owner(checkpoints: &[u64]) -> (Store, Jobmanager) {
    let (mut store, mut owner) = (Store::default(), Jobmanager::new());
    owner.claim(1, JobRecord::BeingSubmitted);
    assert_eq!(owner.finish(&mut store), [claimed(1, None, 1)]);
    for &id in checkpoints {
        owner.append(Append::Completed(completed(id)));
        owner.finish(&mut store);
    }
    (store, owner)
}
