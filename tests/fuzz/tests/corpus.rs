//! The stored corpora, and seeded changes of them, through every target.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use millstream_fuzz::{TARGETS, Target};

/// Changes of stored inputs that a run makes, of each target.
const CHANGES: u64 = 400;

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

/// Name and bytes of what is stored, in the order of names.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut inputs: Vec<_> = files
        .map(|file| {
            let file = file.expect("its folder was just opened");
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).expect("a plain file"))
        })
        .collect();
    inputs.sort();
    assert!(
        inputs.len() >= 3,
        "{} has next to nothing",
        folder.display()
    );
    inputs
}

/// A generator of numbers that is the same everywhere (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One to four small changes; a piece of `other` may come in.
fn change(input: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, numbers.next() as u8),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
            4 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            _ => {
                let from = numbers.below(other.len());
                let to = (from + numbers.below(32)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn hold(target: &Target, name: &str, bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let shown = String::from_utf8_lossy(bytes);
        panic!("{} {name} breaks: {bytes:?}\n{shown}", target.name);
    }
}

#[test]
fn every_target_holds_against_its_corpus() {
    for target in &TARGETS {
        for (name, bytes) in corpus(target) {
            hold(target, &name, &bytes);
        }
    }
}

#[test]
fn every_target_holds_against_changes_of_its_corpus() {
    for target in &TARGETS {
        let inputs = corpus(target);
        let mut numbers = Numbers(target.name.len() as u64);
        for n in 0..CHANGES {
            let (name, bytes) = &inputs[numbers.below(inputs.len())];
            let (_, other) = &inputs[numbers.below(inputs.len())];
            let changed = change(bytes, other, &mut numbers);
            hold(target, &format!("{name}, change {n}"), &changed);
        }
    }
}

/// A target that takes everything would hold as well.
#[test]
fn a_target_that_is_wrong_is_noticed() {
    let wrong = Target {
        name: "wrong",
        about: "believes everything",
        run: |bytes| assert!(bytes.len() < 4, "four bytes are too many"),
    };
    hold(&wrong, "short", b"abc");
    let caught = catch_unwind(AssertUnwindSafe(|| hold(&wrong, "long", b"abcd")));
    let message = *caught.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.contains("wrong long breaks: [97, 98, 99, 100]"),
        "{message}"
    );
}

#[test]
fn no_corpus_lies_there_without_a_target() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap();
    for folder in folders {
        let name = folder.unwrap().file_name().to_string_lossy().into_owned();
        assert!(millstream_fuzz::find(&name).is_some(), "corpus/{name}");
    }
}
