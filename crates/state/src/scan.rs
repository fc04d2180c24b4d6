//! Scans: what to go over, how far one has come, and one page of it.

use millstream_types::{KeyGroup, KeyGroupRange};

use crate::keys::{PREFIX_BYTES, hash_of, put_counted};
use crate::map::{Known, SortedEntries};
use crate::{KeyParts, ShardedMap, StateId, Value, ValueBuffer};

/// The entries a scan goes over, always in key order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanRange {
    state: StateId,
    groups: KeyGroupRange,
    /// What keys start with behind group and state.
    rest: Vec<u8>,
}

impl ScanRange {
    /// All entries of a state in these key groups.
    pub fn state(state: StateId, groups: KeyGroupRange) -> Self {
        Self {
            state,
            groups,
            rest: Vec::new(),
        }
    }

    /// The entries of one key, in all namespaces.
    pub fn key(state: StateId, group: KeyGroup, key: &[u8]) -> Self {
        let mut rest = Vec::with_capacity(key.len() + 2);
        put_counted(&mut rest, key);
        Self {
            state,
            groups: KeyGroupRange::new(group, group).expect("a group is a range of one"),
            rest,
        }
    }

    /// The entries of one key and namespace: those of a map or list.
    pub fn namespace(state: StateId, group: KeyGroup, key: &[u8], namespace: &[u8]) -> Self {
        let mut range = Self::key(state, group, key);
        put_counted(&mut range.rest, namespace);
        range
    }

    fn prefix(&self, group: KeyGroup, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&group.0.to_be_bytes());
        out.extend_from_slice(&self.state.0.to_be_bytes());
        out.extend_from_slice(&self.rest);
    }
}

/// A scan under way. It may be kept between slices.
#[derive(Clone, Debug)]
pub struct Scan {
    range: ScanRange,
    /// The group being gone over; none when the scan is over.
    group: Option<KeyGroup>,
    prefix: Vec<u8>,
    /// The last key that was handed out in this group; empty at its start.
    after: Vec<u8>,
    overlays: Option<Vec<SortedEntries>>,
}

impl Scan {
    /// A scan at its beginning.
    pub fn new(range: ScanRange) -> Self {
        let group = range.groups.first();
        let mut prefix = Vec::new();
        range.prefix(group, &mut prefix);
        Self {
            range,
            group: Some(group),
            prefix,
            after: Vec::new(),
            overlays: None,
        }
    }

    /// The state it goes over.
    pub fn state(&self) -> StateId {
        self.range.state
    }

    /// What all keys of the group under way start with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The last key handed out in this group; empty at its start.
    pub fn after(&self) -> &[u8] {
        &self.after
    }

    pub(crate) fn is_over(&self) -> bool {
        self.group.is_none()
    }

    /// Views of the group under way in these maps, newest first; made when the group is entered.
    pub(crate) fn overlays(&mut self, maps: &[&ShardedMap]) -> &mut Vec<SortedEntries> {
        let Self {
            group,
            prefix,
            range,
            overlays,
            ..
        } = self;
        let group = group.unwrap_or(range.groups.first());
        overlays.get_or_insert_with(|| {
            let route = (!range.rest.is_empty()).then(|| hash_of(prefix).route);
            maps.iter()
                .map(|map| map.sorted(group, prefix, route))
                .collect()
        })
    }

    /// The views of the group under way, none before it is entered, and the last key gone past.
    pub(crate) fn overlays_and_after(&mut self) -> (&mut [SortedEntries], &mut Vec<u8>) {
        let overlays = self.overlays.as_deref_mut().unwrap_or_default();
        (overlays, &mut self.after)
    }

    /// Goes to the next group. Returns whether there is one.
    pub(crate) fn next_group(&mut self) -> bool {
        self.overlays = None;
        self.after.clear();
        self.group = self
            .group
            .filter(|group| *group < self.range.groups.last())
            .map(|group| KeyGroup(group.0 + 1));
        if let Some(group) = self.group {
            self.range.prefix(group, &mut self.prefix);
        }
        self.group.is_some()
    }
}

/// Entries that a scan came across. The page is reused.
#[derive(Clone, Default, Debug)]
pub struct ScanPage {
    keys: Vec<u8>,
    ends: Vec<usize>,
    values: ValueBuffer,
}

impl ScanPage {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.values.clear();
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends an entry: its encoded key and its stored value.
    ///
    /// # Panics
    /// If the key is shorter than group and state, or the value has no schema byte.
    pub fn push(&mut self, key: &[u8], stored: &[u8]) {
        assert!(
            key.len() >= PREFIX_BYTES && !stored.is_empty(),
            "an entry has group, state and schema"
        );
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len());
        self.values.push_stored(Some(stored));
    }

    pub(crate) fn push_known(&mut self, key: &[u8], known: Known<'_>) {
        if let Known::Value(stored) = known {
            self.push(key, stored);
        }
    }

    /// The encoded key at a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn encoded_key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[index]]
    }

    /// The stored value at a place, its schema byte in front.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn stored_value(&self, index: usize) -> &[u8] {
        self.values
            .stored(index)
            .expect("every entry of a page has a value")
    }

    /// The entry at a place.
    ///
    /// # Panics
    /// If there is no such place, or its key was never one of [`StateKeys`](crate::StateKeys).
    pub fn get(&self, index: usize) -> (KeyParts<'_>, Value<'_>) {
        let parts = KeyParts::decode(self.encoded_key(index)).expect("keys are encoded by us");
        let value = self
            .values
            .get(index)
            .expect("every entry of a page has a value");
        (parts, value)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (KeyParts<'_>, Value<'_>)> {
        (0..self.len()).map(|index| self.get(index))
    }
}
