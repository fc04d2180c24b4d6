//! S3 storage that cannot be used.

use super::golden::Mistakes;
use crate::fixture::free_port;
use crate::seaweed::Seaweed;

#[test]
fn a_bucket_that_is_not_there_a_key_that_is_wrong_and_a_server_that_is_away() {
    let server = Seaweed::start();
    let dir = tempfile::tempdir().unwrap();
    let mut mistakes = Mistakes::in_directory(dir.path());
    let nobody = format!("http://127.0.0.1:{}", free_port());
    mistakes.mask(server.endpoint(), "http://SERVER");
    mistakes.mask(&nobody, "http://NOBODY");
    let right = server.settings();
    let with = |key: &str, value: &str| -> Vec<String> {
        let others = right.iter().filter(|s| s.split('=').next() != Some(key));
        others.cloned().chain([format!("{key}={value}")]).collect()
    };
    for (name, settings) in [
        (
            "s3-bucket-missing",
            with("checkpointing.dir", "s3://nobodys-bucket/cluster"),
        ),
        ("s3-key-unknown", with("s3.access-key", "nobody")),
        ("s3-server-away", with("s3.endpoint", &nobody)),
    ] {
        for setting in &settings {
            if let Some(file) = setting.strip_prefix("s3.secret-key-file=") {
                mistakes.mask(file, "SECRET_FILE");
            }
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let output = mistakes.daemon(name, "jobmanager", &settings);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    mistakes.judge();
}
