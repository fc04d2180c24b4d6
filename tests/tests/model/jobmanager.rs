//! A jobmanager: the production claim chain, and triggering, acknowledging and expiring as far as
//! the invariants need them.

use std::num::NonZeroU32;
use std::sync::Arc;

use millstream_coordination::chain::{
    Action, Append, ClaimChain, CompletedCheckpoint, CreateOutcome, Entry, EntryKind, Event,
    JobRecord, Loss, WriterNonce,
};
use millstream_types::{CheckpointId, Checksum, JobId, MonoTime};

use super::tasks::Lineage;
use super::world::{Cut, Message, Step, TransactionId, World};
use super::{ExactlyOnce, Fence};

/// The one job of the model.
pub(super) const JOB: JobId = JobId::from_bytes(*b"job of the model");

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Jobmanager {
    chain: ClaimChain,
    /// The write to the chain that it waits for, as the machine asked for it.
    writing: Option<Action>,
    run: Option<Run>,
}

/// What it runs, from `Claimed` until it claims again or loses the claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Run {
    epoch: u8,
    next_id: u8,
    end_id: u8,
    pending: Option<Pending>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pending {
    id: u8,
    offset: Option<u8>,
    prepared: Option<Vec<TransactionId>>,
}

impl Jobmanager {
    pub(super) fn new(model: &ExactlyOnce) -> Self {
        let block = NonZeroU32::new(model.bounds.checkpoints).expect("a checkpoint at least");
        let chain = ClaimChain::with_sabotage(JOB, block, model.sabotage);
        Self {
            chain,
            writing: None,
            run: None,
        }
    }

    pub(super) fn expire(&mut self) {
        if let Some(run) = &mut self.run {
            run.pending = None;
        }
    }

    /// Whether the pending checkpoint waits for this acknowledgement.
    fn awaits(&self, model: &ExactlyOnce, message: &Message) -> bool {
        let Some(run) = &self.run else { return false };
        let Some(pending) = &run.pending else {
            return false;
        };
        let (epoch, id, open) = match message {
            Message::SourceAck { epoch, id, .. } => (epoch, id, pending.offset.is_none()),
            Message::SinkAck { epoch, id, .. } => (epoch, id, pending.prepared.is_none()),
            Message::Trigger { .. } | Message::Notify { .. } => return false,
        };
        let ours = *epoch == run.epoch || !model.keeps(Fence::AckEpoch);
        ours && *id == pending.id && open
    }
}

impl World {
    pub(super) fn jobmanager_steps(&self, model: &ExactlyOnce, steps: &mut Vec<Step>) {
        if !self.moved && model.bounds.jobmanagers > 1 && !self.chain.is_empty() {
            steps.push(Step::Elect);
        }
        for (who, jobmanager) in self.jobmanagers.iter().enumerate() {
            let elected = self.moved == (who == 1);
            // The first claim submits the job, and only then is there anything to take over.
            let may = elected || !model.keeps(Fence::OnlyTheElectedClaims) && self.moved;
            if may && self.claims < model.bounds.epochs {
                steps.push(Step::Claim(who));
            }
            if jobmanager.writing.is_some() {
                steps.push(Step::Write(who));
                if self.unknown_outcomes < model.bounds.unknown_outcomes {
                    steps.push(Step::LoseTrack(who));
                }
            }
            let Some(run) = &jobmanager.run else { continue };
            match run.pending {
                Some(_) => steps.push(Step::Expire(who)),
                None if jobmanager.writing.is_none() && run.next_id < run.end_id => {
                    steps.push(Step::Trigger(who));
                }
                None => {}
            }
            let acks = self
                .network
                .iter()
                .filter(|ack| jobmanager.awaits(model, ack));
            steps.extend(acks.map(|ack| Step::Ack(who, ack.clone())));
        }
        steps.extend(
            self.late
                .keys()
                .map(|(number, nonce)| Step::LandLate(*number, *nonce)),
        );
    }

    pub(super) fn claim(&mut self, who: usize) {
        self.claims += 1;
        let nonce = WriterNonce(self.claims.into());
        let job = match self.claims {
            1 => JobRecord::BeingSubmitted,
            _ => JobRecord::Stored,
        };
        let jobmanager = Arc::make_mut(&mut self.jobmanagers[who]);
        jobmanager.run = None;
        if let Some(Action::Create { entry, .. }) = jobmanager.writing.take() {
            self.stop_waiting_for(*entry);
        }
        self.drive(who, Event::Claim { nonce, job });
    }

    pub(super) fn write(&mut self, who: usize) {
        let writing = Arc::make_mut(&mut self.jobmanagers[who]).writing.take();
        if let Some(Action::Create { ticket, entry }) = writing {
            let outcome = self.create(&entry);
            self.drive(who, Event::Created { ticket, outcome });
        }
    }

    pub(super) fn lose_track(&mut self, who: usize) {
        let writing = Arc::make_mut(&mut self.jobmanagers[who]).writing.take();
        if let Some(Action::Create { ticket, entry }) = writing {
            self.unknown_outcomes += 1;
            self.stop_waiting_for(*entry);
            let outcome = CreateOutcome::MayHaveHappened;
            self.drive(who, Event::Created { ticket, outcome });
        }
    }

    fn stop_waiting_for(&mut self, entry: Entry) {
        self.late
            .insert((entry.number, entry.nonce.0), Arc::new(entry));
        self.forget_hopeless_writes();
    }

    /// Feeds the machine and answers its reads at once, until it waits for a write or for us.
    fn drive(&mut self, who: usize, event: Event) {
        let mut jobmanager = (*self.jobmanagers[who]).clone();
        let mut events = vec![(MonoTime::ZERO, event)];
        while let Some((now, event)) = events.pop() {
            let mut actions = Vec::new();
            jobmanager.chain.step(now, event, &mut actions);
            for action in actions {
                let answer = self.perform(&mut jobmanager, action);
                events.extend(answer.map(|event| (MonoTime::ZERO, event)));
            }
            let deadline = jobmanager.chain.deadline();
            if deadline < MonoTime::NEVER {
                events.push((deadline, Event::Tick));
            }
        }
        self.jobmanagers[who] = Arc::new(jobmanager);
    }

    fn perform(&mut self, jobmanager: &mut Jobmanager, action: Action) -> Option<Event> {
        match action {
            Action::List { ticket, above } => {
                let listing = self.list(above);
                return Some(Event::Listed { ticket, listing });
            }
            Action::Probe { ticket, number } | Action::ReadBack { ticket, number } => {
                let slot = self.read(number);
                return Some(Event::Read { ticket, slot });
            }
            Action::Create { .. } => jobmanager.writing = Some(action),
            Action::Claimed {
                epoch,
                restore,
                ids,
            } => {
                let cut = restore.map(|point| Cut::of(&point.checkpoint.metadata));
                let epoch = epoch.0 as u8;
                self.lineages
                    .insert(epoch, Arc::new(Lineage::restored(cut.unwrap_or_default())));
                let (next_id, end_id) = (ids.first.0 as u8, ids.end.0 as u8);
                jobmanager.run = Some(Run {
                    epoch,
                    next_id,
                    end_id,
                    pending: None,
                });
            }
            Action::Appended {
                kind: EntryKind::Completed(checkpoint),
                ..
            } => {
                if let Some(run) = &jobmanager.run {
                    let id = checkpoint.id.0 as u8;
                    self.send(Message::Notify {
                        epoch: run.epoch,
                        id,
                    });
                }
            }
            Action::Lost(Loss::SlotTaken { .. } | Loss::Passed { .. }) | Action::Refuse(_) => {
                jobmanager.run = None;
            }
            Action::Appended { .. } => unreachable!("only checkpoints are appended"),
            // A sabotaged chain may look broken to its owner, who then gives the checkpoint up.
            Action::Confirmed { .. } | Action::Rejected { .. } => {}
        }
        None
    }

    pub(super) fn trigger(&mut self, who: usize) {
        let jobmanager = Arc::make_mut(&mut self.jobmanagers[who]);
        let Some(run) = &mut jobmanager.run else {
            return;
        };
        let (epoch, id) = (run.epoch, run.next_id);
        run.next_id += 1;
        run.pending = Some(Pending {
            id,
            offset: None,
            prepared: None,
        });
        self.send(Message::Trigger { epoch, id });
    }

    /// Counts an acknowledgement; the last one completes the checkpoint.
    pub(super) fn ack(&mut self, who: usize, message: &Message) {
        let jobmanager = Arc::make_mut(&mut self.jobmanagers[who]);
        let Some(run) = &mut jobmanager.run else {
            return;
        };
        let Some(pending) = &mut run.pending else {
            return;
        };
        match message {
            Message::SourceAck { offset, .. } => pending.offset = Some(*offset),
            Message::SinkAck { prepared, .. } => pending.prepared = Some(prepared.clone()),
            Message::Trigger { .. } | Message::Notify { .. } => {}
        }
        let (Some(offset), Some(promised)) = (pending.offset, pending.prepared.clone()) else {
            return;
        };
        let id = pending.id;
        run.pending = None;
        let checkpoint = CompletedCheckpoint {
            id: CheckpointId(id.into()),
            metadata: Cut { offset, promised }.object_name(id),
            checksum: Checksum(0),
        };
        self.drive(who, Event::Append(Append::Completed(checkpoint)));
    }
}
