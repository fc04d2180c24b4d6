//! Mistakes in how daemons are started, and clients without a cluster.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use super::golden::Mistakes;
use crate::fixture::{free_port, own_mounts};
use crate::process::program;

/// A listener, and its port.
fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn no_cluster_where_it_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut mistakes = Mistakes::in_directory(dir.path());
    let nobody = free_port();
    mistakes.mask(nobody, "PORT");
    let address = format!("127.0.0.1:{nobody}");
    let unknown = "no-such-host.invalid:6123";
    let id = "0".repeat(32);
    for (name, words) in [
        ("no-cluster-list", &["list", "-m", &address][..]),
        ("no-cluster-cancel", &["cancel", &id, "-m", &address]),
        ("no-cluster-unknown-host", &["list", "-m", unknown]),
    ] {
        let output = mistakes.millstream(name, words);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }

    let (web, port) = listener();
    mistakes.mask(port, "PORT");
    std::thread::spawn(move || {
        for conn in web.incoming() {
            let mut conn = conn.unwrap();
            let _ = conn.read(&mut [0; 256]);
            let _ = conn.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let address = format!("127.0.0.1:{port}");
    let output = mistakes.millstream("no-cluster-web-server", &["list", "-m", &address]);
    assert_eq!(output.status.code(), Some(2));

    let (_silent, port) = listener();
    mistakes.mask(port, "PORT");
    let address = format!("127.0.0.1:{port}");
    let output = mistakes.millstream("no-cluster-silence", &["list", "-m", &address]);
    assert_eq!(output.status.code(), Some(2));

    let port = format!("jobmanager.rpc.port={nobody}");
    let settings = [
        &port,
        "jobmanager.rpc.address=127.0.0.1",
        "taskmanager.registration.timeout=2s",
    ];
    let output = mistakes.daemon("taskmanager-without-jobmanager", "taskmanager", &settings);
    assert_eq!(output.status.code(), Some(1));
    mistakes.judge();
}

#[test]
fn mistakes_in_the_configuration_of_a_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(
        path.join("typo.yaml"),
        "rest.prot: 9001\nheartbeat.interval: 10\n",
    )
    .unwrap();
    std::fs::write(path.join("latin1.yaml"), b"rest.port: \xe9\n").unwrap();
    let mut mistakes = Mistakes::in_directory(path);
    for (name, daemon, words) in [
        (
            "config-file-missing",
            "jobmanager",
            &["--config", "nowhere.yaml"][..],
        ),
        (
            "config-file-not-utf8",
            "taskmanager",
            &["--config", "latin1.yaml"],
        ),
        (
            "config-mistakes-in-file",
            "jobmanager",
            &["--config", "typo.yaml"],
        ),
        ("config-flag-unknown", "jobmanager", &["--port", "1"]),
        (
            "config-listens-unprotected",
            "jobmanager",
            &["-D", "jobmanager.bind-host=0.0.0.0"],
        ),
        (
            "config-no-slots",
            "taskmanager",
            &["-D", "taskmanager.numberOfTaskSlots=0"],
        ),
        (
            "config-secret-written-out",
            "jobmanager",
            &["-D", "s3.secret-key=sesame"],
        ),
        (
            "config-twice",
            "jobmanager",
            &["-D", "rest.port=1", "-D", "rest.port=2"],
        ),
        (
            "config-scheme-unknown",
            "jobmanager",
            &["-D", "checkpointing.dir=hdfs://a/b"],
        ),
    ] {
        let output = mistakes.run(name, &[], daemon, words);
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
    mistakes.judge();
}

#[test]
fn mistakes_in_the_environment_of_a_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let mut mistakes = Mistakes::in_directory(dir.path());
    for (name, variable, value) in [
        ("config-variable-unknown", "MILLSTREAM_RESTPORT", "1"),
        (
            "config-fail-point-unknown",
            "MILLSTREAM_FAIL_POINTS",
            "uplaod:kill",
        ),
    ] {
        let mut command = Command::new(program("jobmanager"));
        command.env(variable, value);
        let output = mistakes.compare(
            name,
            &mut command,
            &format!("{variable}={value} jobmanager"),
            &[],
        );
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
    mistakes.judge();
}

#[test]
fn a_daemon_that_cannot_start_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("file"), "").unwrap();
    std::fs::create_dir(path.join("mount")).unwrap();
    let (_taken, port) = listener();
    let nobody = free_port();
    let mut mistakes = Mistakes::in_directory(path);
    mistakes.mask(port, "PORT");
    mistakes.mask(nobody, "PORT");
    let at = |key: &str| format!("{key}={port}");
    let dir_of = |name: &str| format!("checkpointing.dir={}", path.join(name).display());
    let secret = format!("s3.secret-key={{ file: {} }}", path.join("none").display());
    for (name, settings) in [
        ("port-taken-grpc", &[at("jobmanager.rpc.port")][..]),
        ("port-taken-rest", &[at("rest.port")]),
        (
            "address-of-another-machine",
            &[
                "jobmanager.bind-host=192.0.2.1".to_owned(),
                "security.transport=plaintext".to_owned(),
            ],
        ),
        ("storage-is-a-file", &[dir_of("file")]),
        ("storage-below-a-file", &[dir_of("file/checkpoints")]),
        (
            "storage-relative",
            &["checkpointing.dir=checkpoints".to_owned()],
        ),
        (
            "storage-secret-missing",
            &["s3.access-key=me".to_owned(), secret],
        ),
    ] {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let output = mistakes.daemon(name, "jobmanager", &settings);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    let checkpoints = dir_of("mount/checkpoints");
    for (name, options) in [
        ("storage-read-only", "ro"),
        ("storage-full", "size=4k,nr_inodes=3"),
    ] {
        let mount = path.join("mount");
        let fill = match name {
            "storage-full" => format!("touch {0}/a {0}/b {0}/c 2>/dev/null;", mount.display()),
            _ => String::new(),
        };
        let mount = format!(
            "mount -t tmpfs -o {options} tmpfs {} && {{ {fill} exec \"$0\" \"$@\"; }}",
            mount.display()
        );
        let launcher = [own_mounts(), &["sh", "-c", &mount]].concat();
        let output = mistakes.launched(name, &launcher, "jobmanager", &[&checkpoints]);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    mistakes.judge();
}
