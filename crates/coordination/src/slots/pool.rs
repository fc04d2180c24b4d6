//! The pool itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_types::{
    Epoch, Incarnation, JobId, MonoTime, SlotIndex, SubtaskId, TaskmanagerId, rounded,
};

use super::messages::{Action, Event, RegistrationRefusal};
use super::{SlotDemand, SlotRef};
use crate::failure::{FailureInfo, FailureKind};

/// Who has a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Nobody,
    Job(JobId, Epoch),
    /// A task that does not stop.
    Abandoned,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Taskmanager {
    incarnation: Incarnation,
    slots: Vec<Holder>,
    is_draining: bool,
}

impl Taskmanager {
    fn free(&self) -> usize {
        if self.is_draining {
            return 0;
        }
        self.slots
            .iter()
            .filter(|slot| **slot == Holder::Nobody)
            .count()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Request {
    epoch: Epoch,
    demand: SlotDemand,
    previous: BTreeMap<SubtaskId, TaskmanagerId>,
    give_up_at: MonoTime,
    /// Order of arrival: first come, first served.
    seq: u64,
}

/// How many dead incarnations of one taskmanager are remembered.
const DEAD_REMEMBERED: usize = 16;

/// The slot pool of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotPool {
    request_timeout: Duration,
    taskmanagers: BTreeMap<TaskmanagerId, Taskmanager>,
    dead: BTreeMap<TaskmanagerId, Vec<Incarnation>>,
    waiting: BTreeMap<JobId, Request>,
    next_seq: u64,
}

impl SlotPool {
    /// A pool without taskmanagers; `request_timeout` is `slot.request.timeout`.
    pub fn new(request_timeout: Duration) -> Self {
        Self {
            request_timeout,
            taskmanagers: BTreeMap::new(),
            dead: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_seq: 0,
        }
    }

    /// Number of slots, and how many of them are free.
    pub fn slots(&self) -> (usize, usize) {
        let all = self.taskmanagers.values();
        (
            all.clone().map(|tm| tm.slots.len()).sum(),
            all.map(Taskmanager::free).sum(),
        )
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> MonoTime {
        let due = self.waiting.values().map(|request| request.give_up_at);
        due.min().unwrap_or(MonoTime::NEVER)
    }

    /// Takes an event; appends what is to be done.
    pub fn step(&mut self, now: MonoTime, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Register {
                taskmanager,
                incarnation,
                slots,
            } => self.on_register(taskmanager, incarnation, slots, actions),
            Event::Lost {
                taskmanager,
                incarnation,
            } => self.on_lost(&taskmanager, incarnation),
            Event::Draining { taskmanager } => {
                if let Some(known) = self.taskmanagers.get_mut(&taskmanager) {
                    known.is_draining = true;
                }
            }
            Event::Request {
                job,
                epoch,
                demand,
                previous,
            } => self.on_request(now, job, epoch, demand, previous),
            Event::Release { job, epoch } => self.on_release(job, epoch),
            Event::Abandon { slot } => {
                if let Some(holder) = self.holder_mut(&slot) {
                    *holder = Holder::Abandoned;
                }
            }
            Event::Freed { slot } => {
                if let Some(holder) = self.holder_mut(&slot)
                    && *holder == Holder::Abandoned
                {
                    *holder = Holder::Nobody;
                }
            }
            Event::Tick => {}
        }
        self.serve(actions);
        self.give_up(now, actions);
    }

    fn on_register(
        &mut self,
        taskmanager: TaskmanagerId,
        incarnation: Incarnation,
        slots: u32,
        actions: &mut Vec<Action>,
    ) {
        let is_dead = self
            .dead
            .get(&taskmanager)
            .is_some_and(|dead| dead.contains(&incarnation));
        let known = self.taskmanagers.get(&taskmanager);
        let refusal = if is_dead {
            Some(RegistrationRefusal::DeclaredDead {
                taskmanager: taskmanager.clone(),
            })
        } else if known.is_some_and(|known| known.incarnation != incarnation) {
            Some(RegistrationRefusal::DuplicateIdentity {
                taskmanager: taskmanager.clone(),
            })
        } else if slots == 0 {
            Some(RegistrationRefusal::NoSlots {
                taskmanager: taskmanager.clone(),
            })
        } else {
            None
        };
        if let Some(reason) = refusal {
            actions.push(Action::Refused {
                taskmanager,
                incarnation,
                reason,
            });
            return;
        }
        // The same process again: its answer was lost, and its slots are as they were.
        self.taskmanagers
            .entry(taskmanager.clone())
            .or_insert_with(|| Taskmanager {
                incarnation,
                slots: vec![Holder::Nobody; slots as usize],
                is_draining: false,
            });
        actions.push(Action::Registered {
            taskmanager,
            incarnation,
        });
    }

    fn on_lost(&mut self, taskmanager: &TaskmanagerId, incarnation: Incarnation) {
        let known = self.taskmanagers.get(taskmanager);
        if known.is_none_or(|known| known.incarnation != incarnation) {
            return;
        }
        self.taskmanagers.remove(taskmanager);
        let dead = self.dead.entry(taskmanager.clone()).or_default();
        if dead.len() == DEAD_REMEMBERED {
            dead.remove(0);
        }
        dead.push(incarnation);
    }

    fn on_request(
        &mut self,
        now: MonoTime,
        job: JobId,
        epoch: Epoch,
        demand: SlotDemand,
        previous: BTreeMap<SubtaskId, TaskmanagerId>,
    ) {
        let is_old = |known: &Request| known.epoch >= epoch;
        if self.waiting.get(&job).is_some_and(is_old) || self.holds(job, |held| held >= epoch) {
            return;
        }
        // Slots of an epoch that was fenced by this one.
        self.free_slots(job, |held| held < epoch);
        let request = Request {
            epoch,
            demand,
            previous,
            give_up_at: now + self.request_timeout,
            seq: self.next_seq,
        };
        self.next_seq += 1;
        self.waiting.insert(job, request);
    }

    fn on_release(&mut self, job: JobId, epoch: Epoch) {
        if self.waiting.get(&job).is_some_and(|r| r.epoch <= epoch) {
            self.waiting.remove(&job);
        }
        self.free_slots(job, |held| held <= epoch);
    }

    fn holds(&self, job: JobId, which: impl Fn(Epoch) -> bool) -> bool {
        let slots = self.taskmanagers.values().flat_map(|tm| &tm.slots);
        slots.into_iter().any(|holder| match holder {
            Holder::Job(held_by, epoch) => *held_by == job && which(*epoch),
            Holder::Nobody | Holder::Abandoned => false,
        })
    }

    fn free_slots(&mut self, job: JobId, which: impl Fn(Epoch) -> bool) {
        let slots = self.taskmanagers.values_mut().flat_map(|tm| &mut tm.slots);
        for holder in slots {
            if let Holder::Job(held_by, epoch) = *holder
                && held_by == job
                && which(epoch)
            {
                *holder = Holder::Nobody;
            }
        }
    }

    fn holder_mut(&mut self, slot: &SlotRef) -> Option<&mut Holder> {
        let taskmanager = self.taskmanagers.get_mut(&slot.taskmanager)?;
        if taskmanager.incarnation != slot.incarnation {
            return None;
        }
        taskmanager.slots.get_mut(slot.index.0 as usize)
    }

    /// In order of arrival; a small job may pass a large one that has to wait anyway.
    fn serve(&mut self, actions: &mut Vec<Action>) {
        let mut order: Vec<_> = self.waiting.iter().map(|(job, r)| (r.seq, *job)).collect();
        order.sort_unstable();
        for (_, job) in order {
            let (_, free) = self.slots();
            if self.waiting[&job].demand.count() > free {
                continue;
            }
            let Some(request) = self.waiting.remove(&job) else {
                continue;
            };
            let slots = self.place(job, &request);
            actions.push(Action::Allocated {
                job,
                epoch: request.epoch,
                slots,
            });
        }
    }

    /// Gives every slot of the demand a place; there are enough.
    fn place(&mut self, job: JobId, request: &Request) -> BTreeMap<SubtaskId, SlotRef> {
        let mut placed = BTreeMap::new();
        let mut elsewhere = Vec::new();
        // First whoever has a place to go back to, lest another takes it.
        for sharing in &request.demand.slots {
            let before = preferred(sharing, &request.previous)
                .find(|id| self.taskmanagers.get(id).is_some_and(|tm| tm.free() > 0));
            match before {
                Some(id) => self.take(&id, job, request.epoch, sharing, &mut placed),
                None => elsewhere.push(sharing),
            }
        }
        for sharing in elsewhere {
            if let Some(id) = self.least_used() {
                self.take(&id, job, request.epoch, sharing, &mut placed);
            }
        }
        placed
    }

    /// The taskmanager with the smallest part of its slots in use, the first of equals.
    fn least_used(&self) -> Option<TaskmanagerId> {
        let free = self.taskmanagers.iter().filter(|(_, tm)| tm.free() > 0);
        // Used parts are compared as fractions, without dividing: a/b < c/d is a*d < c*b.
        let least = free.min_by(|(_, a), (_, b)| {
            let (used_a, used_b) = (a.slots.len() - a.free(), b.slots.len() - b.free());
            (used_a * b.slots.len()).cmp(&(used_b * a.slots.len()))
        });
        least.map(|(id, _)| id.clone())
    }

    fn take(
        &mut self,
        id: &TaskmanagerId,
        job: JobId,
        epoch: Epoch,
        sharing: &[SubtaskId],
        placed: &mut BTreeMap<SubtaskId, SlotRef>,
    ) {
        let taskmanager = self
            .taskmanagers
            .get_mut(id)
            .expect("chosen among the known");
        let index = taskmanager
            .slots
            .iter()
            .position(|holder| *holder == Holder::Nobody)
            .expect("chosen because it has a free slot");
        taskmanager.slots[index] = Holder::Job(job, epoch);
        let slot = SlotRef {
            taskmanager: id.clone(),
            incarnation: taskmanager.incarnation,
            index: SlotIndex(index as u32),
        };
        placed.extend(sharing.iter().map(|subtask| (*subtask, slot.clone())));
    }

    fn give_up(&mut self, now: MonoTime, actions: &mut Vec<Action>) {
        let due = self.waiting.iter().filter(|(_, r)| r.give_up_at <= now);
        let due: Vec<JobId> = due.map(|(job, _)| *job).collect();
        let (total, free) = self.slots();
        for job in due {
            let Some(request) = self.waiting.remove(&job) else {
                continue;
            };
            let needed = request.demand.count();
            let mut failure = FailureInfo::new(
                FailureKind::NoResourceAvailable,
                format!(
                    "NoResourceAvailable: the job needs {needed} slots, and of {total} in the \
                     cluster {free} are free after {}",
                    rounded(self.request_timeout)
                ),
            );
            failure.remedy = Some(format!(
                "start taskmanagers with {} more slots, lower the parallelism, or raise \
                 slot.request.timeout",
                needed - free
            ));
            actions.push(Action::Unavailable {
                job,
                epoch: request.epoch,
                failure,
            });
        }
    }
}

/// Where the subtasks of a slot were before: most of them first, then by id.
fn preferred(
    sharing: &[SubtaskId],
    previous: &BTreeMap<SubtaskId, TaskmanagerId>,
) -> impl Iterator<Item = TaskmanagerId> {
    let ids: BTreeSet<_> = sharing.iter().filter_map(|s| previous.get(s)).collect();
    let mut counted: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let here = sharing.iter().filter(|s| previous.get(s) == Some(id));
            (std::cmp::Reverse(here.count()), id.clone())
        })
        .collect();
    counted.sort();
    counted.into_iter().map(|(_, id)| id)
}
