//! What daemons make of their settings: where each comes from, which are refused and how.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{finish, program, text};

const DAEMONS: [&str; 2] = ["jobmanager", "taskmanager"];

fn run(daemon: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program(daemon));
    command.args(arguments).envs(variables.iter().copied());
    finish(&mut command, Duration::from_secs(30))
}

fn file(dir: &Path, yaml: &str) -> String {
    let path = dir.join("millstream.yaml");
    std::fs::write(&path, yaml).unwrap();
    path.display().to_string()
}

#[test]
fn the_printed_configuration_shows_each_value_with_its_origin_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "rest.port: 9001\n\
                jobmanager.rpc.port: 7001\n\
                heartbeat.interval: 1s\n\
                s3.access-key: ali-baba\n";
    let config = file(dir.path(), yaml);
    let variables = [
        ("MILLSTREAM_REST_PORT", "9002"),
        ("MILLSTREAM_JOBMANAGER_RPC_PORT", "7002"),
        ("MILLSTREAM_S3_SECRET_KEY", "sesame-4711"),
    ];
    for daemon in DAEMONS {
        let arguments = [
            "--print-config",
            "--config",
            &config,
            "-D",
            "rest.port=9003",
        ];
        let output = run(daemon, &arguments, &variables);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        for line in [
            "rest.port: 9003  # flag".to_owned(),
            "jobmanager.rpc.port: 7002  # environment, MILLSTREAM_JOBMANAGER_RPC_PORT".to_owned(),
            format!("heartbeat.interval: 1s  # {config}:3"),
            "heartbeat.timeout: 10s  # default".to_owned(),
        ] {
            assert!(
                printed.lines().any(|l| l == line),
                "{line} is missing in:\n{printed}"
            );
        }
        let secret = printed
            .lines()
            .find(|line| line.starts_with("s3.secret-key: "));
        let secret = secret.unwrap_or_else(|| panic!("{printed}"));
        assert!(secret.contains("MILLSTREAM_S3_SECRET_KEY"), "{secret}");
        assert!(!printed.contains("sesame-4711"), "{printed}");
        // What is printed is a configuration again.
        let again = file(dir.path(), &printed);
        let output = run(
            daemon,
            &["--print-config", "--config", &again],
            &variables[2..],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("rest.port: 9003  # "));
        file(dir.path(), yaml);
    }
}

// Proves F3 for daemons; HND-078.
#[test]
fn a_wrong_key_is_refused_with_its_place_and_the_key_that_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let config = file(dir.path(), "rest.port: 9001\nheartbeat.intervall: 1s\n");
    for daemon in DAEMONS {
        let cases = [
            run(daemon, &["--config", &config], &[]),
            run(daemon, &["-D", "heartbeat.intervall=1s"], &[]),
            run(daemon, &[], &[("MILLSTREAM_HEARTBEAT_INTERVALL", "1s")]),
        ];
        let expected = [
            (
                format!("{config}:2: unknown key heartbeat.intervall"),
                "heartbeat.interval?",
            ),
            (
                "flag: unknown key heartbeat.intervall".to_owned(),
                "heartbeat.interval?",
            ),
            (
                "unknown environment variable MILLSTREAM_HEARTBEAT_INTERVALL".to_owned(),
                "MILLSTREAM_HEARTBEAT_INTERVAL?",
            ),
        ];
        for (output, (what, meant)) in cases.iter().zip(&expected) {
            assert_eq!(output.status.code(), Some(2));
            let stderr = text(&output.stderr);
            assert!(stderr.contains(what.as_str()), "{stderr}");
            assert!(
                stderr.contains(&format!("did you mean {meant}")),
                "{stderr}"
            );
        }
    }
}

// HND-077: a duration that is none is refused with key and value, whichever way it comes.
#[test]
fn a_duration_without_sense_is_refused_with_key_and_value() {
    for value in ["10", "-5 s", "10 parsecs", "99999999999 d", "1.5 s"] {
        let setting = format!("heartbeat.timeout={value}");
        let output = run("taskmanager", &["-D", &setting], &[]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{value}: {}",
            text(&output.stderr)
        );
        let stderr = text(&output.stderr);
        let said = value.trim_end_matches(" d");
        assert!(
            stderr.contains("heartbeat.timeout") && stderr.contains(said),
            "{stderr}"
        );
    }
    let printed = run(
        "taskmanager",
        &["--print-config", "-D", "heartbeat.timeout=10 minutes"],
        &[],
    );
    assert!(text(&printed.stdout).contains("heartbeat.timeout: 10m  # flag"));
}

#[test]
fn a_secret_that_is_written_out_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let config = file(
        dir.path(),
        "s3.access-key: ali-baba\ns3.secret-key: sesame-4711\n",
    );
    for daemon in DAEMONS {
        for arguments in [
            ["--config", config.as_str()],
            ["-D", "s3.secret-key=sesame-4711"],
        ] {
            let output = run(daemon, &arguments, &[]);
            assert_eq!(output.status.code(), Some(2));
            let stderr = text(&output.stderr);
            assert!(stderr.contains("s3.secret-key"), "{stderr}");
            assert!(!stderr.contains("sesame-4711"), "{stderr}");
        }
    }
}

#[test]
fn listening_beyond_this_machine_takes_a_word_about_protection() {
    let cases = [
        ("jobmanager", "jobmanager.bind-host"),
        ("jobmanager", "rest.bind-host"),
        ("taskmanager", "taskmanager.bind-host"),
    ];
    for (daemon, key) in cases {
        for host in ["0.0.0.0", "::"] {
            let setting = format!("{key}={host}");
            let refused = run(daemon, &["-D", &setting], &[]);
            assert_eq!(refused.status.code(), Some(2), "{setting}");
            let stderr = text(&refused.stderr);
            assert!(stderr.contains(key), "{stderr}");
            assert!(stderr.contains("security.transport: plaintext"), "{stderr}");
            let plaintext = "security.transport=plaintext";
            let arguments = ["--print-config", "-D", &setting, "-D", plaintext];
            let accepted = run(daemon, &arguments, &[]);
            assert!(accepted.status.success(), "{}", text(&accepted.stderr));
        }
    }
}
