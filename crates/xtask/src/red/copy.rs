//! A copy of the work tree to plant faults in. It is kept, and only what differs is written, so that
//! builds in it are incremental.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use walkdir::WalkDir;

use crate::report::Failure;

/// The copy.
pub struct Copy {
    folder: PathBuf,
}

impl Copy {
    /// Brings the copy in `folder` to what the work tree at `root` holds: all files that git does
    /// not ignore, those not committed too.
    pub fn of(root: &Path, folder: &Path) -> Result<Self, Failure> {
        let names = names(root)?;
        for name in &names {
            write_if_different(&root.join(name), &folder.join(name))?;
        }
        remove_others(folder, &names)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts `with` in place of the only `text` of a file while `work` runs.
    pub fn planted<T>(
        &self,
        file: &Path,
        text: &str,
        with: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let path = self.folder.join(file);
        let write = |text: &str| {
            let written = std::fs::write(&path, text).and_then(|()| touch(&path));
            written.map_err(Failure::io(format!("write {}", path.display())))
        };
        let sound = std::fs::read_to_string(&path)
            .map_err(Failure::io(format!("read {}", path.display())))?;
        write(&sound.replacen(text, with, 1))?;
        let result = work();
        write(&sound)?;
        result
    }
}

/// The files of the work tree that belong to the repository.
fn names(root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(Failure::io("run git ls-files"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Unexpected(format!("git ls-files failed: {said}")));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    // A file that was removed and not yet committed is still listed.
    let names = listed.split('\0').filter(|name| root.join(name).is_file());
    Ok(names.map(PathBuf::from).collect())
}

fn write_if_different(from: &Path, to: &Path) -> Result<(), Failure> {
    let action = || format!("copy {} to {}", from.display(), to.display());
    let wanted = std::fs::read(from).map_err(Failure::io(action()))?;
    if std::fs::read(to).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(Failure::io(action()))?;
    }
    let copied = std::fs::copy(from, to).and_then(|_| touch(to));
    copied.map_err(Failure::io(action()))
}

/// Builds go by time: they must see a fault come, and go.
#[expect(
    clippy::disallowed_methods,
    reason = "a development tool has no environment to ask for the time"
)]
fn touch(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::options().append(true).open(path)?;
    file.set_modified(SystemTime::now())
}

fn remove_others(folder: &Path, names: &BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in WalkDir::new(folder) {
        let entry = entry.map_err(|error| Failure::Unexpected(error.to_string()))?;
        let name = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        if entry.file_type().is_file() && !names.contains(name) {
            std::fs::remove_file(entry.path())
                .map_err(Failure::io(format!("remove {}", entry.path().display())))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A work tree in a folder of its own, removed at the end.
    struct World(PathBuf);

    impl World {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(folder.join("tree")).unwrap();
            let mut git = Command::new("git");
            git.args(["init", "-q"]).current_dir(folder.join("tree"));
            assert!(git.status().unwrap().success());
            Self(folder)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join("tree").join(name), text).unwrap();
        }

        fn copy(&self) -> Copy {
            Copy::of(&self.0.join("tree"), &self.0.join("copy")).unwrap()
        }

        fn copied(&self, name: &str) -> Option<String> {
            std::fs::read_to_string(self.0.join("copy").join(name)).ok()
        }

        fn modified(&self, name: &str) -> SystemTime {
            let path = self.0.join("copy").join(name);
            std::fs::metadata(path).unwrap().modified().unwrap()
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_copy_follows_the_tree_and_touches_nothing_else() {
        let world = World::new("follows");
        world.write(".gitignore", "out\n");
        for (name, text) in [("a", "1"), ("b", "1"), ("out", "1")] {
            world.write(name, text);
        }
        world.copy();
        assert_eq!(world.copied("a").as_deref(), Some("1"));
        assert_eq!(world.copied("out"), None);
        let before = (world.modified("a"), world.modified("b"));
        world.write("b", "2");
        std::fs::write(world.0.join("copy/left-over"), "x").unwrap();
        world.copy();
        assert_eq!(world.copied("b").as_deref(), Some("2"));
        assert_eq!(world.copied("left-over"), None);
        assert_eq!(world.modified("a"), before.0);
        assert!(world.modified("b") > before.1);
    }

    #[test]
    fn a_fault_stands_there_for_a_while_and_builds_see_it_come_and_go() {
        let world = World::new("plants");
        world.write("a", "x < y");
        let copy = world.copy();
        let sound_at = world.modified("a");
        let planted = copy.planted(Path::new("a"), "<", "<=", || {
            Ok((world.copied("a"), world.modified("a")))
        });
        let (text, planted_at) = planted.unwrap();
        assert_eq!(text.as_deref(), Some("x <= y"));
        assert_eq!(world.copied("a").as_deref(), Some("x < y"));
        assert!(sound_at < planted_at && planted_at < world.modified("a"));
        let failed: Result<(), _> = copy.planted(Path::new("a"), "<", ">", || {
            Err(Failure::Unexpected("no".to_owned()))
        });
        assert!(failed.is_err());
        assert_eq!(world.copied("a").as_deref(), Some("x < y"));
    }
}
