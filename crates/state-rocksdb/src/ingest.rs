//! Entries that come in key order become sorted files, which the database takes over as they are:
//! when state is restored, and when a large dirty map is drained. No write buffer, whose skip list
//! costs several times what the file does.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use millstream_state::{StateError, StateId};
use rocksdb::{IngestExternalFileOptions, Options, SstFileWriter};

use crate::base::RocksBase;
use crate::error;

/// Size at which a file is closed and the next begun.
const FILE_BYTES: u64 = 64 << 20;

/// Files being written, one a state.
pub(crate) struct Ingest<'a> {
    base: &'a RocksBase,
    options: &'a Options,
    directory: PathBuf,
    open: BTreeMap<StateId, OpenFile<'a>>,
    done: BTreeMap<StateId, Vec<PathBuf>>,
    n_files: usize,
}

struct OpenFile<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
}

impl<'a> Ingest<'a> {
    /// Files written with these options.
    pub(crate) fn new(base: &'a RocksBase, options: &'a Options) -> Result<Self, StateError> {
        // Beside the database, on the same file system: its files are linked, not copied.
        let directory = base.path().with_file_name("ingest");
        // One that failed left its files.
        match fs::remove_dir_all(&directory) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(error::file("delete", &directory, e));
            }
            Ok(()) | Err(_) => {}
        }
        fs::create_dir(&directory).map_err(|e| error::file("create", &directory, e))?;
        Ok(Self {
            base,
            options,
            directory,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            n_files: 0,
        })
    }

    /// Appends an entry, or the deletion of one. The keys of a state must ascend.
    pub(crate) fn put(&mut self, key: &[u8], stored: Option<&[u8]>) -> Result<(), StateError> {
        let state = StateId(u16::from_be_bytes([key[2], key[3]]));
        if !self.open.contains_key(&state) {
            let file = self.begin()?;
            self.open.insert(state, file);
        }
        let file = self.open.get_mut(&state).expect("opened above");
        let failed = |file: &OpenFile<'_>, e| error::database("write", &file.path, e);
        let written = match stored {
            Some(stored) => file.writer.put(key, stored),
            None => file.writer.delete(key),
        };
        written.map_err(|e| failed(file, e))?;
        if file.writer.file_size() >= FILE_BYTES {
            self.end(state)?;
        }
        Ok(())
    }

    /// Hands all files to the database.
    pub(crate) fn finish(mut self) -> Result<(), StateError> {
        let open: Vec<_> = self.open.keys().copied().collect();
        open.into_iter().try_for_each(|state| self.end(state))?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        for (state, paths) in self.done {
            let family = self.base.family(state);
            self.base
                .db()
                .ingest_external_file_cf_opts(family, &options, paths)
                .map_err(|e| error::database("ingest into", self.base.path(), e))?;
        }
        fs::remove_dir_all(&self.directory).map_err(|e| error::file("delete", &self.directory, e))
    }

    fn begin(&mut self) -> Result<OpenFile<'a>, StateError> {
        let path = self.directory.join(format!("{:06}.sst", self.n_files));
        self.n_files += 1;
        let writer = SstFileWriter::create(self.options);
        writer
            .open(&path)
            .map_err(|e| error::database("open", &path, e))?;
        Ok(OpenFile { writer, path })
    }

    fn end(&mut self, state: StateId) -> Result<(), StateError> {
        if let Some(mut file) = self.open.remove(&state) {
            file.writer
                .finish()
                .map_err(|e| error::database("finish", &file.path, e))?;
            self.done.entry(state).or_default().push(file.path);
        }
        Ok(())
    }
}
