//! Random scripts: rival jobmanagers over one faulty store, with entries being collected. Whatever
//! happens, the chain keeps I8 and everybody was told the truth (I10).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::super::*;
use super::fixture::{Fault, JOB, Jobmanager, LAG, Store, completed};

#[derive(Clone, Debug)]
enum Op {
    Claim(usize),
    GoOn(usize, Fault),
    Complete(usize),
    Reserve(usize),
    Bound(usize),
    Finish(usize),
    Look(usize),
    Land(usize),
    Delete(usize),
}

fn op(behind: u32) -> impl Strategy<Value = Op> {
    let who = 0..2usize;
    let fault = prop_oneof![
        6 => Just(Fault::Nothing),
        behind => Just(Fault::Behind),
        1 => Just(Fault::Refused),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::Dropped),
        1 => Just(Fault::Late),
    ];
    prop_oneof![
        4 => who.clone().prop_map(Op::Claim),
        60 => (who.clone(), fault).prop_map(|(who, fault)| Op::GoOn(who, fault)),
        8 => who.clone().prop_map(Op::Complete),
        2 => who.clone().prop_map(Op::Reserve),
        3 => who.clone().prop_map(Op::Bound),
        1 => who.clone().prop_map(Op::Finish),
        3 => who.prop_map(Op::Look),
        4 => any::<usize>().prop_map(Op::Land),
        6 => any::<usize>().prop_map(Op::Delete),
    ]
}

#[derive(Default)]
struct World {
    store: Store,
    nonces: u128,
    ids_handed_out: BTreeSet<u64>,
    /// Each BOUNDARY, with the turn in which its writer knew of it.
    boundaries: Vec<(EntryNumber, u64)>,
    /// Whether listings may be behind.
    lags: bool,
}

impl World {
    /// Below which entries may be deleted now.
    fn prunable(&self) -> EntryNumber {
        let wait = if self.lags { LAG } else { 0 };
        let old = |(_, turn): &&(_, u64)| turn + wait <= self.store.turn;
        let old = self.boundaries.iter().filter(old);
        old.map(|(number, _)| *number).max().unwrap_or_default()
    }

    fn run(&mut self, jobmanagers: &mut [Jobmanager; 2], op: &Op) {
        self.store.turn += 1;
        match *op {
            Op::Claim(who) => {
                self.nonces += 1;
                let job = match self.store.history.is_empty() {
                    true => JobRecord::BeingSubmitted,
                    false => JobRecord::Stored,
                };
                jobmanagers[who].claim(self.nonces, job);
            }
            Op::GoOn(who, fault) => jobmanagers[who].go_on(&mut self.store, fault),
            Op::Complete(who) => {
                let tip = jobmanagers[who].chain.tip();
                let id = tip.map_or(1, |tip| {
                    let last = tip.restore_point().map_or(0, |point| point.checkpoint.id.0);
                    tip.ids().first.0.max(last + 1)
                });
                jobmanagers[who].append(Append::Completed(completed(id)));
            }
            Op::Reserve(who) => jobmanagers[who].append(Append::Reserve(NonZeroU32::MIN)),
            Op::Bound(who) => jobmanagers[who].append(Append::Boundary {
                retain: NonZeroU32::MIN,
            }),
            Op::Finish(who) => jobmanagers[who].append(Append::Terminal(TerminalState::Finished)),
            Op::Look(who) => jobmanagers[who].append(Append::Nothing),
            Op::Land(index) => self.store.land_late(index),
            Op::Delete(index) => {
                // In any order: only what lies below a durable boundary.
                let below: Vec<_> = self.store.objects.range(..self.prunable()).collect();
                if !below.is_empty() {
                    let number = *below[index % below.len()].0;
                    self.store.objects.remove(&number);
                }
            }
        }
        for jobmanager in jobmanagers {
            for told in std::mem::take(&mut jobmanager.told) {
                self.check(&told);
            }
        }
    }

    /// Whatever was announced is what the true chain says.
    fn check(&mut self, told: &Action) {
        match told {
            Action::Claimed {
                epoch,
                restore,
                ids,
            } => {
                let claim = self.store.history.values().find(|entry| {
                    entry.epoch == *epoch && matches!(entry.kind, EntryKind::Claim { .. })
                });
                let claim = claim.expect("a claim is announced only if it is in the chain");
                let below = self.store.history.range(..claim.number);
                let tip = verify(JOB, below.map(|(_, entry)| entry)).ok();
                assert_eq!(
                    restore.as_ref(),
                    tip.as_ref().and_then(Tip::restore_point),
                    "I10"
                );
                for id in ids.first.0..ids.end.0 {
                    assert!(self.ids_handed_out.insert(id), "{id} was handed out twice");
                }
            }
            Action::Appended { number, kind } => {
                assert_eq!(
                    self.store.history[number].kind, *kind,
                    "one owner per number"
                );
                if let EntryKind::Boundary { .. } = kind {
                    self.boundaries.push((*number, self.store.turn));
                }
                if let EntryKind::Reserve { ids } = kind {
                    assert!(self.ids_handed_out.insert(ids.first.0), "{ids:?} twice");
                }
            }
            Action::Refuse(refusal) => {
                // In a world without time, claimants do not wait until listings show all.
                let fair = match refusal {
                    Refusal::Terminal { .. } | Refusal::NoChain => true,
                    Refusal::Missing { .. } | Refusal::Regressed { .. } => self.lags,
                    Refusal::Unreadable { .. } | Refusal::Broken(_) => false,
                };
                assert!(fair, "the chain is whole, yet: {refusal:?}");
            }
            Action::Confirmed { .. } | Action::Rejected { .. } | Action::Lost(_) => {}
            Action::List { .. }
            | Action::Probe { .. }
            | Action::ReadBack { .. }
            | Action::Create { .. } => unreachable!("kept apart by the jobmanager"),
        }
    }
}

proptest! {
    // Failures print their script, which is the test to add; no files of seeds are kept.
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves I8 and I10, fences F2 to F6 and F16.
    #[test]
    fn rivals_over_a_faulty_store_keep_one_whole_chain(
        script in prop::collection::vec(op(0), 1..250),
    ) {
        play(&script, false)?;
    }

    /// The same where listings are behind, and entries are deleted that much later.
    #[test]
    fn rivals_keep_one_whole_chain_where_listings_are_behind(
        script in prop::collection::vec(op(6), 1..250),
    ) {
        play(&script, true)?;
    }
}

fn play(script: &[Op], lags: bool) -> Result<(), TestCaseError> {
    let mut world = World {
        lags,
        ..World::default()
    };
    let mut jobmanagers = [Jobmanager::new(), Jobmanager::new()];
    for op in script {
        world.run(&mut jobmanagers, op);
        let [one, other] = jobmanagers.each_ref().map(|j| j.chain.owned_epoch());
        prop_assert!(one.is_none() || one != other, "two owners of {one:?}");
    }
    if !world.store.history.is_empty() {
        let tip = verify(JOB, world.store.history.values());
        prop_assert!(tip.is_ok(), "{tip:?}");
    }
    Ok(())
}
