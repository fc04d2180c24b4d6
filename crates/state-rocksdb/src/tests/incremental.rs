//! Snapshots of changes against a storage that forgets as a coordinator would, and a model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use millstream_state::{
    CheckpointFiles, KeyedStateBackend, MemoryBackend, Receipt, RestorePolicy, Scan, ScanPage,
    ScanRange, Sharing, SinkError, SnapshotFiles, SnapshotSink, SnapshotSource, SnapshotSummary,
    SnapshotWork, StateError, StateKeys, ValueBuffer,
};
use millstream_types::{CheckpointId, Checksum, KeyGroupRange, ObjectName, StateHandle};
use proptest::prelude::*;

use super::{VALUES, Write, max, small_memory, table};
use crate::{RocksBackend, RocksMemory, SnapshotForm, StateDirectory};

type Model = BTreeMap<u8, Vec<u8>>;

/// Objects by name, written once.
#[derive(Default)]
struct Storage {
    objects: BTreeMap<String, Vec<u8>>,
    n_written: u64,
}

/// Takes the files of one snapshot; gives up after so many bytes, if told to.
struct Upload<'a> {
    storage: &'a mut Storage,
    handles: Vec<StateHandle>,
    open: Option<OpenFile>,
    bytes_left: Option<usize>,
    n_reused: usize,
}

struct OpenFile {
    sharing: Sharing,
    bytes: Vec<u8>,
    bytes_left: Option<usize>,
}

impl SnapshotFiles for Upload<'_> {
    fn reuse(&mut self, file: &StateHandle) -> Result<(), SinkError> {
        self.handles.push(file.clone());
        self.n_reused += 1;
        Ok(())
    }

    fn begin(&mut self, sharing: Sharing) -> &mut dyn SnapshotSink {
        self.open.insert(OpenFile {
            sharing,
            bytes: Vec::new(),
            bytes_left: self.bytes_left,
        })
    }

    fn finish(&mut self, summary: &SnapshotSummary) -> Result<(), SinkError> {
        let OpenFile {
            sharing,
            bytes,
            bytes_left,
        } = self.open.take().expect("a file was begun");
        self.bytes_left = bytes_left;
        assert_eq!(summary.checksum, Checksum::of(&bytes));
        self.storage.n_written += 1;
        let folder = match sharing {
            Sharing::Private => "private",
            Sharing::Shared => "shared",
        };
        let name = format!("{folder}/{}", self.storage.n_written);
        self.handles.push(StateHandle::Object {
            name: ObjectName::new(&name).unwrap(),
            size: bytes.len() as u64,
            checksum: summary.checksum,
        });
        self.storage.objects.insert(name, bytes);
        Ok(())
    }
}

impl SnapshotSink for OpenFile {
    fn write(&mut self, chunk: Bytes) -> Result<(), SinkError> {
        if let Some(left) = &mut self.bytes_left {
            *left = left.checked_sub(chunk.len()).ok_or(SinkError::Cancelled)?;
        }
        self.bytes.extend_from_slice(&chunk);
        Ok(())
    }
}

/// A checkpoint under way.
struct Pending {
    id: CheckpointId,
    /// What it must hold.
    model: Model,
    work: Option<(Box<dyn SnapshotWork>, Option<Receipt>)>,
    /// Where it is, once it is acknowledged.
    handles: Option<Vec<StateHandle>>,
    /// What the newest complete checkpoint referred to when this one began.
    pinned: Vec<StateHandle>,
}

struct World {
    root: tempfile::TempDir,
    memory: RocksMemory,
    backend: RocksBackend,
    n_backends: u32,
    model: Model,
    storage: Storage,
    next: u64,
    pending: Option<Pending>,
    completed: Option<(CheckpointId, Vec<StateHandle>, Model)>,
    /// Files that snapshots referred to without writing them.
    n_reused: usize,
}

fn open(root: &std::path::Path, number: u32, memory: &RocksMemory) -> RocksBackend {
    let directory = StateDirectory::create(root, &format!("attempt-{number}")).unwrap();
    let range = KeyGroupRange::all(max());
    RocksBackend::create(
        directory,
        table(),
        range,
        max(),
        memory,
        SnapshotForm::Incremental,
    )
    .unwrap()
}

fn write(name: u8, value: Option<Vec<u8>>) -> Write {
    Write {
        state: VALUES,
        name,
        namespace: vec![],
        user_key: vec![],
        value,
    }
}

impl World {
    fn new(ingests: bool) -> Self {
        let root = super::directory();
        let memory = small_memory().always_incremental();
        let memory = match ingests {
            true => memory.always_ingesting(),
            false => memory,
        };
        Self {
            backend: open(root.path(), 0, &memory),
            root,
            memory,
            n_backends: 1,
            model: Model::new(),
            storage: Storage::default(),
            next: 1,
            pending: None,
            completed: None,
            n_reused: 0,
        }
    }

    fn put(&mut self, name: u8, value: Option<Vec<u8>>) {
        let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
        let write = write(name, value.clone());
        write.push_key(&mut keys);
        write.push_value(&mut values);
        match self.backend.put(&keys, &values) {
            Ok(()) => {}
            // As a task would: it waits for its snapshot.
            Err(StateError::Full { .. }) => {
                self.upload(None);
                self.backend.put(&keys, &values).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        match value {
            Some(value) => drop(self.model.insert(name, value)),
            None => drop(self.model.remove(&name)),
        }
    }

    /// The barrier says what is complete, whether a notification did or not.
    fn begin(&mut self) {
        if self.pending.is_some() {
            return;
        }
        let id = CheckpointId(self.next);
        self.next += 1;
        let pinned = match &self.completed {
            Some((completed, handles, _)) => {
                self.backend.checkpoint_completed(*completed);
                handles.clone()
            }
            None => Vec::new(),
        };
        let work = self.backend.snapshot(id).unwrap();
        let receipt = work.receipt();
        self.pending = Some(Pending {
            id,
            model: self.model.clone(),
            work: Some((work, receipt)),
            handles: None,
            pinned,
        });
    }

    /// The asynchronous part; fails after some bytes if told to.
    fn upload(&mut self, bytes_left: Option<usize>) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        let Some((work, receipt)) = pending.work.take() else {
            return;
        };
        let mut upload = Upload {
            storage: &mut self.storage,
            handles: Vec::new(),
            open: None,
            bytes_left,
            n_reused: 0,
        };
        match work.run(&mut upload) {
            Ok(_) => {
                self.n_reused += upload.n_reused;
                if let Some(receipt) = receipt {
                    receipt(&upload.handles);
                }
                pending.handles = Some(upload.handles);
            }
            Err(StateError::SnapshotCancelled { .. }) => self.pending = None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Completes what is acknowledged, and forgets what only older checkpoints needed.
    fn complete(&mut self, notified: bool) {
        let Some(pending) = self.pending.take_if(|pending| pending.handles.is_some()) else {
            return;
        };
        let handles = pending.handles.expect("looked at above");
        if notified {
            self.backend.checkpoint_completed(pending.id);
        }
        self.completed = Some((pending.id, handles, pending.model));
        self.delete_unused();
        self.check_restorable();
    }

    fn delete_unused(&mut self) {
        let completed = self.completed.iter().flat_map(|(_, handles, _)| handles);
        let pinned = self.pending.iter().flat_map(|pending| &pending.pinned);
        let needed: BTreeSet<String> = completed
            .chain(pinned)
            .filter_map(|handle| handle.object())
            .map(|name| name.as_str().to_owned())
            .collect();
        self.storage.objects.retain(|name, _| needed.contains(name));
    }

    fn restored(&self, backend: &mut dyn KeyedStateBackend) {
        let Some((_, handles, _)) = &self.completed else {
            return;
        };
        let bytes = |handle: &StateHandle| {
            let name = handle.object().expect("an object").as_str();
            let found = self.storage.objects.get(name);
            &found.unwrap_or_else(|| panic!("{name} is gone"))[..]
        };
        let mut sources: Vec<&[u8]> = handles.iter().map(bytes).collect();
        let mut parts: Vec<_> = sources
            .iter_mut()
            .map(|source| source as &mut dyn SnapshotSource)
            .collect();
        backend
            .restore(&mut parts, RestorePolicy::RequireAll)
            .unwrap();
    }

    /// The newest complete checkpoint holds what was there at its barrier: for any backend, with any
    /// parallelism.
    fn check_restorable(&self) {
        let Some((_, _, model)) = &self.completed else {
            return;
        };
        let mut found = Model::new();
        for subtask in 0..3 {
            let range = KeyGroupRange::of_subtask(subtask, 3, max());
            let mut backend = MemoryBackend::new(table(), range, max());
            self.restored(&mut backend);
            found.extend(contents(&mut backend, range));
        }
        assert_eq!(&found, model);
    }

    /// The attempt dies; the next one starts from the newest complete checkpoint.
    fn fail_over(&mut self) {
        self.pending = None;
        let mut backend = open(self.root.path(), self.n_backends, &self.memory);
        self.n_backends += 1;
        self.restored(&mut backend);
        if let Some((completed, handles, model)) = &self.completed {
            let is_shared = |handle: &StateHandle| {
                handle
                    .object()
                    .is_some_and(|name| name.as_str().starts_with("shared/"))
            };
            if handles.iter().all(is_shared) {
                backend.adopt(*completed, handles);
            }
            self.model = model.clone();
        } else {
            self.model.clear();
        }
        self.backend = backend;
        self.delete_unused();
        let range = KeyGroupRange::all(max());
        assert_eq!(contents(&mut self.backend, range), self.model);
    }
}

fn contents(backend: &mut dyn KeyedStateBackend, range: KeyGroupRange) -> Model {
    let mut scan = Scan::new(ScanRange::state(VALUES, range));
    let mut page = ScanPage::new();
    let mut found = Model::new();
    while backend.scan(&mut scan, 100, &mut page).unwrap() || !page.is_empty() {
        found.extend(
            page.iter()
                .map(|(parts, value)| (parts.key[0], value.bytes.to_vec())),
        );
    }
    found
}

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<(u8, Option<(u8, usize)>)>),
    Begin,
    Upload(Option<usize>),
    Complete { notified: bool },
    Abort,
    FailOver,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Large values fill the map, so that some of it is drained without a snapshot.
    let value = (
        any::<u8>(),
        prop_oneof![6 => 0..200usize, 1 => Just(60_000usize)],
    );
    let put = (0..60u8, prop::option::weighted(0.8, value));
    let op = prop_oneof![
        6 => prop::collection::vec(put, 1..40).prop_map(Op::Put),
        6 => Just(Op::Begin),
        6 => Just(Op::Upload(None)),
        1 => (0..100_000usize).prop_map(|bytes| Op::Upload(Some(bytes))),
        6 => prop::bool::weighted(0.7).prop_map(|notified| Op::Complete { notified }),
        1 => Just(Op::Abort),
        1 => Just(Op::FailOver),
    ];
    prop::collection::vec(op, 1..120)
}

impl World {
    fn step(&mut self, op: &Op) {
        match op {
            Op::Put(writes) => {
                for (name, value) in writes {
                    let value = value.map(|(byte, length)| vec![byte; length]);
                    self.put(*name, value);
                }
            }
            Op::Begin => self.begin(),
            Op::Upload(bytes_left) => self.upload(*bytes_left),
            Op::Complete { notified } => self.complete(*notified),
            Op::Abort => self.pending = None,
            Op::FailOver => self.fail_over(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 300, ..ProptestConfig::default() })]

    // Proves F131, F132, F133 for the backend: whatever fails, is aborted or is not told, the newest
    // complete checkpoint is whole, and what is referred to is there.
    #[test]
    fn the_newest_complete_checkpoint_is_whole_whatever_happens_around_it(
        ops in ops(),
        ingests in any::<bool>(),
    ) {
        let mut world = World::new(ingests);
        for op in &ops {
            world.step(op);
        }
        world.fail_over();
    }
}

fn checkpoint(world: &mut World) -> Vec<StateHandle> {
    world.begin();
    world.upload(None);
    world.complete(true);
    let (_, handles, _) = world.completed.as_ref().unwrap();
    handles.clone()
}

fn bytes(handles: &[StateHandle]) -> u64 {
    handles.iter().map(StateHandle::size).sum()
}

#[test]
fn little_change_is_little_upload_and_much_of_it_is_written_anew() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    let all = checkpoint(&mut world);
    assert_eq!(all.len(), 1);
    let mut before = all;
    for round in 0..10 {
        world.put(round, Some(vec![2; 100]));
        let handles = checkpoint(&mut world);
        assert_eq!(
            handles[..before.len()],
            before[..],
            "what was there is referred to"
        );
        assert_eq!(handles.len(), before.len() + 1);
        assert!(bytes(&handles[before.len()..]) < 1_000);
        before = handles;
    }
    // More than all of it once more.
    for name in 0..50 {
        world.put(name, Some(vec![3; 10_500]));
    }
    let anew = checkpoint(&mut world);
    assert_eq!(anew.len(), 1);
    assert_eq!(
        world.storage.objects.len(),
        1,
        "nothing of what was before is left"
    );
}

#[test]
fn changes_of_an_aborted_checkpoint_are_uploaded_again() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    let all = checkpoint(&mut world);
    world.put(1, Some(vec![2; 100]));
    world.begin();
    world.upload(None);
    let aborted = world
        .pending
        .take()
        .and_then(|pending| pending.handles)
        .unwrap();
    world.put(2, Some(vec![3; 100]));
    let handles = checkpoint(&mut world);
    assert_eq!(handles.len(), 3);
    assert_eq!(handles[0], all[0]);
    assert!(
        handles
            .iter()
            .skip(1)
            .all(|handle| !aborted.contains(handle))
    );
}

#[test]
fn a_restored_attempt_goes_on_behind_the_files_it_was_restored_from() {
    let mut world = World::new(true);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    let all = checkpoint(&mut world);
    world.fail_over();
    world.put(1, None);
    let handles = checkpoint(&mut world);
    assert_eq!((handles.len(), &handles[0]), (2, &all[0]));
    assert!(world.n_reused > 0);
}

/// Makes the directory of changes one that nothing can be written to, and takes that back.
fn block_changes(world: &World, block: bool) {
    let attempt = format!("attempt-{}", world.n_backends - 1);
    let changes = world.root.path().join(attempt).join("changes");
    let aside = changes.with_extension("aside");
    if block {
        std::fs::rename(&changes, &aside).unwrap();
        std::fs::write(&changes, b"no directory").unwrap();
    } else {
        std::fs::remove_file(&changes).unwrap();
        std::fs::rename(&aside, &changes).unwrap();
    }
}

// A change that could not be noted must not be missing from what comes next.
#[test]
fn after_a_change_that_could_not_be_noted_everything_is_written() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    checkpoint(&mut world);
    world.put(1, Some(vec![2; 100]));
    checkpoint(&mut world);
    world.put(2, Some(vec![3; 100]));
    world.begin();
    block_changes(&world, true);
    let (work, _) = world
        .pending
        .take()
        .and_then(|pending| pending.work)
        .unwrap();
    let error = work.run(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, StateError::Store { .. }), "{error}");
    block_changes(&world, false);
    world.put(3, Some(vec![4; 100]));
    let handles = checkpoint(&mut world);
    assert_eq!(
        handles.len(),
        1,
        "changes may be missing behind what was there"
    );
}

#[test]
fn changes_that_cannot_be_read_are_replaced_by_everything() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    checkpoint(&mut world);
    world.put(1, Some(vec![2; 100]));
    world.begin();
    world.pending = None;
    // What the abandoned snapshot held is noted by the next access, and then gone.
    world.put(2, Some(vec![3; 100]));
    let changes = world.root.path().join("attempt-0/changes");
    for file in std::fs::read_dir(changes).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    world.begin();
    let (work, _) = world
        .pending
        .take()
        .and_then(|pending| pending.work)
        .unwrap();
    let mut upload = Upload {
        storage: &mut world.storage,
        handles: Vec::new(),
        open: None,
        bytes_left: None,
        n_reused: 0,
    };
    assert!(work.run(&mut upload).is_err());
    assert_eq!(checkpoint(&mut world).len(), 1);
}

#[test]
fn without_a_complete_checkpoint_changes_do_not_fill_the_disk() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    checkpoint(&mut world);
    let changes = world.root.path().join("attempt-0/changes");
    let kept = || -> u64 {
        let files = std::fs::read_dir(&changes).into_iter().flatten().flatten();
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    for round in 0..40u8 {
        for name in 0..50 {
            world.put(name, Some(vec![round; 10_000]));
        }
        world.begin();
        world.upload(None);
        world.pending = None;
        assert!(kept() < 3_000_000, "{}", kept());
    }
    checkpoint(&mut world);
}

#[test]
fn nothing_new_is_nothing_to_upload() {
    let mut world = World::new(false);
    for name in 0..50 {
        world.put(name, Some(vec![1; 10_000]));
    }
    let all = checkpoint(&mut world);
    for _ in 0..3 {
        assert_eq!(checkpoint(&mut world), all);
    }
}
