//! The invariants (docs/spec/fences.md) as properties of the model.

use stateright::Property;

use millstream_coordination::chain::verify;

use super::ExactlyOnce;
use super::jobmanager::JOB;
use super::tasks::{State, Transaction};
use super::world::{TransactionId, World};

/// I1: no record is committed twice.
pub const DUPLICATE: &str = "I1 no committed duplicate";
/// I5: nothing is visible beyond the last durable checkpoint.
pub const EARLY_OUTPUT: &str = "I5 no output beyond the durable cut";
/// I6: below the durable offset all is committed or restorable.
pub const LOSS: &str = "I6 everything below the durable cut is committed or restorable";
/// I7: what was aborted is never committed.
pub const COMMIT_OF_ABORTED: &str = "I7 no commit after abort";
/// I8: the claim chain keeps its rules.
pub const FORKED_CHAIN: &str = "I8 the chain is whole, with one owner per number";
/// The model is not vacuous: a job that failed over can still finish its output.
pub const ALL_OUTPUT_AFTER_FAILOVER: &str = "all output is committed, some of it after a failover";

pub(super) fn properties() -> Vec<Property<ExactlyOnce>> {
    vec![
        Property::always(DUPLICATE, |model: &ExactlyOnce, world: &World| {
            (0..model.bounds.records).all(|record| committed(world, record).count() <= 1)
        }),
        Property::always(EARLY_OUTPUT, |_: &ExactlyOnce, world: &World| {
            let offset = world.durable_cut().offset;
            all_committed(world).all(|(_, transaction)| transaction.to <= offset)
        }),
        Property::always(LOSS, |_: &ExactlyOnce, world: &World| {
            let cut = world.durable_cut();
            (0..cut.offset).all(|record| {
                let promised = |id| cut.promised.contains(id);
                committed(world, record).next().is_some()
                    || holding(world, State::Prepared, record).any(|(id, _)| promised(id))
            })
        }),
        Property::always(COMMIT_OF_ABORTED, |_: &ExactlyOnce, world: &World| {
            !world.sinks.committed_after_abort
        }),
        Property::always(FORKED_CHAIN, |_: &ExactlyOnce, world: &World| {
            world.chain.is_empty() || verify(JOB, world.chain.values()).is_ok()
        }),
        Property::sometimes(
            ALL_OUTPUT_AFTER_FAILOVER,
            |model: &ExactlyOnce, world: &World| {
                let whole = (0..model.bounds.records).all(|r| committed(world, r).next().is_some());
                whole && all_committed(world).any(|((epoch, _), _)| *epoch > 1)
            },
        ),
    ]
}

type Held<'a> = (&'a TransactionId, &'a Transaction);

fn all_committed(world: &World) -> impl Iterator<Item = Held<'_>> {
    let transactions = world.sinks.transactions.iter();
    transactions.filter(|(_, transaction)| transaction.state == State::Committed)
}

fn committed(world: &World, record: u8) -> impl Iterator<Item = Held<'_>> {
    holding(world, State::Committed, record)
}

fn holding(world: &World, state: State, record: u8) -> impl Iterator<Item = Held<'_>> {
    world
        .sinks
        .transactions
        .iter()
        .filter(move |(_, transaction)| {
            transaction.state == state && (transaction.from..transaction.to).contains(&record)
        })
}
