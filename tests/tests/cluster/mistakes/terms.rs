//! What holds of every stored text: it has a code of the catalogue, whose message it is, it says
//! what to do, and nothing in it is a value as the compiler prints it.

use std::collections::BTreeSet;

use millstream_types::errors::ErrorCode;

use super::golden::directory;

/// The stored texts by name.
fn texts() -> Vec<(String, String)> {
    let files = std::fs::read_dir(directory()).unwrap().flatten();
    let mut texts: Vec<_> = files
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(file.path()).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

/// What a program wrote, without the command before it and the exit code after it.
fn said(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// The codes in square brackets.
fn codes(text: &str) -> Vec<ErrorCode> {
    let words = text.split('[').skip(1);
    let words = words.filter_map(|rest| rest.split_once(']'));
    words
        .filter_map(|(word, _)| ErrorCode::find(word))
        .collect()
}

/// `Os { code: 2`, `Some(3)`, `["a"]`: no text for people.
fn debug_output(line: &str) -> Option<&'static str> {
    let after_a_type = |what: char| {
        line.match_indices(what).any(|(at, _)| {
            let before = line[..at].trim_end();
            let word = before.rsplit(|c: char| !c.is_alphanumeric()).next();
            let word = word.unwrap_or_default();
            word.starts_with(char::is_uppercase) && word.contains(char::is_lowercase)
        })
    };
    // A quoted line of a job file has numbers and a bar before it.
    let is_excerpt = line
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .starts_with(" | ");
    let is_of_strategy = line.contains("RestartBackoffTimeStrategy");
    let checks = [
        ("a struct", !is_excerpt && after_a_type('{')),
        (
            "a variant",
            !is_excerpt && !is_of_strategy && after_a_type('(') && !line.contains(" ("),
        ),
        ("a list", !is_excerpt && line.contains("[\"")),
        ("transport error", line.contains("transport error")),
        ("a panic", line.contains("panicked")),
    ];
    checks
        .into_iter()
        .find(|(_, is_true)| *is_true)
        .map(|(name, _)| name)
}

/// What a line says twice.
fn said_twice(line: &str) -> Option<&str> {
    let parts: Vec<_> = line.split(": ").filter(|part| part.len() > 12).collect();
    let known = |nth: usize| {
        parts[..nth]
            .iter()
            .any(|before| before.contains(parts[nth]))
    };
    (0..parts.len())
        .find(|nth| known(*nth))
        .map(|nth| parts[nth])
}

#[test]
fn every_text_has_a_code_a_remedy_and_no_debug_output() {
    let texts = texts();
    assert!(texts.len() >= 50, "{} texts are stored", texts.len());
    for (name, text) in &texts {
        let codes = codes(text);
        assert!(!codes.is_empty(), "{name} has no code:\n{text}");
        assert!(text.contains("  help: "), "{name} has no remedy:\n{text}");
        for code in codes {
            let entry = code.entry();
            assert!(
                entry.matches(text),
                "{name} is {code}, whose text is {:?}:\n{text}",
                entry.text
            );
        }
        for line in said(text) {
            assert_eq!(debug_output(line), None, "{name}: {line}");
            if ["error[", "  caused by: "]
                .iter()
                .any(|start| line.starts_with(start))
            {
                assert_eq!(said_twice(line), None, "{name}: {line}");
            }
        }
    }
}

#[test]
fn the_stored_texts_are_of_many_kinds() {
    let codes: BTreeSet<_> = texts().iter().flat_map(|(_, text)| codes(text)).collect();
    assert!(codes.len() >= 40, "{} codes: {codes:?}", codes.len());
}

#[test]
fn debug_output_is_recognised() {
    for line in [
        "cannot open: Os { code: 2, kind: NotFound }",
        "the size is Some(3)",
        "the fail points are [\"upload\", \"commit\"]",
        "cannot reach it: transport error",
    ] {
        assert!(debug_output(line).is_some(), "{line}");
    }
    assert_eq!(debug_output("4 |   - source: { uid: in }"), None);
    assert_eq!(debug_output("write { file: /path }"), None);
    assert!(said_twice("storage /x cannot be used: storage /x cannot be used").is_some());
}
