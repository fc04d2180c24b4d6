//! From texts to the effective table: names, refusals, precedence, printing.

use crate::*;

fn layer(text: &str) -> Layer {
    Layer::file("conf.yaml", text).unwrap_or_else(|errors| panic!("{}", errors.report()))
}

fn report(text: &str) -> String {
    Layer::file("conf.yaml", text).expect_err(text).report()
}

fn job_layer(text: &str) -> Result<Layer, ConfigErrors> {
    let tree = yaml::parse(text).expect("yaml");
    Layer::job(
        "job.yaml",
        tree.as_mapping().expect("mapping"),
        &["name", "pipeline"],
    )
}

fn variables(pairs: &[(&str, &str)]) -> Result<Layer, ConfigErrors> {
    Layer::environment(
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        &[],
    )
}

/// `value  # origin` of one key.
fn shown(table: &Resolved, key: &str) -> String {
    let row = table.row(key).expect("built key");
    let value = row
        .value
        .as_ref()
        .map_or_else(|| "unset".to_owned(), ToString::to_string);
    format!("{value} # {}", row.origin)
}

fn warnings(table: &Resolved) -> Vec<String> {
    table.warnings().iter().map(ToString::to_string).collect()
}

// Proves F1.
#[test]
fn an_interval_without_unit_is_refused_with_both_readings() {
    assert_eq!(
        report("checkpointing:\n  interval: 300000\n"),
        "conf.yaml:2: checkpointing.interval has no unit: \
         write 300000s (= 3d 11h 20m) or 300000ms (= 5m) (write the unit that is meant)"
    );
}

// F2, as far as the table goes.
#[test]
fn an_interval_of_a_job_is_shown_with_its_origin() {
    let job = job_layer("checkpointing: {interval: 5m}\n").expect("job");
    let table = Resolved::for_job(&Resolved::new([]), [job]);
    assert_eq!(
        shown(&table, "checkpointing.interval"),
        "5m # job, job.yaml:1"
    );
    let row = table.row("checkpointing.interval").expect("row");
    assert_eq!(row.origin.word(), "job");
    assert_eq!(
        row.value,
        Some(Value::Duration(std::time::Duration::from_millis(300_000)))
    );
}

// Proves F3, HND-078.
#[test]
fn an_unknown_key_is_refused_with_a_suggestion_and_its_line() {
    assert_eq!(
        report("# comment\nexecution.checkpointing.timout: 1m\n"),
        "conf.yaml:2: unknown key execution.checkpointing.timout \
         (did you mean execution.checkpointing.timeout?)"
    );
    assert_eq!(
        report("chekpoint.interval: 5s\n"),
        "conf.yaml:1: unknown key chekpoint.interval (did you mean checkpointing.interval?)"
    );
}

// Proves F4.
#[test]
fn old_names_are_accepted_with_one_warning_each() {
    let table = Resolved::new([layer(
        "state.backend.incremental: false\nrestart-strategy: none\nstate.backend: rocksdb\n",
    )]);
    assert_eq!(
        warnings(&table),
        [
            "conf.yaml:1: state.backend.incremental is an old name, write checkpointing.incremental",
            "conf.yaml:2: restart-strategy is an old name, write restart-strategy.type",
            "conf.yaml:3: state.backend is an old name, write state.backend.type",
        ]
    );
    assert_eq!(
        shown(&table, "checkpointing.incremental"),
        "false # conf.yaml:1"
    );
    assert_eq!(shown(&table, "restart-strategy.type"), "none # conf.yaml:2");
    let long = Resolved::new([layer("execution.checkpointing.interval: 5s\n")]);
    assert_eq!(warnings(&long), [""; 0]);
}

// Proves F6: nothing unaligned is built, so it is refused in every mode.
#[test]
fn unaligned_checkpoints_are_refused_also_with_at_least_once() {
    for mode in ["AT_LEAST_ONCE", "exactly-once"] {
        let text = format!("checkpointing: {{mode: {mode}, unaligned.enabled: true}}\n");
        let message = report(&text);
        assert!(
            message.contains("checkpointing.unaligned.enabled is true"),
            "{message}"
        );
        assert!(message.contains("known, not built yet"), "{message}");
    }
}

// Proves A1-1: the eight settings of the report, by Flink's names.
#[test]
fn the_settings_of_the_incident_are_accepted_by_their_names() {
    let job = job_layer(
        "execution.checkpointing:\n  interval: 300000 ms\n  mode: EXACTLY_ONCE\n  \
         min-pause: 500 ms\n  timeout: 60000 ms\n  max-concurrent-checkpoints: 1\n  \
         tolerable-failed-checkpoints: 5\n  \
         externalized-checkpoint-retention: RETAIN_ON_CANCELLATION\n\
         restart-strategy.type: failurerate\n\
         restart-strategy.failure-rate.max-failures-per-interval: 3\n\
         restart-strategy.failure-rate.failure-rate-interval: 5 min\n\
         restart-strategy.failure-rate.delay: 10 s\n",
    )
    .expect("job");
    let table = Resolved::for_job(&Resolved::new([]), [job]);
    assert_eq!(
        shown(&table, "checkpointing.interval"),
        "5m # job, job.yaml:2"
    );
    assert_eq!(
        shown(&table, "checkpointing.externalized-checkpoint-retention"),
        "retain-on-cancellation # job, job.yaml:8"
    );
    let mut adjusted = Vec::new();
    let config = JobConfig::new(&table, &mut adjusted).expect("good");
    assert_eq!(config.checkpoints.tolerable_failures, 5);
    assert_eq!(
        config.checkpoints.retention,
        Retention::RetainOnCancellation
    );
    assert!(matches!(config.restart, RestartPolicy::FailureRate(_)));
    assert!(adjusted.is_empty() && table.warnings().is_empty());
}

// Proves HND-078.
#[test]
fn one_key_twice_is_refused_with_both_places_in_any_spelling() {
    for text in [
        "checkpointing.interval: 5s\nexecution.checkpointing.interval: 5s\n",
        "state.backend: rocksdb\nstate.backend.type: rocksdb\n",
        "checkpointing.interval: 5s\ncheckpointing: {interval: 5s}\n",
        "checkpointing.interval: 5s\ncheckpointing.interval: 5s\n",
    ] {
        let message = report(text);
        assert!(message.contains("is given twice"), "{message}");
        assert!(
            (message.contains("conf.yaml:1") && message.contains("conf.yaml:2"))
                || (message.contains("line 1") && message.contains("line 2")),
            "{message}"
        );
    }
}

// Proves HND-077: refused with key and value, never replaced by a default.
#[test]
fn a_bad_duration_is_refused_from_every_source() {
    for value in ["10 parsecs", "-5 s", "1.5 s", "99999999999 d"] {
        let from_file = report(&format!("heartbeat.timeout: {value}\n"));
        let from_flag = Layer::flags(
            [format!("heartbeat.timeout={value}").as_str()],
            Target::Daemon,
        )
        .expect_err(value)
        .report();
        let from_variable = variables(&[("MILLSTREAM_HEARTBEAT_TIMEOUT", value)])
            .expect_err(value)
            .report();
        for message in [from_file, from_flag, from_variable] {
            assert!(message.to_lowercase().contains("heartbeat"), "{message}");
            assert!(message.contains(value), "{message}");
        }
    }
    for empty in [
        "heartbeat.timeout:\n",
        "heartbeat.timeout: ''\n",
        "heartbeat.timeout: ~\n",
    ] {
        assert!(report(empty).contains("heartbeat.timeout has no value"));
    }
}

// Proves HND-078.
#[test]
fn a_word_for_a_text_key_stays_that_word() {
    for word in ["no", "08", "1.10", "db@1#2"] {
        let table = Resolved::new([layer(&format!("taskmanager.resource-id: {word}\n"))]);
        let row = table.row("taskmanager.resource-id").expect("row");
        assert_eq!(row.value, Some(Value::Text(word.to_owned())));
    }
}

#[test]
fn known_keys_without_effect_so_far_are_refused_as_such() {
    let message = report("high-availability.type: kubernetes\n");
    assert!(
        message.contains("known, not built yet: several jobmanagers"),
        "{message}"
    );
    let message = report("taskmanager.network.memory.buffers-per-channel: 2\n");
    assert!(
        message.contains("taskmanager.network.memory.window"),
        "{message}"
    );
    let message = report("checkpointing.checkpoints-after-tasks-finish: false\n");
    assert!(
        message.contains("is false, which is known, not built yet"),
        "{message}"
    );
    let table = Resolved::new([layer(
        "pipeline.object-reuse: true\nstate.backend.async: true\n",
    )]);
    assert_eq!(warnings(&table).len(), 2);
    assert!(warnings(&table)[0].starts_with("conf.yaml:1: pipeline.object-reuse has no effect"));
}

#[test]
fn all_faults_are_listed_up_to_a_limit() {
    let errors = Layer::file("c", "a: 1\nrest.port: 99999\nlog.format: xml\n").expect_err("three");
    assert_eq!(errors.faults().len(), 3);
    let many: String = (0..5_000).map(|n| format!("unknown-{n}: 1\n")).collect();
    let errors = Layer::file("c", &many).expect_err("many");
    assert_eq!(errors.faults().len(), ConfigErrors::LIMIT);
}

#[test]
fn a_flag_wins_over_the_environment_which_wins_over_the_file() {
    let file = "rest.port: 1\nheartbeat.timeout: 20s\nlog.level: debug\n";
    let environment = variables(&[
        ("MILLSTREAM_REST_PORT", "2"),
        ("MILLSTREAM_HEARTBEAT_TIMEOUT", "30 s"),
        ("PATH", "/bin"),
        ("MILLSTREAM_LOG", "trace"),
    ])
    .expect("environment");
    let flags = Layer::flags(["rest.port=3"], Target::Daemon).expect("flags");
    let table = Resolved::new([layer(file), environment, flags]);
    assert_eq!(shown(&table, "rest.port"), "3 # flag");
    assert_eq!(
        shown(&table, "heartbeat.timeout"),
        "30s # environment, MILLSTREAM_HEARTBEAT_TIMEOUT"
    );
    assert_eq!(shown(&table, "log.level"), "debug # conf.yaml:3");
    assert_eq!(shown(&table, "heartbeat.interval"), "2s # default");
}

#[test]
fn an_unknown_variable_of_ours_is_refused_with_a_suggestion() {
    let report = variables(&[("MILLSTREAM_HEARTBEAT_TIMEOT", "1s")])
        .expect_err("typo")
        .report();
    assert_eq!(
        report,
        "unknown environment variable MILLSTREAM_HEARTBEAT_TIMEOT \
         (did you mean MILLSTREAM_HEARTBEAT_TIMEOUT?)"
    );
    let own = [("MILLSTREAM_HOST_FD".to_owned(), "3".to_owned())];
    assert!(Layer::environment(own.clone(), &[]).is_err());
    assert!(Layer::environment(own, &["MILLSTREAM_HOST_FD"]).is_ok());
}

#[test]
fn malformed_flags_and_flags_of_daemons_for_a_job_are_refused() {
    let report = Layer::flags(["rest.port", "=1"], Target::Daemon)
        .expect_err("no =")
        .report();
    assert_eq!(report.lines().count(), 2);
    let report = Layer::flags(["rest.port=1"], Target::Job)
        .expect_err("daemon key")
        .report();
    assert!(
        report.contains("rest.port is a key of the daemons, not of a job"),
        "{report}"
    );
    let report = job_layer("rest.port: 1\n")
        .expect_err("daemon key")
        .report();
    assert!(
        report.starts_with("job, job.yaml:1: rest.port is a key of the daemons"),
        "{report}"
    );
}

#[test]
fn a_job_sees_the_clusters_settings_below_its_own_and_carries_only_its_own() {
    let cluster = Resolved::new([layer(
        "rest.port: 9000\nstate.backend.type: rocksdb\ncheckpointing.interval: 1m\n\
         checkpointing.dir: /chk\n",
    )]);
    let job = job_layer("checkpointing: {interval: 5s}\nparallelism: 2\n").expect("job");
    let flags = Layer::flags(["state.backend=hashmap"], Target::Job).expect("flags");
    let table = Resolved::for_job(&cluster, [job, flags]);
    assert_eq!(
        shown(&table, "checkpointing.interval"),
        "5s # job, job.yaml:1"
    );
    assert_eq!(shown(&table, "checkpointing.dir"), "/chk # cluster");
    assert_eq!(shown(&table, "state.backend.type"), "hashmap # flag");
    assert_eq!(shown(&table, "rest.port"), "8081 # default");
    let given = table.given_for_job();
    assert_eq!(
        given,
        [
            ("checkpointing.interval", "5s".to_owned(), "job"),
            ("parallelism.default", "2".to_owned(), "job"),
            ("state.backend.type", "hashmap".to_owned(), "flag"),
        ]
    );
    let stored = Layer::stored(given.iter().map(|(k, v, o)| (*k, v.as_str(), *o))).expect("stored");
    let again = Resolved::for_job(&cluster, [stored]);
    assert_eq!(again.given_for_job(), given);
}

#[test]
fn the_job_files_own_keys_are_no_settings_but_known_to_suggestions() {
    let job = job_layer(
        "name: x\npipeline.max-parallelism: 8\npipeline:\n- source: {uid: a}\nrest: {}\n",
    );
    let table = Resolved::for_job(&Resolved::new([]), [job.expect("job")]);
    assert_eq!(
        shown(&table, "pipeline.max-parallelism"),
        "8 # job, job.yaml:2"
    );
    let report = job_layer("pipelin: []\nnmae: x\n")
        .expect_err("typos")
        .report();
    assert!(report.contains("did you mean pipeline?"), "{report}");
    assert!(report.contains("did you mean name?"), "{report}");
}

#[test]
fn sections_left_empty_are_no_fault() {
    let table = Resolved::new([layer("checkpointing:\n  # interval: 5s\nlog: {}\nrest:\n")]);
    assert_eq!(table, Resolved::new([]));
    assert!(report("colours:\n").contains("unknown key colours"));
    assert!(report("- a\n").contains("expected keys and values, found a list"));
    assert!(
        report("checkpointing.interval: [5s]\n").contains("is a list, expected a single value")
    );
    assert!(report("checkpointing.interval: {x: 5s}\n").contains("unknown key"));
}

// Fence for secrets: none of the outputs repeats one.
#[test]
fn secrets_are_taken_by_reference_and_never_repeated() {
    const CANARY: &str = "canary-5ecret";
    for text in [
        format!("s3.secret-key: {CANARY}\n"),
        format!("s3.secret-key: [{CANARY}]\n"),
        format!("s3.secret-key: {{file: x, env: {CANARY}}}\n"),
        format!("s3.secret-key: {{password: {CANARY}}}\n"),
        format!("s3.secret-keys: {CANARY}\n"),
        format!("s3.secret-key: \"{CANARY}\n"),
        format!("s3.secret-key: &a {CANARY}\n"),
        format!("s3.endpoint: http://user:{CANARY}@host\n"),
    ] {
        let errors = Layer::file("c", &text).expect_err(&text);
        assert!(
            !format!("{} {errors} {errors:?}", errors.report()).contains(CANARY),
            "{text}"
        );
    }
    let flag = format!("s3.secret-key={CANARY}");
    let errors = Layer::flags([flag.as_str()], Target::Daemon).expect_err("literal");
    assert!(!format!("{} {errors:?}", errors.report()).contains(CANARY));
    assert!(errors.report().contains("{ file: /path }"));
    let table = Resolved::new([variables(&[("MILLSTREAM_S3_SECRET_KEY", CANARY)]).expect("env")]);
    assert!(!format!("{table:?} {}", table.print_config()).contains(CANARY));
    assert_eq!(
        shown(&table, "s3.secret-key"),
        "{ env: MILLSTREAM_S3_SECRET_KEY } # environment, MILLSTREAM_S3_SECRET_KEY"
    );
}

#[test]
fn a_secret_may_be_named_by_file_in_every_source() {
    let file = Value::Secret(SecretRef::File("/run/s".into()));
    let layers = [
        layer("s3.secret-key-file: /run/s\n"),
        layer("s3: {secret-key: {file: /run/s}}\n"),
        Layer::flags(["s3.secret-key-file=/run/s"], Target::Daemon).expect("flag"),
        Layer::flags(["s3.secret-key={file: /run/s}"], Target::Daemon).expect("flag"),
        variables(&[("MILLSTREAM_S3_SECRET_KEY_FILE", "/run/s")]).expect("variable"),
    ];
    for layer in layers {
        let table = Resolved::new([layer]);
        assert_eq!(
            table.row("s3.secret-key").and_then(|row| row.value.clone()),
            Some(file.clone())
        );
    }
    assert!(report("s3.secret-key-file: /a\ns3.secret-key: {env: B}\n").contains("given twice"));
}

#[test]
fn the_printed_configuration_is_read_back_as_the_same_one() {
    let table = Resolved::new([layer(
        "checkpointing: {interval: 1500 ms, dir: 's3://bucket/x y'}\n\
         taskmanager.resource-id: \"no: #1\\\\ \\\"q\\\"\"\n\
         taskmanager.bind-host: '::1'\ntaskmanager.data.port-range: 50100-50200\n\
         state.backend.rocksdb.localdir: [/a, 'b, c']\n\
         log.json.static-fields: {applicationARN: 'arn:aws:x', version: 1.10}\n\
         s3.secret-key: {env: KEY}\ns3.endpoint: http://h:1\n\
         restart-strategy: {type: exponential-delay, backoff-multiplier: 2}\n",
    )]);
    let printed = table.print_config();
    assert!(
        printed.contains("checkpointing.interval: 1s 500ms  # conf.yaml:1"),
        "{printed}"
    );
    assert!(printed.contains("# taskmanager.host is unset"), "{printed}");
    let again = Resolved::new([layer(&printed)]);
    for row in table.rows() {
        let back = again.row(row.key.name).expect("row");
        assert_eq!(back.value, row.value, "{}", row.key.name);
    }
}

#[test]
fn the_commented_daemon_files_are_good_as_they_are_and_name_real_keys() {
    let jobmanager = include_str!("../../../config/jobmanager.yaml");
    let taskmanager = include_str!("../../../config/taskmanager.yaml");
    let table = Resolved::new([Layer::file("jobmanager.yaml", jobmanager).expect("jobmanager")]);
    assert!(table.warnings().is_empty());
    let config = JobmanagerConfig::new(&table).expect("jobmanager");
    assert!(config.storage.job_store.is_some());
    let table = Resolved::new([Layer::file("taskmanager.yaml", taskmanager).expect("taskmanager")]);
    TaskmanagerConfig::new(&table).expect("taskmanager");
    for text in [jobmanager, taskmanager] {
        // A line `#key: value` shows a setting that is off; switched on, it must be accepted.
        let on: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
                _ => line,
            })
            .map(|line| format!("{line}\n"))
            .collect();
        assert_ne!(on, text);
        let layer =
            Layer::file("all-on", &on).unwrap_or_else(|errors| panic!("{}", errors.report()));
        assert!(Resolved::new([layer]).warnings().is_empty());
    }
}

#[test]
fn a_value_where_keys_belong_is_said_to_be_one_with_an_example() {
    assert_eq!(
        report("heartbeat.timeout: 9s\ncheckpointing: 5\n"),
        "conf.yaml:2: checkpointing is a single value, expected a mapping: keys and values below \
         it (write checkpointing: { interval: 10s }, or checkpointing.interval: 10s)"
    );
    let long = report("execution.checkpointing: [5s]\n");
    assert!(long.contains("execution.checkpointing is a list"), "{long}");
    assert!(
        long.contains("execution.checkpointing.interval: 10s"),
        "{long}"
    );
    // It may be a secret that was put into the wrong place.
    let s3 = report("s3: sesame-4711\n");
    assert!(
        s3.contains("s3 is a single value") && !s3.contains("sesame"),
        "{s3}"
    );
    let flag = Layer::flags(["checkpointing=5s"], Target::Job).unwrap_err();
    assert!(
        flag.report().contains("expected a mapping"),
        "{}",
        flag.report()
    );
    // What it suggests is accepted.
    for key in [
        "checkpointing",
        "heartbeat",
        "rest",
        "state.backend",
        "slot",
        "taskmanager",
    ] {
        layer(&format!("{key}: {{ {} }}\n", registry::example_in(key)));
    }
}
