//! The table itself: every row is usable, and no two rows claim one name.

use std::collections::BTreeMap;

use super::*;

fn all_names(key: &'static Key) -> Vec<String> {
    let mut names: Vec<String> = std::iter::once(&key.name)
        .chain(key.also)
        .chain(key.old)
        .map(|n| (*n).to_owned())
        .collect();
    if let Some(rest) = key.name.strip_prefix(SHORT) {
        names.push(format!("{LONG}{rest}"));
    }
    names
}

#[test]
fn every_default_is_a_value_of_its_key() {
    for key in keys() {
        if let Some(default) = key.default {
            let value = key.kind.read_text(default).unwrap_or_else(|fault| {
                panic!("{}", fault.message(key.name));
            });
            if let Some(only) = key.only {
                assert_eq!(value.to_string(), only.value, "{}", key.name);
            }
        }
    }
}

// Proves HND-077: the rule is the same for every key.
#[test]
fn every_duration_key_reads_durations_alike() {
    let mut checked = 0;
    for key in keys().filter(|key| matches!(key.kind, Kind::Duration { .. })) {
        checked += 1;
        let ten_minutes = key.kind.read_text("600000 ms");
        assert!(ten_minutes.is_ok(), "{}", key.name);
        for text in ["10 min", "10min", "10 minutes", " 10m "] {
            assert_eq!(key.kind.read_text(text), ten_minutes, "{}", key.name);
        }
        for text in ["10", "", "1.5 s", "-5 s", "10 parsecs", "99999999999 d"] {
            let fault = key.kind.read_text(text).expect_err(key.name);
            assert!(fault.message(key.name).starts_with(key.name));
        }
    }
    assert!(checked > 10);
}

#[test]
fn every_built_key_is_documented() {
    let page = reference_markdown();
    for key in keys() {
        assert!(page.contains(&format!("`{}`", key.name)), "{}", key.name);
        if key.status == Status::Built {
            assert!(
                key.meaning.ends_with('.') && key.effect.ends_with('.'),
                "{}",
                key.name
            );
        }
    }
    assert!(page.contains("- Default: `10m`"));
}

#[test]
fn no_name_and_no_variable_belongs_to_two_keys() {
    let mut owner: BTreeMap<String, &str> = BTreeMap::new();
    for key in keys() {
        for name in all_names(key) {
            let variable = variable_of(&name);
            if let Some(other) = owner.insert(variable, key.name) {
                assert_eq!(other, key.name, "{name} is also a name of {other}");
            }
            let (found, _) = find(&name).expect("registered");
            assert_eq!(found.name, key.name, "{name}");
        }
    }
}

#[test]
fn every_name_of_a_key_has_a_variable_that_finds_it() {
    for key in keys().filter(|key| !key.name.ends_with('*')) {
        for name in all_names(key) {
            let (found, _) = find_variable(&variable_of(&name)).expect("registered");
            assert_eq!(found.name, key.name, "{name}");
        }
    }
    let secret_file = find_variable("MILLSTREAM_S3_SECRET_KEY_FILE").expect("secret by file");
    assert_eq!(
        (secret_file.0.name, secret_file.1),
        ("s3.secret-key", Spelling::SecretFile)
    );
}

#[test]
fn a_family_stands_for_all_keys_below_it_except_those_with_a_row_of_their_own() {
    let status = |name: &str| find(name).map(|(key, _)| key.status);
    assert!(matches!(
        status("security.ssl.rest.enabled"),
        Some(Status::NotBuilt(_))
    ));
    assert_eq!(status("security.ssl."), None);
    assert_eq!(
        status("taskmanager.network.memory.window"),
        Some(Status::Built)
    );
    assert!(matches!(
        status("taskmanager.network.memory.buffers-per-channel"),
        Some(Status::NotBuilt(_))
    ));
    assert!(matches!(
        status("execution.checkpointing.unaligned.forced"),
        Some(Status::NotBuilt(_))
    ));
}

// Proves F3: the suggestion is in the spelling the writer used.
#[test]
fn a_typo_gets_a_suggestion_in_the_same_spelling() {
    let meant = |name: &str| suggest_key(name).unwrap_or_default();
    assert_eq!(
        meant("execution.checkpointing.timout"),
        "execution.checkpointing.timeout"
    );
    assert_eq!(meant("checkpointing.timout"), "checkpointing.timeout");
    assert_eq!(meant("chekpoint.interval"), "checkpointing.interval");
    assert_eq!(
        meant("taskmanager.numberoftaskslots"),
        "taskmanager.numberOfTaskSlots"
    );
    assert_eq!(meant("colour.of.the.sky"), "");
}

#[test]
fn empty_sections_are_recognised() {
    for prefix in [
        "checkpointing",
        "execution",
        "execution.checkpointing",
        "s3",
        "log.json",
    ] {
        assert!(is_section(prefix), "{prefix}");
    }
    assert!(!is_section("checkpointing.interval"));
    assert!(!is_section("pipe"));
}
