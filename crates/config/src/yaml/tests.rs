//! What is read, what is refused, and where.

use super::*;

fn read(text: &str) -> Node {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn fault(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// A short form of a tree: scalars as debug strings, so that quotes and blanks show.
fn shape(node: &Node) -> String {
    match &node.value {
        Value::Scalar { .. } if node.is_null() => "null".to_owned(),
        Value::Scalar { text, .. } => format!("{text:?}"),
        Value::Sequence(items) => {
            format!(
                "[{}]",
                items.iter().map(shape).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Mapping(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}: {}", entry.key, shape(&entry.node)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[test]
fn block_and_flow_style_give_the_same_tree() {
    let block = "a:\n  b: 1\n  c:\n  - x\n  - y: 2\n    z: 3\n  -\n    - n\nd:\n";
    let flow = "{a: {b: 1, c: [x, {y: 2, z: 3}, [n]]}, d: }";
    let tree = r#"{a: {b: "1", c: ["x", {y: "2", z: "3"}, ["n"]]}, d: null}"#;
    assert_eq!(shape(&read(block)), tree);
    assert_eq!(shape(&read(flow)), tree);
    assert_eq!(
        shape(&read("---\n# all of it\na: [\n  1, # one\n  2,\n]\n")),
        r#"{a: ["1", "2"]}"#
    );
}

// The job file of the design document, in parts.
#[test]
fn a_job_file_is_read_with_the_line_of_every_value() {
    let text = "name: word-count\n\
                checkpointing: { interval: 5s, timeout: 1m }\n\
                pipeline:\n  \
                - source:    { uid: lines, path: \"docs/**/*.md\", format: text }\n  \
                - flat-map:  { expr: \"regexp_split(lower(line), '[^a-z0-9]+')\", as: word }\n  \
                - filter:    { where: \"word <> ''\" }\n  \
                - key-by:    [word]\n";
    let tree = read(text);
    let steps = tree
        .get("pipeline")
        .and_then(Node::as_sequence)
        .expect("steps");
    assert_eq!(steps.len(), 4);
    let expr = steps[1]
        .get("flat-map")
        .and_then(|step| step.get("expr"))
        .expect("expr");
    assert_eq!(
        expr.as_text(),
        Some("regexp_split(lower(line), '[^a-z0-9]+')")
    );
    assert_eq!(
        expr.at,
        Position {
            line: 5,
            column: 24
        }
    );
    let interval = tree
        .get("checkpointing")
        .and_then(|c| c.get("interval"))
        .expect("interval");
    assert_eq!(interval.at.line, 2);
}

// Proves HND-078.
#[test]
fn hash_and_colon_inside_values_are_kept() {
    let tree = read("password: db@1#2 # the password\nurl: \"s3://b/x?y=a:b\"\nhost: a:b\n");
    assert_eq!(tree.get("password").and_then(Node::as_text), Some("db@1#2"));
    assert_eq!(
        tree.get("url").and_then(Node::as_text),
        Some("s3://b/x?y=a:b")
    );
    assert_eq!(tree.get("host").and_then(Node::as_text), Some("a:b"));
}

// Proves HND-078.
#[test]
fn texts_stay_texts() {
    let tree = read("a: no\nb: 08\nc: 1.10\nd: 0x1F\ne: yes\nf: 1e3\ng: 'null'\nh: 1_000\n");
    let texts: Vec<&str> = "abcdefgh"
        .chars()
        .map(|key| {
            tree.get(&key.to_string())
                .and_then(Node::as_text)
                .expect("text")
        })
        .collect();
    assert_eq!(
        texts,
        ["no", "08", "1.10", "0x1F", "yes", "1e3", "null", "1_000"]
    );
    assert!(read("a: ~\n").get("a").expect("a").is_null());
}

// Proves HND-078: long lines are neither folded nor cut.
#[test]
fn a_long_line_is_kept_whole() {
    let long = "word ".repeat(5_000) + "end";
    let tree = read(&format!("a: {long}\nb: \"{long}\"\n"));
    assert_eq!(tree.get("a").and_then(Node::as_text), Some(long.as_str()));
    assert_eq!(tree.get("b").and_then(Node::as_text), Some(long.as_str()));
}

#[test]
fn texts_over_several_lines_are_joined_as_yaml_says() {
    let cases = [
        ("a: one\n  two\n\n  three\n", "one two\nthree"),
        ("a: 'one\n  two''s'\n", "one two's"),
        ("a: \"one\n\n  two \\\n  three\\n\"\n", "one\ntwo three\n"),
        (
            "a: |\n  SELECT 1\n    , 2 # no comment\n\n  FROM t\n",
            "SELECT 1\n  , 2 # no comment\n\nFROM t\n",
        ),
        ("a: |-\n  x\n\n\n", "x"),
        ("a: |+\n  x\n\n", "x\n\n"),
        (
            "a: >\n  one\n  two\n\n  three\n    deep\n  four\n",
            "one two\nthree\n  deep\nfour\n",
        ),
        ("a: >-\n  one\n  two", "one two"),
        ("a: |\n  no line end", "no line end\n"),
        ("a:\n  below\n", "below"),
        ("a: \"\\u00e9\\x41\\t\\\"\"\n", "éA\t\""),
    ];
    for (text, expected) in cases {
        assert_eq!(
            read(text).get("a").and_then(Node::as_text),
            Some(expected),
            "{text}"
        );
    }
}

// Proves HND-078.
#[test]
fn a_key_given_twice_is_refused_with_both_lines() {
    assert_eq!(
        fault("a: 1\nb: 2\na: 3\n"),
        "key a is given twice: line 1, column 1 and line 3, column 1"
    );
    assert!(fault("x: {a: 1, \"a\": 2}\n").contains("line 1, column 5 and line 1, column 11"));
    let tree = read("a.b.c: 1\na: {b: {c: 2}}\n");
    let error = flatten(tree.as_mapping().expect("mapping"), &|_| false).expect_err("twice");
    assert_eq!(
        error.to_string(),
        "key a.b.c is given twice: line 1, column 1 and line 2, column 9"
    );
}

#[test]
fn dotted_and_nested_keys_flatten_to_the_same_names() {
    let tree = read("a.b: 1\na:\n  c.d: 2\n  keep: {x: 1}\n  empty: {}\n");
    let flat = flatten(tree.as_mapping().expect("mapping"), &|key| key == "a.keep").expect("flat");
    let keys: Vec<(&str, u32)> = flat.iter().map(|e| (e.key.as_str(), e.at.line)).collect();
    assert_eq!(
        keys,
        [("a.b", 1), ("a.c.d", 3), ("a.keep", 4), ("a.empty", 5)]
    );
}

// Proves HND-078.
#[test]
fn a_tab_as_indentation_is_refused_with_its_line() {
    for text in [
        "a:\n\tb: 1\n",
        "a:\n  \tb: 1\n",
        "a: |\n\tx\n",
        "a: one\n\ttwo\n",
    ] {
        let message = fault(text);
        assert!(message.starts_with("line 2"), "{message}");
        assert!(
            message.ends_with("a tab is used as indentation"),
            "{message}"
        );
    }
    assert!(fault("a: 1\n\t\nb: 2\n").starts_with("line 2"));
    assert_eq!(
        shape(&read("a:\t1\t# comment\t\nb: 2 \t\n")),
        r#"{a: "1", b: "2"}"#
    );
}

#[test]
fn what_could_surprise_or_grow_is_refused() {
    let refused = [
        ("a: &x 1\nb: *x\n", "line 1, column 4: an anchor (&)"),
        ("a: [*x]\n", "an alias (*)"),
        ("a: !!binary x\n", "a tag (!)"),
        ("<<: {a: 1}\n", "a merge key (<<)"),
        ("? a\n: b\n", "a complex key (?)"),
        ("%YAML 1.1\n---\na: 1\n", "a directive"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: a second document"),
        ("a: 1\n...\nb: 2\n", "a second document"),
        ("a: \u{0}\n", "line 1, column 4: control character U+0000"),
        ("a: \"\\0\"\n", "escape"),
    ];
    for (text, expected) in refused {
        assert!(fault(text).contains(expected), "{text}: {}", fault(text));
    }
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    let refused = [
        ("a: b: c\n", "line 1, column 5"),
        ("a: 1\n  b: 2\n", "line 2"),
        ("a:\n    b: 1\n  c: 2\n", "line 3, column 3"),
        ("a: [1, 2\n", "']' is missing"),
        ("a: {b:1}\n", "a key needs a ':'"),
        ("a: \"open\n", "the quote is not closed"),
        ("a: \"x\" y\n", "only a comment"),
        ("a: - b\n", "a list starts on a line of its own"),
        ("- a\nb: 1\n", "line 2"),
        ("a: 1\n- b\n", "expected 'key: value'"),
        ("a: @x\n", "cannot start a value"),
        ("a: \"\\q\"\n", "unknown escape"),
        (": a\n", ""),
    ];
    for (text, expected) in refused {
        assert!(fault(text).contains(expected), "{text}: {}", fault(text));
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = "[".repeat(100_000);
    assert!(fault(&deep).contains("nested deeper than 64 levels"));
    let deep: String = (0..200)
        .map(|level| format!("{}a:\n", " ".repeat(level)))
        .collect();
    assert!(fault(&deep).contains("nested deeper than 64 levels"));
    assert!(fault(&"- ".repeat(1_000)).contains("nested deeper than 64 levels"));
    let large = format!("a: {}\n", "x".repeat(MAX_BYTES));
    assert_eq!(
        fault(&large),
        format!(
            "the text has {} bytes, more than the 1048576 allowed",
            large.len()
        )
    );
    let long_key = format!("{}: 1\n", "k".repeat(600));
    assert!(fault(&long_key).contains("a key of more than 512 bytes"));
}

#[test]
fn work_grows_with_the_text_only() {
    let many_keys: String = (0..90_000).map(|n| format!("k{n}:\n")).collect();
    assert_eq!(
        read(&many_keys).as_mapping().map(<[Entry]>::len),
        Some(90_000)
    );
    let many_lines = format!("a: |\n{}", "  x\n".repeat(200_000));
    assert_eq!(
        read(&many_lines)
            .get("a")
            .and_then(Node::as_text)
            .map(str::len),
        Some(400_000)
    );
    let continued = format!("a: x\n{}", "  y\n".repeat(200_000));
    assert_eq!(
        read(&continued)
            .get("a")
            .and_then(Node::as_text)
            .map(str::len),
        Some(400_001)
    );
}

#[test]
fn empty_texts_lone_scalars_comments_marks_and_windows_line_ends_are_fine() {
    assert_eq!(read("a\n").as_text(), Some("a"));
    for text in ["", "\n", "# nothing\n", "---\n", "---\n# nothing"] {
        assert!(read(text).is_null(), "{text:?}");
    }
    assert_eq!(
        shape(&read("\u{feff}a: 1\r\nb:\r\n  c: 2\r\n")),
        r#"{a: "1", b: {c: "2"}}"#
    );
}

/// Texts made by a small generator: whatever is accepted must be what `serde_yaml` reads, and
/// nothing may panic.
#[test]
fn random_texts_never_panic_and_are_never_read_differently() {
    const PIECES: [&str; 32] = [
        "a", "b", ": ", ":", "\n", "\n  ", "\n    ", "- ", "[", "]", "{", "}", ", ", "'", "\"",
        "#", " # c", "|", ">", "\t", "x y", "no", "~", "\\n", "é", "\u{2028}", "&a ", "*a",
        "---\n", "%", "? ", "\\",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut accepted = 0;
    for _ in 0..40_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
        }
        if let Ok(node) = parse(&text) {
            accepted += 1;
            let other = serde_yaml::from_str(&format!("{text}\n")).expect("read by both");
            assert_eq!(disagreement(&node, &other), None, "{text:?}");
        }
    }
    assert!(accepted > 1_000, "only {accepted} texts were accepted");
}
