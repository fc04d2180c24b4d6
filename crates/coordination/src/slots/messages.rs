//! What goes into the slot pool and what comes out.

use std::collections::BTreeMap;

use millstream_types::{Epoch, Incarnation, JobId, SubtaskId, TaskmanagerId};

use super::{SlotDemand, SlotRef};
use crate::failure::FailureInfo;

/// Something the pool is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A taskmanager wants to be used.
    Register {
        /// Which.
        taskmanager: TaskmanagerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// How many slots it offers.
        slots: u32,
    },
    /// A taskmanager is gone: its connection, its heartbeat, or on purpose.
    Lost {
        /// Which.
        taskmanager: TaskmanagerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A taskmanager takes no new tasks; what runs there goes on.
    Draining {
        /// Which.
        taskmanager: TaskmanagerId,
    },
    /// A job needs slots.
    Request {
        /// Which job.
        job: JobId,
        /// Which of its epochs; a request replaces one of an older epoch.
        epoch: Epoch,
        /// What it needs.
        demand: SlotDemand,
        /// Where its subtasks ran before.
        previous: BTreeMap<SubtaskId, TaskmanagerId>,
    },
    /// A job needs its slots no more, or waits no longer.
    Release {
        /// Which job.
        job: JobId,
        /// Which of its epochs.
        epoch: Epoch,
    },
    /// A task does not stop: its slot is of no use until the taskmanager reports it free.
    Abandon {
        /// The slot.
        slot: SlotRef,
    },
    /// A taskmanager reaped the process that held this abandoned slot.
    Freed {
        /// The slot.
        slot: SlotRef,
    },
    /// The deadline is due.
    Tick,
}

/// Something the shell does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The taskmanager is part of the cluster.
    Registered {
        /// Which.
        taskmanager: TaskmanagerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The taskmanager is not.
    Refused {
        /// Which.
        taskmanager: TaskmanagerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Why.
        reason: RegistrationRefusal,
    },
    /// The job may deploy.
    Allocated {
        /// Which job.
        job: JobId,
        /// Of the request.
        epoch: Epoch,
        /// A slot for every subtask.
        slots: BTreeMap<SubtaskId, SlotRef>,
    },
    /// The job waited in vain (F9).
    Unavailable {
        /// Which job.
        job: JobId,
        /// Of the request.
        epoch: Epoch,
        /// What was missing.
        failure: FailureInfo,
    },
}

/// Why a taskmanager may not join (fence F18).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefusal {
    /// Another process with its id is alive.
    #[error(
        "another process with the taskmanager id {taskmanager} is registered and alive: give each \
         process its own taskmanager.resource-id, or wait until the other one is gone"
    )]
    DuplicateIdentity {
        /// The id.
        taskmanager: TaskmanagerId,
    },
    /// It was declared dead: it must stop its tasks and come back as a new process.
    #[error(
        "this process of taskmanager {taskmanager} was declared dead and its tasks were replaced: \
         it must stop them and register with a new incarnation"
    )]
    DeclaredDead {
        /// The id.
        taskmanager: TaskmanagerId,
    },
    /// It offers nothing.
    #[error(
        "taskmanager {taskmanager} offers no slot: set taskmanager.numberOfTaskSlots to 1 or more"
    )]
    NoSlots {
        /// The id.
        taskmanager: TaskmanagerId,
    },
}
