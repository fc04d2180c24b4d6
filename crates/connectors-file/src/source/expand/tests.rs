use std::os::unix::fs::symlink;

use millstream_env::fs::RealFs;

use crate::testing::{files, put};

use super::*;

fn check(fs: &dyn Fs, pattern: &str, expected: &[&str]) {
    let found = expand(fs, pattern).unwrap();
    let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
    assert_eq!(found, expected, "{pattern}");
}

// Proves HND-047.
#[test]
fn hidden_marker_and_unfinished_files_are_read_only_if_they_are_named() {
    let fs = files(&[
        ("/d/part-0", b"1"),
        ("/d/_SUCCESS", b""),
        ("/d/.part-0.crc", b"\xff"),
        ("/d/_tmp/part-9", b"9"),
        ("/d/.hidden/part-8", b"8"),
        ("/d/part-1.inprogress.x", b"7"),
        ("/d/.staging/job/out.jsonl", b"6"),
    ]);
    let fs = fs.as_ref();
    for everything in [
        "/d",
        "/d/",
        "/d/**",
        "/d/*",
        "/d/**/*",
        "/*/**",
        "/d/[a-z_.]*",
    ] {
        check(fs, everything, &["/d/part-0"]);
    }
    check(fs, "/d/_tmp/part-9", &["/d/_tmp/part-9"]);
    check(fs, "/d/_tmp/*", &["/d/_tmp/part-9"]);
    check(fs, "/d/_tmp", &["/d/_tmp/part-9"]);
    check(fs, "/d/_*/*", &["/d/_tmp/part-9"]);
    check(fs, "/d/.*/part-*", &["/d/.hidden/part-8"]);
    check(fs, "/d/*.inprogress.*", &["/d/part-1.inprogress.x"]);
}

#[test]
fn patterns_match_names_and_directories_in_sorted_order() {
    let fs = files(&[
        ("/a/z.md", b"x"),
        ("/a/b/y.md", b"x"),
        ("/a/b/c/x.md", b"x"),
        ("/a/b/c/x.txt", b"x"),
        ("/a/[odd].md", b"x"),
    ]);
    let fs = fs.as_ref();
    check(fs, "/a/*.md", &["/a/[odd].md", "/a/z.md"]);
    check(
        fs,
        "/a/**/*.md",
        &["/a/[odd].md", "/a/b/c/x.md", "/a/b/y.md", "/a/z.md"],
    );
    check(fs, "/a/**/**/x.*", &["/a/b/c/x.md", "/a/b/c/x.txt"]);
    check(fs, "/a/**/c/*", &["/a/b/c/x.md", "/a/b/c/x.txt"]);
    check(fs, "/?/[bc]/y.md", &["/a/b/y.md"]);
    check(fs, "/a/[odd].md", &["/a/[odd].md"]);
    check(fs, "/a//b/./y.md", &["/a//b/./y.md"]);
}

#[test]
fn nothing_found_is_an_error_that_names_the_pattern() {
    let fs = files(&[("/a/x.md", b"x"), ("/a/_only", b"x")]);
    for pattern in [
        "/a/*.txt",
        "/nowhere/x",
        "/a/x.md/y",
        "/a/x.md/*",
        "relative.md",
    ] {
        let error = expand(fs.as_ref(), pattern).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External);
        assert!(
            error
                .to_string()
                .contains(&format!("no file matches {pattern:?}")),
            "{error}"
        );
        assert!(error.remedy().is_some());
    }
    let error = expand(fs.as_ref(), "/a/x[").unwrap_err().to_string();
    assert!(
        error.contains("\"x[\" in \"/a/x[\" is no pattern"),
        "{error}"
    );
}

#[test]
fn links_are_followed_to_files_and_never_round_in_circles() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    put(&RealFs, &at("real/a.md"), b"x");
    symlink(root.join("real/a.md"), root.join("real/link.md")).unwrap();
    symlink(root, root.join("real/circle")).unwrap();
    symlink(root.join("real"), root.join("alias")).unwrap();

    let both = [&at("real/a.md")[..], &at("real/link.md")];
    check(&RealFs, &at("**/*.md"), &both);
    check(
        &RealFs,
        &at("alias/*.md"),
        &[&at("alias/a.md"), &at("alias/link.md")],
    );
    let through = [
        at("alias/a.md"),
        at("alias/link.md"),
        at("real/a.md"),
        at("real/link.md"),
    ];
    check(
        &RealFs,
        &at("*/*.md"),
        &through.each_ref().map(String::as_str),
    );
}
