//! Mistakes that a cluster tells its users.

use super::files::job;
use super::golden::Mistakes;
use crate::fixture::Cluster;

/// Jobs that a cluster with one slot does not run, by the names of their files.
fn write_jobs(cluster: &Cluster) {
    let dir = cluster.dir();
    let steps = "  - sink: { uid: out, connector: print }";
    job(dir, "sound.yaml", "sound", "sound");
    job(dir, "other.yaml", "rows: 10", "rows: 11");
    job(dir, "wide.yaml", "parallelism: 1", "parallelism: 4");
    let file = "  - sink: { uid: out, connector: file, path: /tmp/nothing, format: csv }";
    job(dir, "invisible.yaml", steps, file);
    let inject = format!("  - inject: {{ uid: broken, fail: {{ at: 5 }} }}\n{steps}");
    job(dir, "broken.yaml", steps, &inject);
    let generator = "connector: generator, rows: 10, columns: { n: { sequence: {} } }";
    let missing = format!(
        "connector: file, path: {}/numbers.csv, format: csv, columns: {{ n: BIGINT }}",
        dir.display()
    );
    job(dir, "no-input.yaml", generator, &missing);
    let no_uid =
        format!("  - key-by: [n]\n  - aggregate: {{ select: {{ c: \"count(*)\" }} }}\n{steps}");
    job(dir, "no-uid.yaml", steps, &no_uid);
}

#[test]
fn mistakes_that_a_cluster_tells() {
    let cluster = Cluster::start_with(1, 1, &["slot.request.timeout=2s"]);
    write_jobs(&cluster);
    let mut mistakes = Mistakes::in_directory(cluster.dir());
    let at = cluster.jobmanager();
    let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
    mistakes.mask(port(&at), "PORT");
    mistakes.mask(&at, "CLUSTER");
    let id = "0".repeat(32);
    for (name, words, code) in [
        ("cluster-unknown-job-status", &["status", &id][..], 1),
        ("cluster-unknown-job-cancel", &["cancel", &id], 1),
        (
            "cluster-file-sink-without-checkpoints",
            &["run", "invisible.yaml"],
            1,
        ),
        ("cluster-fault-injection", &["run", "broken.yaml"], 1),
        (
            "cluster-uids-missing",
            &["run", "no-uid.yaml", "-D", "pipeline.require-uids=true"],
            1,
        ),
        (
            "cluster-client-id-malformed",
            &["run", "sound.yaml", "--client-id", "two words"],
            1,
        ),
        ("cluster-input-missing", &["run", "no-input.yaml"], 3),
        ("cluster-no-slots", &["run", "wide.yaml"], 3),
    ] {
        let words = [words, &["-m", &at]].concat();
        let output = mistakes.millstream(name, &words);
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
    let client = ["--client-id", "mine", "-m", &at];
    let first = cluster.cli(&[
        "run",
        &cluster.dir().join("sound.yaml").to_string_lossy(),
        "--client-id",
        "mine",
    ]);
    assert!(first.status.success());
    let words = [&["run", "other.yaml"][..], &client].concat();
    let output = mistakes.millstream("cluster-client-id-taken", &words);
    assert_eq!(output.status.code(), Some(1));

    let rest = cluster.rest_address();
    mistakes.mask(&rest, "REST_SERVER");
    let output = mistakes.millstream("cluster-rest-port-for-grpc", &["list", "-m", &rest]);
    assert_eq!(output.status.code(), Some(2));

    let checkpoints = format!(
        "checkpointing.dir={}",
        cluster.dir().join("checkpoints").display()
    );
    let grpc = format!("jobmanager.rpc.port={}", port(&at));
    let output = mistakes.daemon(
        "cluster-second-jobmanager",
        "jobmanager",
        &[&grpc, &checkpoints],
    );
    assert_eq!(output.status.code(), Some(1));
    let settings = ["high-availability.cluster-id=other", &checkpoints];
    let output = mistakes.daemon("cluster-of-another-name", "jobmanager", &settings);
    assert_eq!(output.status.code(), Some(1));
    mistakes.judge();
}
