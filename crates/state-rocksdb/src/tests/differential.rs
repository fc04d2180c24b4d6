//! Memory and RocksDB do the same operations and must agree byte for byte.

use super::{Fleet, Kind, MAP, VALUES, Write};
use millstream_state::ScanRange;
use millstream_types::KeyGroupRange;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<Write>),
    ScanAll(usize),
    ScanKey(Write, usize),
    BeginSnapshot,
    EndSnapshot,
    AbortSnapshot,
    Rescale(usize),
}

fn write() -> impl Strategy<Value = Write> {
    let value = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..30),
        1 => any::<u8>().prop_map(|byte| vec![byte; 40_000]),
    ];
    let text = || proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 0..3);
    let target = prop_oneof![
        (0..60u8).prop_map(|name| (VALUES, name, vec![], vec![])),
        (0..4u8, text(), text()).prop_map(|(name, n, u)| (MAP, name, n, u)),
    ];
    (target, proptest::option::weighted(0.7, value)).prop_map(|(target, value)| {
        let (state, name, namespace, user_key) = target;
        Write {
            state,
            name,
            namespace,
            user_key,
            value,
        }
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        20 => proptest::collection::vec(write(), 1..30).prop_map(Op::Put),
        3 => (1..9usize).prop_map(Op::ScanAll),
        3 => (write(), 1..5usize).prop_map(|(w, n)| Op::ScanKey(w, n)),
        4 => Just(Op::BeginSnapshot),
        3 => Just(Op::EndSnapshot),
        1 => Just(Op::AbortSnapshot),
        2 => (1..6usize).prop_map(Op::Rescale),
    ];
    proptest::collection::vec(op, 1..60)
}

fn check(fleets: &mut [Fleet; 2], op: &Op) -> Result<(), TestCaseError> {
    let all = KeyGroupRange::all(super::max());
    let [memory, rocks] = fleets;
    match op {
        Op::Put(writes) => {
            memory.put(writes);
            rocks.put(writes);
            if rocks.running.is_empty() {
                // A full map of the one may have ended the snapshot early.
                memory.end_snapshot();
            }
            prop_assert_eq!(memory.get(writes), rocks.get(writes));
        }
        Op::ScanAll(page_entries) => {
            for state in [VALUES, MAP] {
                let range = ScanRange::state(state, all);
                let found = memory.scan(&range, 100);
                prop_assert!(found.is_sorted());
                prop_assert_eq!(found, rocks.scan(&range, *page_entries));
            }
        }
        Op::ScanKey(write, page_entries) => {
            let (group, key) = (write.group(), &[write.name]);
            let range = ScanRange::key(MAP, group, key);
            prop_assert_eq!(memory.scan(&range, 100), rocks.scan(&range, *page_entries));
            let range = ScanRange::namespace(MAP, group, key, &write.namespace);
            prop_assert_eq!(memory.scan(&range, 100), rocks.scan(&range, *page_entries));
        }
        Op::BeginSnapshot => fleets.iter_mut().for_each(Fleet::begin_snapshot),
        Op::EndSnapshot => {
            let (memory, rocks) = (memory.end_snapshot(), rocks.end_snapshot());
            prop_assert!(memory == rocks, "snapshots differ");
        }
        Op::AbortSnapshot => fleets.iter_mut().for_each(Fleet::abort_snapshot),
        Op::Rescale(parallelism) => {
            let files = rocks.snapshot();
            let others = memory.snapshot();
            // Each is restored from the other's snapshot: the file belongs to neither.
            memory.restore(&files, *parallelism);
            rocks.restore(&others, *parallelism);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    // Proves F136 for both backends: whatever the parallelisms, nothing is lost or doubled.
    #[test]
    fn memory_and_rocksdb_agree_byte_for_byte(ops in ops(), ingests in any::<bool>()) {
        let root = super::directory();
        let kind = Kind::Rocks { root: root.path().into(), n_made: 0, ingests };
        let mut fleets = [Fleet::new(Kind::Memory), Fleet::new(kind)];
        for op in &ops {
            check(&mut fleets, op)?;
        }
        for fleet in &mut fleets {
            let files = fleet.snapshot();
            // To one subtask, so that the headers are the same too.
            fleet.restore(&files, 1);
        }
        let [memory, rocks] = fleets.map(|mut fleet| {
            fleet.abort_snapshot();
            let entries = [VALUES, MAP].map(|state| {
                fleet.scan(&ScanRange::state(state, KeyGroupRange::all(super::max())), 1_000)
            });
            entries.concat()
        });
        prop_assert_eq!(memory, rocks);
    }
}
