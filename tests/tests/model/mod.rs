//! A model of exactly-once output that drives the production claim chain.
//!
//! Two jobmanagers, of which the deposed one never dies, run a job of one source, a FIFO channel
//! and a two-phase sink. Every claim starts another lineage of tasks while the older ones run on
//! as zombies. The network loses, repeats and reorders; a write to the chain may have an unknown
//! outcome and land late, or never. stateright visits every state within the [`Bounds`].
//!
//! Claiming, appending COMPLETED, settling by read-back and finding the restore point are
//! [`millstream_coordination::chain`] itself. What tasks, sink and checkpoint triggering do is
//! modelled here, in `tasks` and `jobmanager`, as small as the invariants allow. Requests that
//! only read are answered at once: an answer that comes late equals a create that is sent late.

mod checks;
mod jobmanager;
mod tasks;
mod world;

use millstream_types::sabotage::{Rule, Sabotage};
use stateright::{Model, Property};

pub use checks::{
    ALL_OUTPUT_AFTER_FAILOVER, COMMIT_OF_ABORTED, DUPLICATE, EARLY_OUTPUT, FORKED_CHAIN, LOSS,
};
pub use world::{Step, World};

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Records of the source.
    pub records: u8,
    /// Checkpoints triggered under one epoch.
    pub checkpoints: u32,
    /// Claims made in all.
    pub epochs: u8,
    /// Jobmanagers, 1 or 2.
    pub jobmanagers: u8,
    /// Writes to the chain whose outcome stays unknown at first.
    pub unknown_outcomes: u8,
}

/// A rule kept outside the claim chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// A jobmanager counts acknowledgements of its own epoch only (fence F1).
    AckEpoch,
    /// A sink commits on notices of its own epoch only (fence F7).
    NotifyEpoch,
    /// A starting attempt shuts older ones out of the transaction system (fence F13).
    SinkFenced,
    /// A restore commits what the checkpoint promised (fence F13).
    PromisesCommitted,
    /// A jobmanager that is no longer elected claims no more. Liveness only.
    OnlyTheElectedClaims,
}

/// The protocol, within bounds, perhaps with rules taken away.
#[derive(Clone, Debug)]
pub struct ExactlyOnce {
    bounds: Bounds,
    sabotage: Sabotage,
    removed: Vec<Fence>,
}

impl ExactlyOnce {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            sabotage: Sabotage::default(),
            removed: Vec::new(),
        }
    }

    /// Takes rules of the claim chain away.
    pub fn without_rules(mut self, rules: &[Rule]) -> Self {
        self.sabotage = Sabotage::removing(rules);
        self
    }

    /// Takes a rule outside the chain away.
    pub fn without(mut self, fence: Fence) -> Self {
        self.removed.push(fence);
        self
    }

    fn keeps(&self, fence: Fence) -> bool {
        !self.removed.contains(&fence)
    }
}

impl Model for ExactlyOnce {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.jobmanager_steps(self, steps);
        world.task_steps(self, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(self, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        checks::properties()
    }
}
