//! Whether every fault can be planted, and stands beside a test that claims its item.

use std::path::Path;

use super::binary::Binary;
use super::faults::Fault;
use crate::conformance::{Item, Proofs, TestName};
use crate::report::{Failure, Violation};
use crate::rust_source::RustSource;
use crate::tree::Tree;

/// Complains of every fault that shows nothing.
pub fn check(
    tree: &Tree,
    items: &[Item],
    proofs: &Proofs,
    faults: &[Fault],
) -> Result<Vec<Violation>, Failure> {
    let mut violations = Vec::new();
    for fault in faults {
        let source = tree.raw(&fault.file).ok();
        let complaints = [
            check_text(fault, source.as_deref()),
            check_claim(fault, items, proofs),
            check_test(&fault.test, tree),
        ];
        for message in complaints.into_iter().flatten() {
            violations.push(Violation::at(&fault.path, fault.line, message));
        }
    }
    Ok(violations)
}

fn check_text(fault: &Fault, source: Option<&str>) -> Option<String> {
    let file = fault.file.display();
    let Some(source) = source else {
        return Some(format!(
            "{file} is not there: name the file the text moved to"
        ));
    };
    let mut found = source.match_indices(&fault.text).map(|(at, _)| at);
    let Some(at) = found.next() else {
        return Some(format!(
            "the text does not stand in {file}: plant the same mistake in what stands there now"
        ));
    };
    let n_others = found.count();
    if n_others > 0 {
        return Some(format!(
            "the text stands in {file} {} times: take a line more, so that it is one place",
            n_others + 1
        ));
    }
    let line = source[..at].matches('\n').count();
    let is_test = is_test_file(&fault.file) || line >= RustSource::parse(source).tests_start();
    is_test
        .then(|| format!("the text belongs to a test of {file}: plant the fault in what it tests"))
}

fn is_test_file(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.iter().any(|part| part == "tests")
}

fn check_claim(fault: &Fault, items: &[Item], proofs: &Proofs) -> Option<String> {
    let (number, function) = (fault.item, &fault.test.function);
    if !items.iter().any(|item| item.number == number) {
        return Some(format!(
            "F{number} is no item of the checklist: write the one it breaks"
        ));
    }
    let claims = proofs
        .get(&number)
        .is_some_and(|tests| tests.contains(&fault.test));
    (!claims).then(|| {
        let path = fault.test.path.display();
        format!(
            "no test {function} in {path} claims F{number}: name one that does, or write \
             `// Proves F{number}.` above it if it is true"
        )
    })
}

/// Tests are selected by their name alone, so it must be the only one in its binary.
fn check_test(test: &TestName, tree: &Tree) -> Option<String> {
    let path = test.path.display();
    let Some(binary) = Binary::of(tree, test) else {
        return Some(format!(
            "{path} is part of no test binary: name the file of the test"
        ));
    };
    let head = format!("fn {}(", test.function);
    let others = tree.rust.iter().filter(|(other, source)| {
        let name = TestName {
            path: other.clone(),
            function: test.function.clone(),
        };
        *other != test.path
            && Binary::of(tree, &name).as_ref() == Some(&binary)
            && source.lines.iter().any(|line| line.code.contains(&head))
    });
    let (other, _) = others.into_iter().next()?;
    Some(format!(
        "{} is also a function in {}, and tests are found by name: rename one",
        test.function,
        other.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(file: &str, text: &str) -> Fault {
        Fault {
            path: "r.txt".into(),
            line: 1,
            item: 1,
            about: "it".to_owned(),
            file: file.into(),
            text: text.to_owned(),
            with: "y".to_owned(),
            test: TestName {
                path: "crates/a/src/tests.rs".into(),
                function: "shows".to_owned(),
            },
            is_shown: true,
        }
    }

    const SOURCE: &str = "fn a() { x(); z(); z(); }\n#[cfg(test)]\nmod tests { fn t() { w(); } }\n";

    #[test]
    fn the_text_stands_once_in_the_code() {
        let found = |file: &str, text: &str| check_text(&fault(file, text), Some(SOURCE));
        assert_eq!(found("crates/a/src/a.rs", "x()"), None);
        let cases = [
            ("crates/a/src/a.rs", "q()", "does not stand in"),
            ("crates/a/src/a.rs", "z()", "2 times"),
            ("crates/a/src/a.rs", "w()", "belongs to a test"),
            ("crates/a/src/tests.rs", "x()", "belongs to a test"),
            ("crates/a/tests/b.rs", "x()", "belongs to a test"),
        ];
        for (file, text, expected) in cases {
            let message = found(file, text).unwrap();
            assert!(message.contains(expected), "{message}");
        }
        let gone = check_text(&fault("a.rs", "x()"), None).unwrap();
        assert!(gone.contains("is not there"), "{gone}");
    }

    #[test]
    fn the_test_claims_the_item() {
        let fault = fault("a.rs", "x");
        let item = Item {
            number: 1,
            text: String::new(),
        };
        let claimed = Proofs::from([(1, vec![fault.test.clone()])]);
        assert_eq!(
            check_claim(&fault, std::slice::from_ref(&item), &claimed),
            None
        );
        let other = Proofs::from([(2, vec![fault.test.clone()])]);
        let message = check_claim(&fault, &[item], &other).unwrap();
        assert!(message.contains("claims F1: name one"), "{message}");
        let message = check_claim(&fault, &[], &claimed).unwrap();
        assert!(message.contains("F1 is no item"), "{message}");
    }

    #[test]
    fn a_name_that_another_test_of_the_binary_has_is_refused() {
        let source = RustSource::parse("fn shows() {}\n");
        let tree = |paths: &[&str]| Tree {
            root: ".".into(),
            rust: paths
                .iter()
                .map(|path| (Path::new(path).to_owned(), source.clone()))
                .collect(),
            texts: Vec::new(),
        };
        let test = fault("a.rs", "x").test;
        let (lib, own) = ("crates/a/src/lib.rs", "crates/a/src/tests.rs");
        let apart = tree(&[lib, own, "crates/b/src/lib.rs"]);
        assert!(
            check_test(&test, &apart)
                .unwrap()
                .contains("also a function in crates/a/src/lib.rs")
        );
        let mut alone = tree(&[lib, own, "crates/b/src/lib.rs"]);
        alone.rust[0].1 = RustSource::parse("mod tests;\n");
        assert_eq!(check_test(&test, &alone), None);
    }
}
