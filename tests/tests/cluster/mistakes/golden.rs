//! From what a program wrote to a text that is the same on every machine, and its comparison with
//! the stored one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::process::{finish, program, root, text};

/// In which every mistake must have been told.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the texts are kept.
pub fn directory() -> PathBuf {
    root().join("tests/golden/errors")
}

/// Mistakes below one directory, compared all together at the end.
pub struct Mistakes {
    dir: PathBuf,
    /// What differs from machine to machine, and what stands for it.
    masks: Vec<(String, String)>,
    /// Names and texts that are not what is stored.
    differences: Vec<String>,
}

impl Mistakes {
    pub fn in_directory(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            masks: vec![(dir.display().to_string(), "DIR".to_owned())],
            differences: Vec::new(),
        }
    }

    /// What stands for this text in the stored ones.
    pub fn mask(&mut self, text: impl ToString, shown: &str) {
        self.masks.insert(0, (text.to_string(), shown.to_owned()));
    }

    /// Runs `millstream` with these words.
    pub fn millstream(&mut self, name: &str, words: &[&str]) -> Output {
        self.run(name, &[], "millstream", words)
    }

    /// Runs a daemon with these settings, on any free ports unless they say otherwise.
    pub fn daemon(&mut self, name: &str, daemon: &str, settings: &[&str]) -> Output {
        self.launched(name, &[], daemon, settings)
    }

    /// The same by way of a launcher.
    pub fn launched(
        &mut self,
        name: &str,
        launcher: &[&str],
        daemon: &str,
        settings: &[&str],
    ) -> Output {
        let mut words = Vec::new();
        for free in ["jobmanager.rpc.port=0", "rest.port=0"] {
            let key = free.trim_end_matches('0');
            if daemon == "jobmanager" && !settings.iter().any(|s| s.starts_with(key)) {
                words.extend(["-D", free]);
            }
        }
        for setting in settings {
            words.extend(["-D", setting]);
        }
        self.run(name, launcher, daemon, &words)
    }

    /// Runs a program by way of a launcher, which becomes it, and compares what it says.
    pub fn run(&mut self, name: &str, launcher: &[&str], binary: &str, words: &[&str]) -> Output {
        let mut command = match launcher {
            [] => Command::new(program(binary)),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program(binary));
                command
            }
        };
        command.args(words);
        self.compare(name, &mut command, binary, words)
    }

    /// Runs a command that was made ready and compares what it says.
    pub fn compare(
        &mut self,
        name: &str,
        command: &mut Command,
        binary: &str,
        words: &[&str],
    ) -> Output {
        let output = finish(command.current_dir(&self.dir), LIMIT);
        let code = match output.status.code() {
            Some(code) => code.to_string(),
            None => "none".to_owned(),
        };
        let shown = format!(
            "$ {}\n{}{}exit code {code}\n",
            [&[binary], words].concat().join(" "),
            text(&output.stdout),
            without_log(&text(&output.stderr)),
        );
        self.stored(name, &self.masked(&shown));
        output
    }

    fn masked(&self, shown: &str) -> String {
        let mut shown = shown.to_owned();
        for (text, stands_for) in &self.masks {
            shown = shown.replace(text, stands_for);
        }
        let shown = between(&shown, " attempts within ", &[";", "\n"], "TIME");
        let shown = between(&shown, "lookup address information: ", &["\n"], "REASON");
        let shown = between(&shown, "jobmanager does: ", &["\n"], "REASON");
        words_masked(&shown)
    }

    fn stored(&mut self, name: &str, shown: &str) {
        let path = directory().join(format!("{name}.txt"));
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(&path, shown).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        if stored != shown {
            let difference = format!("== {name}, stored:\n{stored}== shown:\n{shown}");
            self.differences.push(difference);
        }
    }

    /// Fails with all texts that are not what is stored.
    pub fn judge(self) {
        assert!(
            self.differences.is_empty(),
            "{}\nif this is how it should be: WRITE_GOLDEN=1",
            self.differences.join("\n")
        );
    }
}

/// Lines of a log have times and numbers of their own, and are judged elsewhere.
fn without_log(said: &str) -> String {
    let is_record = |line: &str| line.split(' ').next().is_some_and(is_time);
    let lines = said.lines().filter(|line| !is_record(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// What stands after each `start` up to the nearest end, replaced.
fn between(text: &str, start: &str, ends: &[&str], stands_for: &str) -> String {
    let mut parts = text.split(start);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = ends.iter().filter_map(|end| part.find(end)).min();
        shown += start;
        shown += stands_for;
        shown += &part[end.unwrap_or(part.len())..];
    }
    shown
}

/// `2026-01-01T00:00:00.000Z`
fn is_time(word: &str) -> bool {
    word.len() == 24 && word.starts_with("20") && word.ends_with('Z') && word.contains('T')
}

/// Ids, random names and times are other ones each time.
fn words_masked(text: &str) -> String {
    let mut shown = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-') {
            word.push(c);
            continue;
        }
        let ending = word.trim_end_matches([':', '.', '-']).len();
        shown += &word_masked(&word[..ending]);
        shown += &word[ending..];
        word.clear();
        shown.push(c);
    }
    shown.trim_end_matches('\0').to_owned()
}

fn word_masked(word: &str) -> String {
    if is_time(word) {
        return "TIME".to_owned();
    }
    let parts = word.split('-').map(|part| {
        let is_hex = part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        // What is all zeros was written so.
        match part.len() {
            32 if is_hex && part.contains(|c| c != '0') => "ID",
            16 if is_hex => "NONCE",
            _ => part,
        }
    });
    parts.collect::<Vec<_>>().join("-")
}

#[test]
fn what_differs_each_time_is_masked_and_nothing_else() {
    let text = "at 2026-01-01T00:00:00.000Z, _probe-0123456789abcdef: job \
                00112233445566778899aabbccddeeff, in 3 attempts within 1.2 s; 10:30\n";
    let shown = between(text, " attempts within ", &[";"], "TIME");
    assert_eq!(
        words_masked(&shown),
        "at TIME, _probe-NONCE: job ID, in 3 attempts within TIME; 10:30\n"
    );
}
