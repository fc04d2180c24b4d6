//! Files in memory that behave as a strict file system may: what was not synced is lost in a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Entry, File, FileKind, Fs, FsError, Metadata, Names, OpenMode};

/// A file system in memory. Cloning shares it. `..` in a path is not resolved.
#[derive(Clone, Default)]
pub struct MemoryFs {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    /// Contents by inode; names refer to them.
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// What a reader sees now.
    live: BTreeMap<PathBuf, Node>,
    /// What is left after a crash.
    durable: BTreeMap<PathBuf, Node>,
    /// Open files without a name.
    unnamed: BTreeSet<u64>,
    /// Bytes all contents may have together.
    capacity: Option<u64>,
    /// Whether every sync fails, as on a dying disk.
    sync_fails: bool,
}

#[derive(Default)]
struct Inode {
    contents: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(u64),
}

impl MemoryFs {
    /// Loses everything that was not synced: contents of files, and names in directories.
    pub fn crash(&self) {
        let mut disk = self.disk.lock();
        let disk = &mut *disk;
        // A name is reached through the names above it.
        let mut kept = BTreeMap::new();
        for (path, node) in &disk.durable {
            let parent = path.parent().unwrap_or(Path::new(""));
            if is_root(parent) || kept.get(parent) == Some(&Node::Directory) {
                kept.insert(path.clone(), *node);
            }
        }
        disk.live = kept.clone();
        disk.durable = kept;
        disk.collect();
        for inode in disk.inodes.values_mut() {
            inode.contents = inode.synced.clone();
        }
    }

    /// Refuses writes beyond this many bytes in all, or none with `None`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk.lock().capacity = bytes;
    }

    /// Lets every sync fail from now on, or no longer.
    pub fn set_sync_fails(&self, fails: bool) {
        self.disk.lock().sync_fails = fails;
    }
}

impl Disk {
    fn used(&self) -> u64 {
        self.inodes
            .values()
            .map(|inode| inode.contents.len() as u64)
            .sum()
    }

    /// Forgets contents that no name refers to. A handle that is still open on them sees an empty
    /// file: tests that need more use the real one.
    fn collect(&mut self) {
        let named = self.live.values().chain(self.durable.values());
        let named = named.filter_map(|node| match node {
            Node::File(inode) => Some(*inode),
            Node::Directory => None,
        });
        let used: BTreeSet<u64> = named.chain(self.unnamed.iter().copied()).collect();
        self.inodes.retain(|id, _| used.contains(id));
    }

    fn node(&self, path: &Path) -> io::Result<Node> {
        if is_root(path) {
            return Ok(Node::Directory);
        }
        self.live
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.node(path)? {
            Node::File(inode) => Ok(inode),
            Node::Directory => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        match self.node(path)? {
            Node::Directory => Ok(()),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// That a name can be made at `path`: it is absent and its directory exists.
    fn vacant(&self, path: &Path) -> io::Result<()> {
        if self.node(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.directory(path.parent().unwrap_or(Path::new("")))
    }

    fn create(&mut self, path: &Path) -> u64 {
        let inode = self.create_inode();
        self.live.insert(path.to_owned(), Node::File(inode));
        inode
    }

    fn create_unnamed(&mut self) -> u64 {
        let inode = self.create_inode();
        self.unnamed.insert(inode);
        inode
    }

    fn create_inode(&mut self) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        inode
    }

    fn children<'a>(
        names: &'a BTreeMap<PathBuf, Node>,
        directory: &'a Path,
    ) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        names
            .iter()
            .filter(move |(path, _)| path.parent() == Some(directory))
    }

    fn sync_allowed(&self) -> io::Result<()> {
        match self.sync_fails {
            true => Err(io::Error::other("the disk does not answer")),
            false => Ok(()),
        }
    }
}

/// Paths without `.` components, so that one file has one name.
fn clean(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .collect()
}

fn is_root(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == Path::new("/")
}

impl Fs for MemoryFs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>, FsError> {
        let name = clean(path);
        let mut disk = self.disk.lock();
        let inode = match mode {
            OpenMode::Read => disk.file(&name),
            OpenMode::CreateNew => disk.vacant(&name).map(|()| disk.create(&name)),
            OpenMode::Append => match disk.file(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    disk.vacant(&name).map(|()| disk.create(&name))
                }
                other => other,
            },
            OpenMode::Unnamed => disk.directory(&name).map(|()| disk.create_unnamed()),
        };
        let inode = inode.map_err(FsError::at("open", path))?;
        let at = match mode {
            OpenMode::Append => disk
                .inodes
                .get(&inode)
                .map_or(0, |inode| inode.contents.len()),
            OpenMode::Read | OpenMode::CreateNew | OpenMode::Unnamed => 0,
        };
        let writable = mode != OpenMode::Read;
        Ok(Box::new(OpenFile {
            disk: self.disk.clone(),
            inode,
            at: at as u64,
            writable,
        }))
    }

    fn free_space(&self, _path: &Path) -> Result<u64, FsError> {
        let disk = self.disk.lock();
        Ok(disk
            .capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(disk.used())))
    }
}

impl Names for MemoryFs {
    fn create_dir_all(&self, path: &Path) -> Result<(), FsError> {
        let mut disk = self.disk.lock();
        let mut directory = PathBuf::new();
        for component in clean(path).components() {
            directory.push(component);
            match disk.node(&directory) {
                Ok(Node::Directory) => {}
                Ok(Node::File(_)) => {
                    let error = io::ErrorKind::NotADirectory.into();
                    return Err(FsError::at("create directory", path)(error));
                }
                Err(_) => {
                    disk.live.insert(directory.clone(), Node::Directory);
                }
            }
        }
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> Result<(), FsError> {
        let directory = clean(path);
        let mut disk = self.disk.lock();
        let allowed = disk
            .directory(&directory)
            .and_then(|()| disk.sync_allowed());
        allowed.map_err(FsError::at("sync directory", path))?;
        let disk = &mut *disk;
        disk.durable
            .retain(|path, _| path.parent() != Some(directory.as_path()));
        let entries = Disk::children(&disk.live, &directory);
        disk.durable
            .extend(entries.map(|(path, node)| (path.clone(), *node)));
        disk.collect();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        let (source, target) = (clean(from), clean(to));
        let mut disk = self.disk.lock();
        let checked = disk
            .file(&source)
            .and_then(|inode| match disk.node(&target) {
                Ok(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
                Ok(Node::File(_)) => Ok(inode),
                Err(_) => disk.vacant(&target).map(|()| inode),
            });
        let inode = checked.map_err(FsError::at("rename a file to", to))?;
        disk.live.remove(&source);
        disk.live.insert(target, Node::File(inode));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        let (source, target) = (clean(from), clean(to));
        let mut disk = self.disk.lock();
        let checked = disk
            .file(&source)
            .and_then(|inode| disk.vacant(&target).map(|()| inode));
        let inode = checked.map_err(FsError::at("link a file to", to))?;
        disk.live.insert(target, Node::File(inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        let name = clean(path);
        let mut disk = self.disk.lock();
        let checked = disk.node(&name).and_then(|node| match node {
            Node::Directory if Disk::children(&disk.live, &name).next().is_some() => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            Node::Directory | Node::File(_) => Ok(()),
        });
        checked.map_err(FsError::at("remove", path))?;
        disk.live.remove(&name);
        disk.collect();
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, FsError> {
        let directory = clean(path);
        let disk = self.disk.lock();
        disk.directory(&directory)
            .map_err(FsError::at("list", path))?;
        let entry = |(path, node): (&PathBuf, &Node)| Entry {
            name: path.file_name().map_or_else(OsString::new, OsString::from),
            kind: node.kind(),
        };
        Ok(Disk::children(&disk.live, &directory).map(entry).collect())
    }

    fn metadata(&self, path: &Path) -> Result<Metadata, FsError> {
        let disk = self.disk.lock();
        let node = disk
            .node(&clean(path))
            .map_err(FsError::at("look at", path))?;
        let bytes = match node {
            Node::File(inode) => disk
                .inodes
                .get(&inode)
                .map_or(0, |inode| inode.contents.len()),
            Node::Directory => 0,
        };
        Ok(Metadata {
            kind: node.kind(),
            bytes: bytes as u64,
            modified_ms: 0,
        })
    }
}

impl Node {
    fn kind(self) -> FileKind {
        match self {
            Self::Directory => FileKind::Directory,
            Self::File(_) => FileKind::File,
        }
    }
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.disk.lock().live.keys()).finish()
    }
}

struct OpenFile {
    disk: Arc<Mutex<Disk>>,
    inode: u64,
    at: u64,
    writable: bool,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut disk = self.disk.lock();
        if disk.unnamed.remove(&self.inode) {
            disk.inodes.remove(&self.inode);
        }
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let disk = self.disk.lock();
        let contents = disk
            .inodes
            .get(&self.inode)
            .map_or(&[][..], |inode| &inode.contents);
        let start = usize::try_from(self.at)
            .unwrap_or(usize::MAX)
            .min(contents.len());
        let read = (&contents[start..]).read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut disk = self.disk.lock();
        let (used, capacity) = (disk.used(), disk.capacity);
        let Some(inode) = disk.inodes.get_mut(&self.inode) else {
            return Ok(bytes.len());
        };
        let start = usize::try_from(self.at).map_err(io::Error::other)?;
        let end = start.saturating_add(bytes.len());
        let growth = end.saturating_sub(inode.contents.len()) as u64;
        if capacity.is_some_and(|capacity| used + growth > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if inode.contents.len() < end {
            inode.contents.resize(end, 0);
        }
        inode.contents[start..end].copy_from_slice(bytes);
        self.at = end as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self
            .disk
            .lock()
            .inodes
            .get(&self.inode)
            .map_or(0, |i| i.contents.len()) as u64;
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => len.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl File for OpenFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        disk.sync_allowed()?;
        if let Some(inode) = disk.inodes.get_mut(&self.inode) {
            inode.synced = inode.contents.clone();
        }
        Ok(())
    }
}
