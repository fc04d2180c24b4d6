use std::time::Duration;

use millstream_env::fs::MemoryFs;
use millstream_env::{Clock, EnvParts};
use millstream_types::{Epoch, ObjectName, SubtaskId, VertexId, WallTime};
use object_store::ObjectStoreExt;

use super::*;
use crate::names::{self, Nonce};
use crate::store::Store;
use crate::testing::{JOB, POLICY};

struct Machine {
    env: Env,
    fs: MemoryFs,
}

fn machine() -> Machine {
    let test = Env::for_test(1);
    let env = Env::from_parts(EnvParts {
        clock: Clock::simulated(WallTime(0)),
        rng: test.env.rng().clone(),
        net: test.env.net().clone(),
        fs: test.env.fs().clone(),
        spawner: test.env.spawner().clone(),
        exit: test.env.exit().clone(),
    });
    Machine { env, fs: test.fs }
}

impl Machine {
    fn directory(&self) -> DurableDirectory {
        DurableDirectory::new("/data/ckpt".into(), &self.env)
    }

    fn store(&self) -> Store {
        Store::new(
            Arc::new(self.directory()),
            "/data/ckpt",
            Path::default(),
            &self.env,
            POLICY,
        )
    }

    /// Every file, temporary ones too.
    fn files(&self) -> Vec<String> {
        let fs: Arc<dyn Fs> = Arc::new(self.fs.clone());
        let (mut pending, mut files) = (vec![PathBuf::from("/data/ckpt")], Vec::new());
        while let Some(dir) = pending.pop() {
            for entry in fs.list(&dir).unwrap_or_default() {
                let path = dir.join(entry.name);
                match entry.kind {
                    FileKind::Directory => pending.push(path),
                    _ => files.push(path.display().to_string()),
                }
            }
        }
        files
    }
}

fn name(number: u64) -> ObjectName {
    names::chain(number)
}

// What object_store's own local store answers was tried too: create-only works there as well, but
// it syncs nothing, and an update by version is refused.
#[tokio::test]
async fn creates_only() {
    let directory = machine().directory();
    let at = Path::from("a/b");
    let put = |mode: PutMode| {
        let (directory, at) = (directory.clone(), at.clone());
        async move {
            directory
                .put_opts(&at, PutPayload::from_static(b"1"), mode.into())
                .await
        }
    };
    put(PutMode::Create).await.unwrap();
    assert!(matches!(
        put(PutMode::Create).await,
        Err(Error::AlreadyExists { .. })
    ));
    assert!(matches!(
        put(PutMode::Overwrite).await,
        Err(Error::NotImplemented { .. })
    ));
    let version = object_store::UpdateVersion {
        e_tag: None,
        version: None,
    };
    assert!(matches!(
        put(PutMode::Update(version)).await,
        Err(Error::NotImplemented { .. })
    ));
}

#[tokio::test]
async fn the_library_s_own_stores_create_only_once_and_the_local_one_refuses_updates() {
    let dir = tempfile::tempdir().unwrap();
    let local = object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let memory = object_store::memory::InMemory::new();
    let stores: [&dyn ObjectStore; 2] = [&local, &memory];
    for store in stores {
        let put = |at| store.put_opts(at, PutPayload::from_static(b"1"), PutMode::Create.into());
        let at = Path::from("a");
        put(&at).await.unwrap();
        assert!(
            matches!(put(&at).await, Err(Error::AlreadyExists { .. })),
            "{store}"
        );
    }
    let update = PutMode::Update(object_store::UpdateVersion {
        e_tag: None,
        version: None,
    });
    let refused = local
        .put_opts(&Path::from("a"), PutPayload::new(), update.into())
        .await;
    assert!(matches!(refused, Err(Error::NotImplemented { .. })));
}

// DESIGN 7: chain entries are durable before anything is announced.
#[tokio::test]
async fn what_was_confirmed_survives_a_power_cut() {
    let machine = machine();
    let store = machine.store().job(JOB);
    store.create(&name(1), "first".into()).await.unwrap();
    let mut upload = store.upload(&name(2));
    upload.write(vec![7; 4_500].into()).await.unwrap();
    upload.finish().await.unwrap();
    machine.fs.crash();
    let store = machine.store().job(JOB);
    assert_eq!(store.get(&name(1), 100).await.unwrap().as_ref(), b"first");
    assert_eq!(store.head(&name(2)).await.unwrap(), Some(4_500));
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_and_says_that_nothing_was_written() {
    let machine = machine();
    machine.fs.set_capacity(Some(10));
    let store = machine.store();
    let error = store
        .create_once(&name(1), vec![0; 100].into())
        .await
        .unwrap_err();
    assert_eq!(
        error.outcome(),
        millstream_types::WriteOutcome::DidNotHappen,
        "{error}"
    );
    assert_eq!(machine.files(), Vec::<String>::new());
}

// A daemon that ends does not try again, and no throttling is to blame.
#[tokio::test]
async fn a_full_disk_at_the_start_has_a_remedy_that_fits() {
    let machine = machine();
    machine.fs.set_capacity(Some(10));
    let error = crate::probe::conditional_create(&machine.store())
        .await
        .unwrap_err();
    let remedy = error.remedy();
    assert!(remedy.contains("has room"), "{remedy}");
    assert!(!remedy.contains("by itself"), "{remedy}");
}

#[tokio::test]
async fn of_two_creators_one_wins() {
    let machine = machine();
    let (one, other) = (machine.store(), machine.store());
    let name = name(1);
    let race = (
        one.create(&name, "one".into()),
        other.create(&name, "other".into()),
    );
    let (one, other) = futures::join!(race.0, race.1);
    assert!(one.is_ok() ^ other.is_ok(), "{one:?} {other:?}");
}

#[tokio::test]
async fn an_upload_given_up_leaves_no_file() {
    let machine = machine();
    let store = machine.store();
    let mut upload = store.upload(&name(1));
    upload.write(vec![7; 4_500].into()).await.unwrap();
    assert_eq!(machine.files().len(), 1);
    drop(upload);
    let gone = machine.env.clock().timeout(Duration::from_secs(1), async {
        while !machine.files().is_empty() {
            machine.env.clock().sleep(Duration::from_millis(1)).await;
        }
    });
    gone.await.expect("removed within a second");
}

// A process that is killed removes nothing.
#[tokio::test]
async fn what_a_crash_left_of_an_upload_is_swept_with_its_epoch() {
    let machine = machine();
    let store = machine.store();
    let subtask = SubtaskId::new(VertexId(1), 0);
    let left_by = async |epoch: u64| {
        let mut upload = store.upload(&names::shared(Epoch(epoch), subtask, Nonce(epoch)));
        upload.write(vec![7; 4_500].into()).await.unwrap();
        std::mem::forget(upload);
    };
    left_by(1).await;
    left_by(2).await;
    let (none, in_use) = (BTreeSet::new(), BTreeSet::new());
    let swept = crate::gc::sweep(&store, Epoch(2), &none, Some(&in_use)).await;
    assert_eq!(swept.unwrap(), 1);
    let [left] = &machine.files()[..] else {
        panic!("{:?}", machine.files())
    };
    assert!(left.contains("/.2-v1.0-"), "{left}");
}

// HND-070: nothing remains of a directory whose last object was deleted.
#[tokio::test]
async fn directories_that_become_empty_are_removed_and_made_again() {
    let machine = machine();
    let store = machine.store();
    let fs: &dyn Fs = &machine.fs;
    for number in [1, 2] {
        store.create(&name(number), "x".into()).await.unwrap();
    }
    store.delete(&[name(1)]).await.unwrap();
    assert!(fs.exists(FsPath::new("/data/ckpt/chain")).unwrap());
    store.delete(&[name(2)]).await.unwrap();
    assert!(!fs.exists(FsPath::new("/data/ckpt/chain")).unwrap());
    assert!(fs.exists(FsPath::new("/data/ckpt")).unwrap());
    store.create(&name(3), "x".into()).await.unwrap();
    machine.fs.crash();
    assert_eq!(machine.store().head(&name(3)).await.unwrap(), Some(1));
}

#[tokio::test]
async fn parts_of_an_object_can_be_read_and_missing_ones_are_missing() {
    let machine = machine();
    let store = machine.store();
    store.create(&name(1), "0123456789".into()).await.unwrap();
    assert_eq!(
        store.get_range(&name(1), 3..6).await.unwrap().as_ref(),
        b"345"
    );
    assert_eq!(store.head(&name(2)).await.unwrap(), None);
    let missing = store.get(&name(2), 10).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "/data/ckpt/chain/00000000000000000002 does not exist"
    );
}

#[tokio::test]
async fn objects_are_listed_in_order_and_temporary_files_too_but_no_links() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::real("test");
    let directory = DurableDirectory::new(dir.path().join("root"), &env);
    for name in ["b/2", "a", "b/10", "c/d/e"] {
        let create = PutMode::Create.into();
        directory
            .put_opts(&Path::from(name), PutPayload::new(), create)
            .await
            .unwrap();
    }
    for hidden in [".DS_Store", "b/.2.0123456789abcdef.tmp"] {
        std::fs::write(dir.path().join("root").join(hidden), "").unwrap();
    }
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("root/link")).unwrap();
    let listed = |prefix: Option<&'static str>| {
        let prefix = prefix.map(Path::from);
        let all = directory.list(prefix.as_ref());
        async move {
            let all: Vec<ObjectMeta> = all.try_collect().await.unwrap();
            all.into_iter()
                .map(|meta| meta.location.to_string())
                .collect::<Vec<_>>()
        }
    };
    let unfinished = "b/.2.0123456789abcdef.tmp";
    assert_eq!(
        listed(None).await,
        ["a", unfinished, "b/10", "b/2", "c/d/e"]
    );
    assert_eq!(listed(Some("b")).await, [unfinished, "b/10", "b/2"]);
    assert_eq!(listed(Some("missing")).await, Vec::<String>::new());
    let top = directory.list_with_delimiter(None).await.unwrap();
    assert_eq!(top.common_prefixes, [Path::from("b"), Path::from("c")]);
    assert_eq!(top.objects.len(), 1);
    assert!(matches!(
        directory.get(&Path::from("link")).await,
        Err(Error::NotFound { .. })
    ));
}
