//! An S3 server for one test: SeaweedFS, from the Python environment of the tests.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::send;

/// The bucket that is there.
pub const BUCKET: &str = "checkpoints";
/// The public half of the account.
pub const ACCESS_KEY: &str = "millstream-tests";
/// The secret half, by which leaks are found.
pub const SECRET_KEY: &str = "canary-5b1f0c77";

/// A program of the Python environment of the tests.
pub fn venv(program: &str) -> PathBuf {
    let home = std::env::var("HOME").unwrap();
    let path = Path::new(&home)
        .join(".cache/millstream/venv/bin")
        .join(program);
    assert!(
        path.exists(),
        "{} is missing: run deploy/setup.sh",
        path.display()
    );
    path
}

/// A server with one bucket, on the loopback interface.
pub struct Seaweed {
    dir: tempfile::TempDir,
    child: Child,
    s3: u16,
}

/// Ports that nobody listens on now, all different.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

impl Seaweed {
    /// Starts it and waits until it takes objects.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "s3.port",
            "s3.port.grpc",
            "master.port",
            "master.port.grpc",
            "volume.port",
            "volume.port.grpc",
            "filer.port",
            "filer.port.grpc",
        ];
        let ports: [u16; 8] = free_ports();
        let log = File::create(dir.path().join("weed.log")).unwrap();
        let mut command = Command::new(venv("weed"));
        command.arg("-logtostderr=true").arg("server");
        for (name, port) in names.iter().zip(ports) {
            command.arg(format!("-{name}={port}"));
        }
        for (name, value) in [
            ("dir", dir.path().display().to_string()),
            ("ip", "127.0.0.1".to_owned()),
            ("ip.bind", "127.0.0.1".to_owned()),
            ("s3", "true".to_owned()),
            // A bucket that is not there stays so.
            ("s3.autoCreateBucket", "false".to_owned()),
            ("s3.port.iceberg", "0".to_owned()),
            ("s3.port.lance", "0".to_owned()),
            (
                "s3.localSocket",
                dir.path().join("s3.sock").display().to_string(),
            ),
            (
                "filer.localSocket",
                dir.path().join("filer.sock").display().to_string(),
            ),
            ("master.telemetry", "false".to_owned()),
            ("master.volumeSizeLimitMB", "64".to_owned()),
            ("volume.max", "20".to_owned()),
        ] {
            command.arg(format!("-{name}={value}"));
        }
        command
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = command.spawn().unwrap();
        let (s3, master) = (ports[0], ports[2]);
        let mut server = Self { dir, child, s3 };
        // The master has assigned a place once it has one to assign.
        server.until(|| curl(&[&format!("http://127.0.0.1:{master}/dir/assign")]).contains("fid"));
        let account = format!("{ACCESS_KEY}:{SECRET_KEY}");
        let bucket = format!("{}/{BUCKET}", server.endpoint());
        let create = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &account];
        let answer = [
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            "PUT",
            &bucket,
        ];
        server.until(|| {
            ["200", "409"].contains(&curl(&[&create[..], &answer[..]].concat()).as_str())
        });
        server
    }

    fn until(&mut self, ready: impl Fn() -> bool) {
        let begun = Instant::now();
        while !ready() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < Duration::from_secs(60),
                "SeaweedFS is not ready ({ended:?}): {}",
                std::fs::read_to_string(self.dir.path().join("weed.log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.s3)
    }

    /// What a daemon is told to keep its checkpoints here.
    pub fn settings(&self) -> Vec<String> {
        let secret = self.dir.path().join("secret");
        std::fs::write(&secret, SECRET_KEY).unwrap();
        vec![
            format!("checkpointing.dir=s3://{BUCKET}/cluster"),
            format!("s3.endpoint={}", self.endpoint()),
            "s3.path.style.access=true".to_owned(),
            format!("s3.access-key={ACCESS_KEY}"),
            format!("s3.secret-key-file={}", secret.display()),
        ]
    }

    /// Stops it without ending it, as a machine that hangs: connections stay and nothing answers.
    pub fn pause(&self) {
        send("-STOP", self.child.id());
    }

    /// Lets it go on.
    pub fn resume(&self) {
        send("-CONT", self.child.id());
    }
}

fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    let output = command.args(["-s", "-m", "5"]).args(arguments).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

impl Drop for Seaweed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
