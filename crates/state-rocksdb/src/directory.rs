//! Directories of local state: one for each attempt, gone with it, swept if a process died.
//!
//! A directory belongs to a process as long as that process holds the lock on the file
//! `owner.lock` in it: the operating system drops the lock with the process, however that ends, and
//! no process id can be mistaken for another. The file `sweep.lock` beside the directories is held
//! shared while one is made and exclusively while they are looked through, so that no sweep sees a
//! directory whose lock is not taken yet.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use millstream_state::StateError;

use crate::error;

const OWNER_LOCK: &str = "owner.lock";
const SWEEP_LOCK: &str = "sweep.lock";
const DOOMED: &str = ".doomed-";

/// A directory of one attempt's local state, owned by this process. Dropping it deletes it.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    _owner: File,
}

impl StateDirectory {
    /// Makes the directory `name` in `root`. The name must be new: attempts do not share one.
    pub fn create(root: &Path, name: &str) -> Result<Self, StateError> {
        let path = root.join(name);
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        if !is_plain || name == SWEEP_LOCK {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "not a plain directory name");
            return Err(error::file("create", &path, why));
        }
        fs::create_dir_all(root).map_err(|e| error::file("create", root, e))?;
        let sweep_lock = open_lock(&root.join(SWEEP_LOCK))?;
        sweep_lock
            .lock_shared()
            .map_err(|e| error::file("lock", root, e))?;
        fs::create_dir(&path).map_err(|e| error::file("create", &path, e))?;
        let owner_path = path.join(OWNER_LOCK);
        let owner = open_lock(&owner_path)?;
        owner
            .try_lock()
            .map_err(|e| error::file("lock", &owner_path, e.into()))?;
        Ok(Self {
            path,
            _owner: owner,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StateDirectory {
    fn drop(&mut self) {
        // Set apart first: whoever is killed while it deletes may have deleted the lock file, by
        // which a sweep tells what is ours. What is left is swept later; it is of no use to anyone.
        let apart = set_apart_as(&self.path);
        let path = match fs::rename(&self.path, &apart) {
            Ok(()) => &apart,
            Err(_) => &self.path,
        };
        let _ = fs::remove_dir_all(path);
    }
}

/// Deletes the directories in `root` that no living process owns, except those named in `live`.
/// Returns the names of those deleted, in order.
///
/// Only directories made by [`StateDirectory::create`] are touched; anything else in `root` stays.
pub fn sweep(root: &Path, live: &[&str]) -> Result<Vec<String>, StateError> {
    if !root.is_dir() {
        return Ok(Vec::new());
    }
    let mut swept = Vec::new();
    let doomed = set_apart(root, live, &mut swept)?;
    // Deleting takes long and needs no lock any more: nothing else uses these names.
    for path in doomed {
        match fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(error::file("delete", &path, e));
            }
            Ok(()) | Err(_) => {}
        }
    }
    swept.sort_unstable();
    Ok(swept)
}

/// Renames the abandoned directories, under the lock that keeps new ones from being made.
fn set_apart(
    root: &Path,
    live: &[&str],
    swept: &mut Vec<String>,
) -> Result<Vec<PathBuf>, StateError> {
    let sweep_lock = open_lock(&root.join(SWEEP_LOCK))?;
    sweep_lock
        .lock()
        .map_err(|e| error::file("lock", root, e))?;
    let mut doomed = Vec::new();
    for entry in fs::read_dir(root).map_err(|e| error::file("list", root, e))? {
        let entry = entry.map_err(|e| error::file("list", root, e))?;
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(|e| error::file("inspect", &path, e))?;
        let (true, Some(name)) = (kind.is_dir(), entry.file_name().to_str().map(str::to_owned))
        else {
            continue;
        };
        if name.starts_with(DOOMED) {
            // Set apart by a sweep that did not end.
            doomed.push(path);
        } else if !live.contains(&name.as_str()) && is_abandoned(&path)? {
            let apart = set_apart_as(&path);
            fs::rename(&path, &apart).map_err(|e| error::file("rename", &path, e))?;
            doomed.push(apart);
            swept.push(name);
        }
    }
    Ok(doomed)
}

/// The name under which a directory is deleted.
fn set_apart_as(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{DOOMED}{name}"))
}

/// Whether a directory is one of ours and its owner is gone.
fn is_abandoned(path: &Path) -> Result<bool, StateError> {
    let lock_path = path.join(OWNER_LOCK);
    let lock = match File::options().read(true).write(true).open(&lock_path) {
        Ok(lock) => lock,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(error::file("open", &lock_path, e)),
    };
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(error::file("lock", &lock_path, e)),
    }
}

fn open_lock(path: &Path) -> Result<File, StateError> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| error::file("open", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a killed process leaves: the directory and its files, and no lock.
    fn abandon(directory: StateDirectory) {
        let path = directory.path().to_owned();
        let kept = path.with_extension("kept");
        fs::rename(&path, &kept).unwrap();
        drop(directory);
        fs::rename(&kept, &path).unwrap();
    }

    #[test]
    fn a_directory_goes_with_its_owner() {
        let root = tempfile::tempdir().unwrap();
        let directory = StateDirectory::create(root.path(), "op-0-1").unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("000001.sst"), b"x").unwrap();
        drop(directory);
        assert!(!path.exists());
    }

    // Proves HND-071.
    #[test]
    fn a_sweep_takes_what_dead_processes_left_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let living = StateDirectory::create(root.path(), "living").unwrap();
        for name in ["dead", "kept"] {
            abandon(StateDirectory::create(root.path(), name).unwrap());
        }
        fs::create_dir(root.path().join("somebody-elses")).unwrap();
        fs::create_dir(root.path().join(".doomed-half-deleted")).unwrap();
        assert_eq!(sweep(root.path(), &["kept"]).unwrap(), ["dead"]);
        let mut left: Vec<_> = fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["kept", "living", "somebody-elses", "sweep.lock"]);
        assert!(living.path().exists());
        assert_eq!(sweep(root.path(), &[]).unwrap(), ["kept"]);
    }

    #[test]
    fn two_attempts_never_share_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let _first = StateDirectory::create(root.path(), "op-0-1").unwrap();
        let error = StateDirectory::create(root.path(), "op-0-1").unwrap_err();
        assert!(error.to_string().contains("op-0-1"), "{error}");
    }

    #[test]
    fn a_name_cannot_leave_the_root() {
        let root = tempfile::tempdir().unwrap();
        for bad in ["", "..", "a/b", "/tmp/x", ".doomed-x", "sweep.lock"] {
            assert!(StateDirectory::create(root.path(), bad).is_err(), "{bad:?}");
        }
        assert!(sweep(&root.path().join("none"), &[]).unwrap().is_empty());
    }
}
