//! Tasks and the transaction system they write to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::world::{Cut, Message, Step, TransactionId, World};
use super::{ExactlyOnce, Fence};

/// Source, channel and sink that one epoch deployed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lineage {
    offset: u8,
    last_barrier: u8,
    channel: VecDeque<Element>,
    sink: Sink,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Element {
    Record,
    Barrier(u8),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Sink {
    /// Deployed, perhaps never to start.
    Deployed(Cut),
    Running {
        /// Records before the open transaction, and those in it.
        from: u8,
        to: u8,
        /// Prepared and not committed yet.
        prepared: Vec<TransactionId>,
    },
    /// The transaction system refused it: a newer attempt has fenced it.
    Fenced,
}

/// The transaction system outside.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Sinks {
    /// Attempts of older epochs are refused.
    fence: u8,
    pub(super) transactions: BTreeMap<TransactionId, Transaction>,
    /// Someone committed what had been aborted.
    pub(super) committed_after_abort: bool,
}

/// Records `from..to`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Transaction {
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum State {
    Prepared,
    Committed,
    Aborted,
}

impl Lineage {
    pub(super) fn restored(cut: Cut) -> Self {
        Self {
            offset: cut.offset,
            last_barrier: 0,
            channel: VecDeque::new(),
            sink: Sink::Deployed(cut),
        }
    }

    pub(super) fn emit(&mut self) {
        self.offset += 1;
        self.channel.push_back(Element::Record);
    }

    /// Whether a notice about checkpoint `id` has anything to commit here.
    fn awaits(&self, id: u8) -> bool {
        match &self.sink {
            Sink::Running { prepared, .. } => prepared.iter().any(|(_, of)| *of <= id),
            Sink::Deployed(_) | Sink::Fenced => false,
        }
    }
}

impl Sinks {
    fn commit(&mut self, id: TransactionId) {
        if let Some(transaction) = self.transactions.get_mut(&id) {
            self.committed_after_abort |= transaction.state == State::Aborted;
            if transaction.state == State::Prepared {
                transaction.state = State::Committed;
            }
        }
    }

    fn abort_prepared(&mut self) {
        for transaction in self.transactions.values_mut() {
            if transaction.state == State::Prepared {
                transaction.state = State::Aborted;
            }
        }
    }
}

impl World {
    pub(super) fn task_steps(&self, model: &ExactlyOnce, steps: &mut Vec<Step>) {
        for (&epoch, lineage) in &self.lineages {
            if lineage.sink == Sink::Fenced {
                continue;
            }
            if lineage.offset < model.bounds.records {
                steps.push(Step::Emit(epoch));
            }
            match &lineage.sink {
                Sink::Deployed(_) => steps.push(Step::StartSink(epoch)),
                Sink::Running { .. } if !lineage.channel.is_empty() => {
                    steps.push(Step::Sink(epoch))
                }
                Sink::Running { .. } | Sink::Fenced => {}
            }
            for message in self.network.iter() {
                match message {
                    Message::Trigger { epoch: to, id }
                        if *to == epoch && *id > lineage.last_barrier =>
                    {
                        steps.push(Step::Barrier(epoch, *id));
                    }
                    Message::Notify { epoch: to, id }
                        if (*to == epoch || !model.keeps(Fence::NotifyEpoch))
                            && lineage.awaits(*id) =>
                    {
                        steps.push(Step::Commit(epoch, *id));
                    }
                    Message::Trigger { .. }
                    | Message::Notify { .. }
                    | Message::SourceAck { .. }
                    | Message::SinkAck { .. } => {}
                }
            }
        }
    }

    pub(super) fn lineage(&mut self, epoch: u8) -> &mut Lineage {
        Arc::make_mut(
            self.lineages
                .get_mut(&epoch)
                .expect("steps name deployed epochs"),
        )
    }

    pub(super) fn barrier(&mut self, epoch: u8, id: u8) {
        let lineage = self.lineage(epoch);
        lineage.last_barrier = id;
        lineage.channel.push_back(Element::Barrier(id));
        let offset = lineage.offset;
        self.send(Message::SourceAck { epoch, id, offset });
    }

    /// Fence older attempts, commit what the checkpoint promised, abort the rest, then write.
    pub(super) fn start_sink(&mut self, model: &ExactlyOnce, epoch: u8) {
        let Sink::Deployed(cut) = self.lineage(epoch).sink.clone() else {
            return;
        };
        let sinks = Arc::make_mut(&mut self.sinks);
        if epoch < sinks.fence {
            self.lineage(epoch).sink = Sink::Fenced;
            return;
        }
        if model.keeps(Fence::SinkFenced) {
            sinks.fence = epoch;
        }
        if model.keeps(Fence::PromisesCommitted) {
            cut.promised.iter().for_each(|id| sinks.commit(*id));
        }
        sinks.abort_prepared();
        let (from, to) = (cut.offset, cut.offset);
        self.lineage(epoch).sink = Sink::Running {
            from,
            to,
            prepared: Vec::new(),
        };
    }

    pub(super) fn sink_takes(&mut self, model: &ExactlyOnce, epoch: u8) {
        let fenced = model.keeps(Fence::SinkFenced) && epoch < self.sinks.fence;
        let lineage = self.lineage(epoch);
        let element = lineage.channel.pop_front();
        let Sink::Running { from, to, prepared } = &mut lineage.sink else {
            return;
        };
        match element {
            Some(Element::Record) => *to += 1,
            Some(Element::Barrier(_)) if fenced => {
                lineage.sink = Sink::Fenced;
                lineage.channel.clear();
            }
            Some(Element::Barrier(id)) => {
                let transaction = Transaction {
                    from: *from,
                    to: *to,
                    state: State::Prepared,
                };
                let wrote = from < to;
                *from = *to;
                if wrote {
                    prepared.push((epoch, id));
                }
                let prepared = prepared.clone();
                if wrote {
                    let sinks = Arc::make_mut(&mut self.sinks);
                    sinks.transactions.insert((epoch, id), transaction);
                }
                self.send(Message::SinkAck {
                    epoch,
                    id,
                    prepared,
                });
            }
            None => {}
        }
    }

    /// A completed checkpoint commits everything prepared up to it.
    pub(super) fn commit_up_to(&mut self, epoch: u8, id: u8) {
        let Sink::Running { prepared, .. } = &mut self.lineage(epoch).sink else {
            return;
        };
        let (commit, keep) = prepared.iter().copied().partition(|(_, of)| *of <= id);
        let commit: Vec<TransactionId> = commit;
        *prepared = keep;
        let sinks = Arc::make_mut(&mut self.sinks);
        commit.into_iter().for_each(|id| sinks.commit(id));
    }
}
