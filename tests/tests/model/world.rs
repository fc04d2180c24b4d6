//! The state of the model and the steps between states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_coordination::chain::{CreateOutcome, Entry, EntryKind, EntryNumber, Listing, Slot};
use millstream_types::ObjectName;

use super::ExactlyOnce;
use super::jobmanager::Jobmanager;
use super::tasks::{Lineage, Sinks};

/// A transaction at the sink: the epoch and the checkpoint that prepared it.
pub(super) type TransactionId = (u8, u8);

/// Everything there is. Parts are shared between states that do not differ in them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The objects of the chain.
    pub(super) chain: Arc<BTreeMap<EntryNumber, Entry>>,
    /// Writes nobody waits for that may still land.
    pub(super) late: BTreeMap<(EntryNumber, u128), Arc<Entry>>,
    pub(super) unknown_outcomes: u8,
    pub(super) jobmanagers: [Arc<Jobmanager>; 2],
    /// Whether the second jobmanager was elected in place of the first.
    pub(super) moved: bool,
    pub(super) claims: u8,
    /// The tasks that each epoch deployed. None is ever gone.
    pub(super) lineages: BTreeMap<u8, Arc<Lineage>>,
    pub(super) network: Arc<BTreeSet<Message>>,
    pub(super) sinks: Arc<Sinks>,
}

/// What travels between jobmanagers and tasks. It is never taken out: not to arrive is to be
/// lost, to arrive again is to be repeated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// To a source.
    Trigger {
        /// Of the jobmanager.
        epoch: u8,
        /// The checkpoint.
        id: u8,
    },
    /// From a source: it stood at this offset.
    SourceAck {
        /// Of the task.
        epoch: u8,
        /// The checkpoint.
        id: u8,
        /// Records before the barrier.
        offset: u8,
    },
    /// From a sink: these transactions are prepared.
    SinkAck {
        /// Of the task.
        epoch: u8,
        /// The checkpoint.
        id: u8,
        /// Prepared and not committed yet.
        prepared: Vec<TransactionId>,
    },
    /// To a sink: the checkpoint is complete.
    Notify {
        /// Of the jobmanager.
        epoch: u8,
        /// The checkpoint.
        id: u8,
    },
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The second jobmanager is elected; the first does not learn of it.
    Elect,
    /// A jobmanager claims: a start, a restart or a takeover.
    Claim(usize),
    /// The write of a jobmanager reaches the store, and the answer reaches the jobmanager.
    Write(usize),
    /// Nobody knows what became of the write.
    LoseTrack(usize),
    /// A write nobody waits for lands at this number; the nonce says whose it is.
    LandLate(EntryNumber, u128),
    /// A checkpoint begins.
    Trigger(usize),
    /// A checkpoint is given up.
    Expire(usize),
    /// An acknowledgement reaches a jobmanager.
    Ack(usize, Message),
    /// The source of an epoch emits its next record.
    Emit(u8),
    /// A trigger reaches the source of this epoch: it sends the barrier of this checkpoint.
    Barrier(u8, u8),
    /// The sink of an epoch starts: it fences, commits what was promised, aborts the rest.
    StartSink(u8),
    /// The sink of an epoch takes the next element of its channel.
    Sink(u8),
    /// A notice reaches the sink of this epoch: it commits up to this checkpoint.
    Commit(u8, u8),
}

/// Where a checkpoint stands: what its metadata says. The model keeps it in the object's name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Cut {
    pub(super) offset: u8,
    pub(super) promised: Vec<TransactionId>,
}

impl Cut {
    pub(super) fn object_name(&self, id: u8) -> ObjectName {
        let promised: Vec<_> = self
            .promised
            .iter()
            .map(|(e, c)| format!("{e}.{c}"))
            .collect();
        let name = format!("chk-{id}/{}/p-{}", self.offset, promised.join("-"));
        ObjectName::new(&name).expect("digits, dots and dashes")
    }

    pub(super) fn of(name: &ObjectName) -> Self {
        let mut segments = name.as_str().split('/').skip(1);
        let offset = segments.next().map(number).expect("written by object_name");
        let promised = segments.next().expect("written by object_name");
        let pairs = promised
            .split('-')
            .skip(1)
            .filter_map(|pair| pair.split_once('.'));
        Self {
            offset,
            promised: pairs.map(|(e, c)| (number(e), number(c))).collect(),
        }
    }
}

fn number(text: &str) -> u8 {
    text.parse().expect("written by object_name")
}

impl World {
    pub(super) fn new(model: &ExactlyOnce) -> Self {
        let jobmanager = Arc::new(Jobmanager::new(model));
        Self {
            chain: Arc::default(),
            late: BTreeMap::new(),
            unknown_outcomes: 0,
            jobmanagers: [Arc::clone(&jobmanager), jobmanager],
            moved: false,
            claims: 0,
            lineages: BTreeMap::new(),
            network: Arc::default(),
            sinks: Arc::default(),
        }
    }

    pub(super) fn take(&mut self, model: &ExactlyOnce, step: Step) {
        match step {
            Step::Elect => self.moved = true,
            Step::Claim(who) => self.claim(who),
            Step::Write(who) => self.write(who),
            Step::LoseTrack(who) => self.lose_track(who),
            Step::LandLate(number, nonce) => {
                if let Some(entry) = self.late.remove(&(number, nonce)) {
                    self.create(&entry);
                }
            }
            Step::Trigger(who) => self.trigger(who),
            Step::Expire(who) => Arc::make_mut(&mut self.jobmanagers[who]).expire(),
            Step::Ack(who, message) => self.ack(who, &message),
            Step::Emit(epoch) => self.lineage(epoch).emit(),
            Step::Barrier(epoch, id) => self.barrier(epoch, id),
            Step::StartSink(epoch) => self.start_sink(model, epoch),
            Step::Sink(epoch) => self.sink_takes(model, epoch),
            Step::Commit(epoch, id) => self.commit_up_to(epoch, id),
        }
    }

    pub(super) fn send(&mut self, message: Message) {
        Arc::make_mut(&mut self.network).insert(message);
    }

    /// Create-if-absent.
    pub(super) fn create(&mut self, entry: &Entry) -> CreateOutcome {
        if self.chain.contains_key(&entry.number) {
            return CreateOutcome::AlreadyExists;
        }
        Arc::make_mut(&mut self.chain).insert(entry.number, entry.clone());
        self.forget_hopeless_writes();
        CreateOutcome::Ok
    }

    /// A late write whose number is taken can no more have an effect.
    pub(super) fn forget_hopeless_writes(&mut self) {
        let chain = &self.chain;
        self.late
            .retain(|(number, _), _| !chain.contains_key(number));
    }

    pub(super) fn read(&self, number: EntryNumber) -> Slot {
        match self.chain.get(&number) {
            Some(entry) => Slot::Present(Box::new(entry.clone())),
            None => Slot::Absent,
        }
    }

    pub(super) fn list(&self, above: EntryNumber) -> Listing {
        match self.chain.keys().next_back() {
            Some(highest) if *highest > above => Listing::Highest(*highest),
            Some(_) | None => Listing::Empty,
        }
    }

    /// The newest completed checkpoint in the store, whoever wrote it.
    pub(super) fn durable_cut(&self) -> Cut {
        let newest = self
            .chain
            .values()
            .rev()
            .find_map(|entry| match &entry.kind {
                EntryKind::Completed(checkpoint) => Some(Cut::of(&checkpoint.metadata)),
                EntryKind::Claim { .. }
                | EntryKind::Reserve { .. }
                | EntryKind::Terminal(_)
                | EntryKind::Boundary { .. } => None,
            });
        newest.unwrap_or_default()
    }
}
