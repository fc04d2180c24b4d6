//! A root directory for containers that looks like the image, made of this machine's own files.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::process::{program, root};

/// The programs that an image has in `/usr/local/bin`.
const PROGRAMS: [&str; 3] = ["jobmanager", "taskmanager", "millstream"];

/// What all containers are made from.
pub struct Image {
    pub dir: PathBuf,
    /// `source:target:ro`, below the root.
    pub mounts: Vec<String>,
    pub uid: u32,
    pub workdir: String,
}

impl Image {
    /// User and working directory are the Dockerfile's; system files and programs are borrowed.
    pub fn make(dir: PathBuf) -> Self {
        let dockerfile = std::fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
        let last = |word: &str| {
            let mut lines = dockerfile.lines().rev();
            let found = lines.find_map(|line| line.strip_prefix(word)).unwrap();
            found.trim().to_owned()
        };
        let (uid, gid): (u32, u32) = {
            let user = last("USER ");
            let (uid, gid) = user.split_once(':').unwrap();
            (uid.parse().unwrap(), gid.parse().unwrap())
        };
        let mut image = Self {
            dir,
            mounts: Vec::new(),
            uid,
            workdir: last("WORKDIR "),
        };
        assert!(uid > 0 && uid == gid, "the image has a user of its own");
        image.system();
        image.etc();
        image.own();
        image
    }

    fn directory(&self, path: &str) -> PathBuf {
        let path = self.dir.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.dir.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn mount(&mut self, source: &Path, target: &str) {
        self.mounts
            .push(format!("{}:{target}:ro", source.display()));
    }

    /// This machine's programs and libraries.
    fn system(&mut self) {
        for path in ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64"] {
            if Path::new(path).is_dir() {
                self.directory(path);
                self.mount(Path::new(path), path);
            }
        }
        for path in ["/bin", "/sbin", "/lib", "/lib64"] {
            let (source, target) = (Path::new(path), self.dir.join(&path[1..]));
            match std::fs::read_link(source) {
                Ok(to) => symlink(to, target).unwrap(),
                Err(_) if source.is_dir() => {
                    self.directory(path);
                    self.mount(source, path);
                }
                Err(_) => {}
            }
        }
        for path in ["/proc", "/sys", "/dev", "/tmp", "/data"] {
            self.directory(path);
        }
    }

    fn etc(&self) {
        let uid = self.uid;
        let user = format!("millstream:x:{uid}:{uid}::/nonexistent:/usr/sbin/nologin\n");
        self.file("/etc/passwd", &format!("root:x:0:0::/root:/bin/sh\n{user}"));
        self.file("/etc/group", &format!("root:x:0:\nmillstream:x:{uid}:\n"));
        self.file("/etc/nsswitch.conf", "hosts: files dns\n");
        // A container's own is mounted here.
        self.file("/etc/hosts", "");
        if let Ok(cache) = std::fs::read("/etc/ld.so.cache") {
            std::fs::write(self.dir.join("etc/ld.so.cache"), cache).unwrap();
        }
    }

    /// What the Dockerfile puts where.
    fn own(&mut self) {
        for name in PROGRAMS {
            self.program(&program(name));
        }
        for name in ["jobmanager", "taskmanager"] {
            let text = std::fs::read_to_string(root().join(format!("config/{name}.yaml"))).unwrap();
            self.file(&format!("/etc/millstream/{name}.yaml"), &text);
        }
        let docs = self.directory("/usr/share/millstream/docs");
        copy(&root().join("docs"), &docs);
        for path in ["/var/lib/millstream", "/var/cache/millstream"] {
            self.give(&self.directory(path));
        }
    }

    /// Puts a program of this machine into the path.
    pub fn program(&mut self, source: &Path) {
        let name = source.file_name().unwrap().to_string_lossy();
        let target = format!("/usr/local/bin/{name}");
        self.file(&target, "");
        self.mount(source, &target);
    }

    /// Makes a directory the image's user's alone, as the Dockerfile does with its volumes.
    pub fn give(&self, path: &Path) {
        chown(path, Some(self.uid), Some(self.uid)).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// Copies the documents; examples write below the volume that all taskmanagers share.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&source, &target);
        } else {
            let text = std::fs::read_to_string(&source).unwrap();
            let text = text.replace("/tmp/millstream", "/var/lib/millstream");
            std::fs::write(target, text).unwrap();
        }
    }
}
