use std::collections::BTreeMap;

use millstream_types::{KeyGroup, KeyGroupRange, MaxParallelism};
use proptest::prelude::*;

use super::*;
use crate::keys::hash_of;
use crate::{KeyParts, StateId};

fn map_of(groups: u32) -> ShardedMap {
    ShardedMap::new(KeyGroupRange::all(MaxParallelism::new(groups).unwrap()))
}

fn key(group: u16, key: &[u8], user_key: &[u8]) -> Vec<u8> {
    let mut keys = StateKeys::new();
    keys.push(KeyParts {
        group: KeyGroup(group),
        state: StateId(0),
        key,
        namespace: b"",
        user_key,
    })
    .unwrap();
    keys.get(0).to_vec()
}

fn contents(map: &ShardedMap) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for (_, mut entries) in map.clone().into_sorted_groups() {
        while let Some((key, known)) = entries.peek() {
            let value = match known {
                Known::Value(stored) => Some(stored.to_vec()),
                Known::Deleted => None,
            };
            found.push((key.to_vec(), value));
            entries.advance();
        }
    }
    found
}

/// Bytes as counted against bytes as they are.
fn check_bytes(map: &ShardedMap) {
    let nodes = map.groups.iter().flat_map(|group| &group.nodes);
    assert_eq!(
        map.bytes(),
        nodes.map(|node| node.shard.bytes()).sum::<usize>()
    );
}

fn put(map: &mut ShardedMap, key: &[u8], stored: Option<&[u8]>) {
    map.put(hash_of(key), key, stored);
}

#[test]
fn a_copy_stays_as_it_was_and_shares_what_is_not_written_again() {
    let mut map = map_of(4);
    for i in 0..20_000u32 {
        let key = key((i % 4) as u16, &i.to_be_bytes(), b"");
        put(&mut map, &key, Some(&[1; 40]));
    }
    let copy = map.share();
    let before = contents(&copy);
    let one = key(0, &0u32.to_be_bytes(), b"");
    put(&mut map, &one, Some(&[2; 40]));
    assert_eq!(contents(&copy), before);
    assert_ne!(contents(&map), before);
    // One shard was copied, however large the map.
    assert!(
        map.copied_bytes() < 4 * SPLIT_BYTES,
        "{}",
        map.copied_bytes()
    );
    assert!(map.bytes() > 20_000 * 40);
    check_bytes(&map);
}

#[test]
fn what_comes_after_a_map_opens_as_wide_as_it_was() {
    let mut map = map_of(4);
    let keys: Vec<_> = (0..20_000u32)
        .map(|i| key((i % 3) as u16, &i.to_be_bytes(), b""))
        .collect();
    let value = [9; 40];
    keys.iter().for_each(|key| put(&mut map, key, Some(&value)));
    let shards = |map: &ShardedMap| -> Vec<usize> {
        let groups = map.groups.iter();
        groups.map(|group| group.nodes.len()).collect()
    };
    let mut next = map.successor();
    assert_eq!((next.bytes(), shards(&next)), (0, vec![0; 4]));
    put(&mut next, &keys[0], Some(&value));
    let opened = shards(&next);
    assert_eq!(opened, [1 << shards(&map)[0].ilog2(), 0, 0, 0]);
    keys.iter()
        .for_each(|key| put(&mut next, key, Some(&value)));
    assert_eq!(contents(&next), contents(&map));
    assert!(shards(&next)[0] < 2 * shards(&map)[0]);
    check_bytes(&next);
}

#[test]
fn updates_of_equal_length_take_no_more_memory() {
    let mut map = map_of(1);
    let key = key(0, b"k", b"");
    put(&mut map, &key, Some(&[0; 8]));
    let bytes = map.bytes();
    for i in 0..10_000u64 {
        put(&mut map, &key, Some(&i.to_be_bytes()));
    }
    assert_eq!(map.bytes(), bytes);
    assert_eq!(contents(&map)[0].1, Some(9_999u64.to_be_bytes().to_vec()));
}

#[test]
fn updates_of_growing_length_leave_no_more_garbage_than_data() {
    let mut map = map_of(1);
    for length in 1..2_000 {
        for name in 0..10u8 {
            let key = key(0, &[name], b"");
            put(&mut map, &key, Some(&vec![7; length]));
        }
    }
    check_bytes(&map);
    assert!(map.bytes() < 4 * 10 * 2_000, "{}", map.bytes());
}

#[test]
fn values_that_shrink_give_their_memory_back() {
    let mut map = map_of(1);
    let names: Vec<_> = (0..200u8).map(|name| key(0, &[name], b"")).collect();
    names
        .iter()
        .for_each(|key| put(&mut map, key, Some(&[7; 5_000])));
    names.iter().for_each(|key| put(&mut map, key, Some(&[7])));
    assert!(map.bytes() < 200 * 2_500, "{}", map.bytes());
    check_bytes(&map);
}

#[test]
fn the_entries_of_one_key_stay_together_even_where_they_fill_many_shards() {
    let mut map = map_of(1);
    for i in 0..5_000u32 {
        put(&mut map, &key(0, b"hot", &i.to_be_bytes()), Some(&[1; 40]));
        put(&mut map, &key(0, &i.to_be_bytes(), b""), Some(&[1; 40]));
    }
    let prefix = key(0, b"hot", b"");
    let route = hash_of(&prefix).route;
    let mut entries = map.sorted(KeyGroup(0), &prefix, Some(route));
    for i in 0..5_000u32 {
        let (found, _) = entries.peek().unwrap();
        assert_eq!(found, key(0, b"hot", &i.to_be_bytes()));
        entries.advance();
    }
    assert!(entries.peek().is_none());
    assert!(map.groups[0].nodes.len() > 8);
    check_bytes(&map);
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8, Vec<u8>),
    Delete(u8, u8),
    Remove(u8, u8),
    Copy,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let value = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 1..40),
        1 => proptest::collection::vec(any::<u8>(), 3_000..9_000),
    ];
    let op = prop_oneof![
        8 => (0..3u8, any::<u8>(), value).prop_map(|(g, k, v)| Op::Put(g, k, v)),
        2 => (0..3u8, any::<u8>()).prop_map(|(g, k)| Op::Delete(g, k)),
        2 => (0..3u8, any::<u8>()).prop_map(|(g, k)| Op::Remove(g, k)),
        1 => Just(Op::Copy),
    ];
    proptest::collection::vec(op, 1..300)
}

proptest! {
    #[test]
    fn it_does_what_an_ordered_map_does(ops in ops()) {
        let mut map = map_of(3);
        let mut model = BTreeMap::new();
        let mut copies = Vec::new();
        for op in ops {
            match op {
                Op::Put(group, name, value) => {
                    let key = key(group.into(), &[name], b"");
                    put(&mut map, &key, Some(&value));
                    model.insert(key, Some(value));
                }
                Op::Delete(group, name) => {
                    let key = key(group.into(), &[name], b"");
                    put(&mut map, &key, None);
                    model.insert(key, None);
                }
                Op::Remove(group, name) => {
                    let key = key(group.into(), &[name], b"");
                    map.remove(hash_of(&key), &key);
                    model.remove(&key);
                }
                Op::Copy => copies.push((map.share(), model.clone())),
            }
            check_bytes(&map);
        }
        copies.push((map, model));
        for (map, model) in copies {
            for (key, value) in &model {
                let known = value.as_deref().map_or(Known::Deleted, Known::Value);
                prop_assert_eq!(map.get(hash_of(key), key), Some(known));
            }
            prop_assert_eq!(contents(&map), model.into_iter().collect::<Vec<_>>());
        }
    }
}
