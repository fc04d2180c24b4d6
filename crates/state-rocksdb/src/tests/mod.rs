//! A job's keyed state in several subtasks, over either backend.

mod backend;
mod differential;
mod incremental;

use std::path::{Path, PathBuf};

use crate::{RocksBackend, RocksMemory, SnapshotForm, StateDirectory};
use millstream_state::{
    KeyParts, KeyedStateBackend, MemoryBackend, RestorePolicy, Scan, ScanPage, ScanRange,
    SchemaIndex, SnapshotSource, SnapshotWork, StateDescriptor, StateError, StateId, StateKeys,
    StateKind, StateTable, ValueBuffer,
};
use millstream_types::{
    CheckpointId, KeyGroup, KeyGroupRange, MaxParallelism, subtask_of_key_group,
};

const VALUES: StateId = StateId(0);
const MAP: StateId = StateId(1);

fn max() -> MaxParallelism {
    MaxParallelism::new(16).unwrap()
}

fn table() -> StateTable {
    StateTable::declare(vec![
        StateDescriptor::new("values", StateKind::Value, "bytes/1"),
        StateDescriptor::new("map", StateKind::Map, "bytes/1"),
    ])
    .unwrap()
}

/// An entry to be put, or deleted.
#[derive(Clone, Debug)]
struct Write {
    state: StateId,
    name: u8,
    namespace: Vec<u8>,
    user_key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Write {
    fn group(&self) -> KeyGroup {
        KeyGroup(u16::from(self.name) % 16)
    }

    fn push_key(&self, keys: &mut StateKeys) {
        let parts = KeyParts {
            group: self.group(),
            state: self.state,
            key: &[self.name],
            namespace: &self.namespace,
            user_key: &self.user_key,
        };
        keys.push(parts).unwrap();
    }

    fn push_value(&self, values: &mut ValueBuffer) {
        match &self.value {
            Some(value) => values.push(SchemaIndex(0), value),
            None => values.push_absent(),
        }
    }
}

/// A directory in memory where there is one: dozens of short-lived databases would otherwise spend
/// half a minute on syncing files.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

enum Kind {
    Memory,
    Rocks {
        root: PathBuf,
        n_made: usize,
        /// Every dirty map is drained by files.
        ingests: bool,
    },
}

/// The least memory that is possible, so that drains happen all the time.
fn small_memory() -> RocksMemory {
    RocksMemory::new(RocksMemory::BYTES_MIN_PER_OPERATOR, 1).unwrap()
}

fn rocks(root: &Path, name: &str, range: KeyGroupRange) -> RocksBackend {
    rocks_with(root, name, range, &small_memory())
}

fn rocks_with(root: &Path, name: &str, range: KeyGroupRange, memory: &RocksMemory) -> RocksBackend {
    let directory = StateDirectory::create(root, name).unwrap();
    RocksBackend::create(directory, table(), range, max(), memory, SnapshotForm::Full).unwrap()
}

/// The subtasks of one operator.
struct Fleet {
    kind: Kind,
    backends: Vec<Box<dyn KeyedStateBackend>>,
    running: Vec<Box<dyn SnapshotWork>>,
    checkpoint: u64,
}

impl Fleet {
    fn new(kind: Kind) -> Self {
        let mut fleet = Self {
            kind,
            backends: Vec::new(),
            running: Vec::new(),
            checkpoint: 0,
        };
        fleet.backends = vec![fleet.make(0, 1)];
        fleet
    }

    fn make(&mut self, index: usize, parallelism: usize) -> Box<dyn KeyedStateBackend> {
        let range = KeyGroupRange::of_subtask(index as u32, parallelism as u32, max());
        match &mut self.kind {
            Kind::Memory => Box::new(MemoryBackend::new(table(), range, max())),
            Kind::Rocks {
                root,
                n_made,
                ingests,
            } => {
                *n_made += 1;
                let memory = match ingests {
                    true => small_memory().always_ingesting(),
                    false => small_memory(),
                };
                let name = format!("attempt-{n_made}");
                Box::new(rocks_with(root, &name, range, &memory))
            }
        }
    }

    fn owner(&self, group: KeyGroup) -> usize {
        subtask_of_key_group(group, self.backends.len() as u32, max()) as usize
    }

    /// Puts a slice. A full backend is waited for, as a task would.
    fn put(&mut self, writes: &[Write]) {
        for index in 0..self.backends.len() {
            let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
            for write in writes.iter().filter(|w| self.owner(w.group()) == index) {
                write.push_key(&mut keys);
                write.push_value(&mut values);
            }
            if let Err(error) = self.backends[index].put(&keys, &values) {
                assert!(matches!(error, StateError::Full { .. }), "{error}");
                self.end_snapshot();
                self.backends[index].put(&keys, &values).unwrap();
            }
        }
    }

    fn get(&mut self, writes: &[Write]) -> Vec<Option<Vec<u8>>> {
        let (mut keys, mut values) = (StateKeys::new(), ValueBuffer::new());
        let mut found = Vec::new();
        for write in writes {
            keys.clear();
            write.push_key(&mut keys);
            let owner = self.owner(write.group());
            self.backends[owner].get(&keys, &mut values).unwrap();
            found.push(values.stored(0).map(<[u8]>::to_vec));
        }
        found
    }

    /// Everything a scan of this range finds, in its order.
    fn scan(&mut self, range: &ScanRange, page_entries: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        for backend in &mut self.backends {
            let mut scan = Scan::new(range.clone());
            let mut page = ScanPage::new();
            loop {
                let more = backend.scan(&mut scan, page_entries, &mut page).unwrap();
                assert!(page.len() <= page_entries);
                let entry = |i| (page.encoded_key(i).to_vec(), page.stored_value(i).to_vec());
                found.extend((0..page.len()).map(entry));
                if !more {
                    break;
                }
            }
        }
        found
    }

    /// Takes the synchronous part everywhere, unless a snapshot is under way.
    fn begin_snapshot(&mut self) {
        if !self.running.is_empty() {
            return;
        }
        self.checkpoint += 1;
        for backend in &mut self.backends {
            let work = backend.snapshot(CheckpointId(self.checkpoint)).unwrap();
            self.running.push(work);
        }
    }

    /// Runs what is under way, on other threads; one file a subtask.
    fn end_snapshot(&mut self) -> Vec<Vec<u8>> {
        let works = std::mem::take(&mut self.running);
        std::thread::scope(|scope| {
            let run = |work: Box<dyn SnapshotWork>| {
                let mut file = Vec::new();
                work.run(&mut file).unwrap();
                file
            };
            let threads: Vec<_> = works
                .into_iter()
                .map(|work| scope.spawn(move || run(work)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    /// Gives up what is under way.
    fn abort_snapshot(&mut self) {
        self.running.clear();
    }

    /// A snapshot from beginning to end, after the one under way.
    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        self.end_snapshot();
        self.begin_snapshot();
        self.end_snapshot()
    }

    /// Fails, and comes back with another parallelism.
    fn restore(&mut self, files: &[Vec<u8>], parallelism: usize) {
        self.running.clear();
        self.backends.clear();
        for index in 0..parallelism {
            let mut backend = self.make(index, parallelism);
            let mut sources: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
            let mut parts: Vec<_> = sources
                .iter_mut()
                .map(|s| s as &mut dyn SnapshotSource)
                .collect();
            backend
                .restore(&mut parts, RestorePolicy::RequireAll)
                .unwrap();
            self.backends.push(backend);
        }
    }
}
