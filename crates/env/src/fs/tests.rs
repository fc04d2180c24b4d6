use std::sync::Arc;

use millstream_types::WriteOutcome;

use super::*;

/// Runs a story on the machine's files and on files in memory: what holds for one holds for both.
fn on_both(story: impl Fn(&dyn Fs, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    story(&RealFs, directory.path());
    let memory = MemoryFs::default();
    let root = Path::new("/data");
    memory.create_dir_all(root).unwrap();
    story(&memory, root);
}

fn names(fs: &dyn Fs, path: &Path) -> Vec<String> {
    let entries = fs.list(path).unwrap();
    entries
        .iter()
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_new_file_is_written_once_and_read_whole() {
    on_both(|fs, root| {
        let path = root.join("state");
        fs.write_new(&path, b"one").unwrap();
        assert_eq!(
            fs.write_new(&path, b"two").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs.read(&path, 3).unwrap(), b"one");
        let metadata = fs.metadata(&path).unwrap();
        assert_eq!((metadata.kind, metadata.bytes), (FileKind::File, 3));
    });
}

#[test]
fn a_file_over_the_limit_is_refused_and_not_cut() {
    on_both(|fs, root| {
        fs.write_new(&root.join("big"), &[7; 100]).unwrap();
        let error = fs.read(&root.join("big"), 99).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("big"), "{error}");
    });
}

#[test]
fn a_file_without_a_name_is_read_back_and_gone_with_its_handle() {
    on_both(|fs, root| {
        let mut file = fs.open(root, OpenMode::Unnamed).unwrap();
        let mut other = fs.open(root, OpenMode::Unnamed).unwrap();
        file.write_all(b"state").unwrap();
        other.write_all(b"other").unwrap();
        file.seek(io::SeekFrom::Start(1)).unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "tate");
        assert!(names(fs, root).is_empty());
        let missing = fs.open(&root.join("none"), OpenMode::Unnamed);
        assert_eq!(missing.err().unwrap().kind(), io::ErrorKind::NotFound);
    });
    let memory = MemoryFs::default();
    memory.set_capacity(Some(10));
    let mut file = memory.open(Path::new("/"), OpenMode::Unnamed).unwrap();
    file.write_all(&[7; 10]).unwrap();
    assert_eq!(memory.free_space(Path::new("/")).unwrap(), 0);
    drop(file);
    assert_eq!(memory.free_space(Path::new("/")).unwrap(), 10);
}

#[test]
fn appending_goes_on_at_the_end_and_seeking_finds_a_place() {
    on_both(|fs, root| {
        let path = root.join("log");
        for part in [b"ab", b"cd"] {
            fs.open(&path, OpenMode::Append)
                .unwrap()
                .write_all(part)
                .unwrap();
        }
        let mut file = fs.open(&path, OpenMode::Read).unwrap();
        file.seek(io::SeekFrom::End(-3)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "bcd");
        assert!(file.write_all(b"x").is_err(), "it was opened for reading");
    });
}

#[test]
fn names_are_listed_in_order_and_move_and_go() {
    on_both(|fs, root| {
        fs.create_dir_all(&root.join("b/c")).unwrap();
        fs.write_new(&root.join("z"), b"").unwrap();
        fs.write_new(&root.join("a"), b"a").unwrap();
        assert_eq!(names(fs, root), ["a", "b", "z"]);
        fs.rename(&root.join("a"), &root.join("z")).unwrap();
        assert_eq!(fs.read(&root.join("z"), 10).unwrap(), b"a");
        assert_eq!(
            fs.remove(&root.join("b")).unwrap_err().kind(),
            io::ErrorKind::DirectoryNotEmpty
        );
        fs.remove_tree(&root.join("b")).unwrap();
        fs.remove_tree(&root.join("b")).unwrap();
        assert_eq!(names(fs, root), ["z"]);
        assert!(!fs.exists(&root.join("b")).unwrap());
    });
}

#[test]
fn publishing_creates_once_and_leaves_no_temporary_name() {
    on_both(|fs, root| {
        let entry = root.join("00000001");
        assert_eq!(fs.publish(&entry, b"mine", 1).unwrap(), Published::Created);
        assert_eq!(
            fs.publish(&entry, b"other", 2).unwrap(),
            Published::AlreadyExists
        );
        assert_eq!(fs.read(&entry, 10).unwrap(), b"mine");
        assert_eq!(names(fs, root), ["00000001"]);
    });
}

#[test]
fn of_many_publishers_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let entry = directory.path().join("7");
    let created: usize = std::thread::scope(|scope| {
        let publish = |nonce: u64| {
            let (fs, entry) = (&fs, &entry);
            move || fs.publish(entry, &nonce.to_le_bytes(), nonce).unwrap() == Published::Created
        };
        let threads: Vec<_> = (0..16).map(|nonce| scope.spawn(publish(nonce))).collect();
        threads
            .into_iter()
            .map(|thread| usize::from(thread.join().unwrap()))
            .sum()
    });
    assert_eq!(created, 1);
    assert_eq!(names(fs.as_ref(), directory.path()), ["7"]);
}

#[test]
fn publishing_into_a_missing_directory_is_a_clear_no() {
    on_both(|fs, root| {
        let error = fs.publish(&root.join("missing/1"), b"", 1).unwrap_err();
        assert_eq!(error.outcome, WriteOutcome::DidNotHappen);
    });
}

fn memory_with_chain() -> MemoryFs {
    let fs = MemoryFs::default();
    (&fs as &dyn Fs)
        .create_dir_durable(Path::new("/chain"))
        .unwrap();
    fs
}

#[test]
fn what_was_published_survives_a_crash_and_what_was_only_written_does_not() {
    let memory = memory_with_chain();
    let fs: &dyn Fs = &memory;
    fs.publish(Path::new("/chain/1"), b"claim", 1).unwrap();
    fs.write_new(Path::new("/chain/loose"), b"synced, but its name is not")
        .unwrap();
    memory.crash();
    assert_eq!(names(fs, Path::new("/chain")), ["1"]);
    assert_eq!(fs.read(Path::new("/chain/1"), 10).unwrap(), b"claim");
}

#[test]
fn contents_that_were_not_synced_are_lost_though_the_name_stays() {
    let memory = memory_with_chain();
    let fs: &dyn Fs = &memory;
    let path = Path::new("/chain/torn");
    fs.open(path, OpenMode::CreateNew)
        .unwrap()
        .write_all(b"claim")
        .unwrap();
    fs.sync_dir(Path::new("/chain")).unwrap();
    memory.crash();
    assert_eq!(fs.read(path, 10).unwrap(), b"");
}

/// A writer linked its entry and died before it synced the directory. Whoever then finds the entry
/// and builds on it must not lose it in a later power cut.
#[test]
fn an_entry_found_by_another_publisher_is_durable_from_then_on() {
    let memory = memory_with_chain();
    let fs: &dyn Fs = &memory;
    let entry = Path::new("/chain/1");
    fs.write_new(Path::new("/chain/.1.tmp"), b"first").unwrap();
    fs.hard_link(Path::new("/chain/.1.tmp"), entry).unwrap();
    assert_eq!(
        fs.publish(entry, b"second", 2).unwrap(),
        Published::AlreadyExists
    );
    memory.crash();
    assert_eq!(fs.read(entry, 10).unwrap(), b"first");
}

#[test]
fn a_full_disk_is_a_clear_no_and_leaves_nothing() {
    let memory = memory_with_chain();
    let fs: &dyn Fs = &memory;
    memory.set_capacity(Some(3));
    let error = fs.publish(Path::new("/chain/1"), b"claim", 1).unwrap_err();
    assert_eq!(error.outcome, WriteOutcome::DidNotHappen);
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
    assert!(names(fs, Path::new("/chain")).is_empty());
    assert_eq!(fs.free_space(Path::new("/chain")).unwrap(), 3);
}

#[test]
fn a_directory_that_cannot_be_synced_leaves_the_outcome_open() {
    #[derive(Debug)]
    struct SyncDirFails(MemoryFs);
    impl Fs for SyncDirFails {
        fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>, FsError> {
            self.0.open(path, mode)
        }
        fn free_space(&self, path: &Path) -> Result<u64, FsError> {
            self.0.free_space(path)
        }
    }
    impl Names for SyncDirFails {
        fn create_dir_all(&self, path: &Path) -> Result<(), FsError> {
            self.0.create_dir_all(path)
        }
        fn sync_dir(&self, path: &Path) -> Result<(), FsError> {
            self.0.set_sync_fails(true);
            self.0.sync_dir(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
            self.0.rename(from, to)
        }
        fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FsError> {
            self.0.hard_link(from, to)
        }
        fn remove(&self, path: &Path) -> Result<(), FsError> {
            self.0.remove(path)
        }
        fn list(&self, path: &Path) -> Result<Vec<Entry>, FsError> {
            self.0.list(path)
        }
        fn metadata(&self, path: &Path) -> Result<Metadata, FsError> {
            self.0.metadata(path)
        }
    }
    let fs: &dyn Fs = &SyncDirFails(memory_with_chain());
    let error = fs.publish(Path::new("/chain/1"), b"claim", 1).unwrap_err();
    assert_eq!(error.outcome, WriteOutcome::MayHaveHappened);
}

#[test]
fn a_link_is_removed_and_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let fs: &dyn Fs = &RealFs;
    let (kept, tree) = (directory.path().join("kept"), directory.path().join("tree"));
    fs.create_dir_all(&tree).unwrap();
    fs.create_dir_all(&kept).unwrap();
    fs.write_new(&kept.join("precious"), b"x").unwrap();
    std::os::unix::fs::symlink(&kept, tree.join("link")).unwrap();
    fs.remove_tree(&tree).unwrap();
    assert_eq!(names(fs, &kept), ["precious"]);
    assert!(fs.free_space(directory.path()).unwrap() > 0);
}
