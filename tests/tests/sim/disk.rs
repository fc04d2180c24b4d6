//! Disks: one of each host's own, and a shared one under `/shared`, which may have trouble.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use millstream_env::Rng;
use millstream_env::fs::{Entry, File, Fs, FsError, MemoryFs, Metadata, Names, OpenMode};
use parking_lot::Mutex;

use crate::host::Control;

/// Where the shared disk is mounted on every host.
pub const SHARED: &str = "/shared";

/// Trouble of the shared disk, as probabilities per request.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DiskFaults {
    /// A change is refused and not made.
    pub error_before: f64,
    /// A change is made and reported as failed, as over a network that lost the answer.
    pub error_after: f64,
}

/// The shared disk. Cloning shares it.
#[derive(Clone)]
pub struct SharedDisk {
    files: MemoryFs,
    faults: Arc<Mutex<DiskFaults>>,
    rng: Rng,
}

impl SharedDisk {
    pub fn new(rng: Rng) -> Self {
        let files = MemoryFs::default();
        // Mounted: it is there whatever happens.
        let mounted: &dyn Fs = &files;
        mounted.create_dir_durable(Path::new(SHARED)).unwrap();
        Self {
            files,
            faults: Arc::default(),
            rng,
        }
    }

    /// The files, without trouble.
    pub fn files(&self) -> &MemoryFs {
        &self.files
    }

    /// From now on, this trouble.
    pub fn set_faults(&self, faults: DiskFaults) {
        *self.faults.lock() = faults;
    }

    /// Makes a change, or not, and says whether it was made, or not.
    fn change<T>(
        &self,
        refused: impl Fn() -> FsError,
        make: impl FnOnce() -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let faults = *self.faults.lock();
        if faults.error_before > 0.0 && self.rng.chance(faults.error_before) {
            return Err(refused());
        }
        let made = make()?;
        if faults.error_after > 0.0 && self.rng.chance(faults.error_after) {
            return Err(refused());
        }
        Ok(made)
    }
}

/// The files that one process sees.
pub struct HostFs {
    own: MemoryFs,
    shared: SharedDisk,
    control: Control,
}

impl HostFs {
    pub fn new(own: MemoryFs, shared: SharedDisk, control: Control) -> Self {
        Self {
            own,
            shared,
            control,
        }
    }

    fn files(&self, path: &Path) -> &MemoryFs {
        match is_shared(path) {
            true => &self.shared.files,
            false => &self.own,
        }
    }

    /// A change of names or contents; none by a process that was killed in the midst of its turn.
    fn change<T>(
        &self,
        action: &'static str,
        path: &Path,
        make: impl FnOnce(&MemoryFs) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let refused = || FsError {
            action,
            path: path.to_owned(),
            source: trouble(),
        };
        if self.control.is_dead() {
            return Err(refused());
        }
        match is_shared(path) {
            true => self.shared.change(refused, || make(&self.shared.files)),
            false => make(&self.own),
        }
    }
}

/// Subtask and epoch in the name of a file that a sink writes.
fn staged_by(path: &Path) -> Option<(&str, u64)> {
    let mut fields = path.file_name()?.to_str()?.rsplit('.').skip(2);
    let staging = path.parent()?.parent()?.file_name()?;
    let (epoch, _nonce) = fields.next()?.split_once('-')?;
    let subtask = fields.next()?;
    (staging == ".staging").then_some((subtask, epoch.parse().ok()?))
}

fn is_shared(path: &Path) -> bool {
    path.starts_with(SHARED)
}

fn trouble() -> io::Error {
    io::Error::other("the disk does not answer")
}

impl Names for HostFs {
    fn create_dir_all(&self, path: &Path) -> Result<(), FsError> {
        self.change("create directory", path, |files| files.create_dir_all(path))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), FsError> {
        self.change("sync directory", path, |files| files.sync_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        self.change("rename a file to", to, |files| files.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        if let Some((subtask, epoch)) = staged_by(from) {
            self.control.commits(subtask, epoch);
        }
        self.change("link a file to", to, |files| files.hard_link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        self.change("remove", path, |files| files.remove(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, FsError> {
        self.files(path).list(path)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata, FsError> {
        self.files(path).metadata(path)
    }
}

impl Fs for HostFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>, FsError> {
        let file = match mode {
            OpenMode::Read => self.files(path).open(path, mode)?,
            OpenMode::CreateNew | OpenMode::Append | OpenMode::Unnamed => {
                self.change("open", path, |files| files.open(path, mode))?
            }
        };
        if let (Some((subtask, epoch)), OpenMode::CreateNew) = (staged_by(path), mode) {
            self.control.stages(subtask, epoch);
        }
        Ok(Box::new(HostFile {
            file,
            disk: is_shared(path).then(|| self.shared.clone()),
            control: self.control.clone(),
        }))
    }

    fn free_space(&self, path: &Path) -> Result<u64, FsError> {
        self.files(path).free_space(path)
    }
}

impl fmt::Debug for HostFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostFs")
    }
}

struct HostFile {
    file: Box<dyn File>,
    /// Where it may have trouble.
    disk: Option<SharedDisk>,
    control: Control,
}

impl HostFile {
    fn change<T>(&mut self, make: impl FnOnce(&mut dyn File) -> io::Result<T>) -> io::Result<T> {
        if self.control.is_dead() {
            return Err(trouble());
        }
        let faults = self
            .disk
            .as_ref()
            .map(|disk| (*disk.faults.lock(), &disk.rng));
        let hits = |pick: fn(&DiskFaults) -> f64| {
            faults.as_ref().is_some_and(|(faults, rng)| {
                let probability = pick(faults);
                probability > 0.0 && rng.chance(probability)
            })
        };
        if hits(|faults| faults.error_before) {
            return Err(trouble());
        }
        let made = make(self.file.as_mut())?;
        match hits(|faults| faults.error_after) {
            true => Err(trouble()),
            false => Ok(made),
        }
    }
}

impl Read for HostFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for HostFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.change(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for HostFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl File for HostFile {
    fn sync(&mut self) -> io::Result<()> {
        self.change(|file| file.sync())
    }
}
