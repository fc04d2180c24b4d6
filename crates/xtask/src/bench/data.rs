//! Input data: generated once, and copies of it that take no space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Input, WORDS};
use crate::program::run;
use crate::report::Failure;

/// Events of the data set whose bids are [`super::case::BIDS`].
const EVENTS: u64 = 5_434_800;

/// Where data sets are kept from run to run.
pub struct Data {
    dir: PathBuf,
    generator: PathBuf,
}

impl Data {
    /// Compiles the generator if it is newer than its program.
    pub fn prepare(root: &Path, dir: &Path) -> Result<Self, Failure> {
        let dir = dir.join("data");
        fs::create_dir_all(&dir).map_err(Failure::io(format!("create {}", dir.display())))?;
        let source = root.join("tests/bench/nexmark_gen.rs");
        let generator = dir.join("nexmark_gen");
        let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        if changed(&generator) <= changed(&source) {
            run(Command::new("rustc")
                .arg("-O")
                .arg(&source)
                .arg("-o")
                .arg(&generator))?;
        }
        Ok(Self { dir, generator })
    }

    /// A directory with so many copies of what the case reads; an empty path for a case that reads
    /// nothing. Its files are links to those of one data set, two files a copy.
    pub fn copies(&self, case: &Case, copies: u64) -> Result<PathBuf, Failure> {
        let (name, kind) = match case.input {
            Input::Bids(_) => ("nexmark", "bid"),
            Input::Words(_) => ("words", "lines"),
            Input::Generated { .. } | Input::Growing => return Ok(PathBuf::new()),
        };
        let original = self.original(name)?.join(kind);
        let all = self.dir.join(format!("{name}-{copies}"));
        let own = all.join(kind);
        if own.exists() {
            return Ok(all);
        }
        let unfinished = self.dir.join(format!(".{name}-{copies}"));
        let linked = unfinished.join(kind);
        let io = || Failure::io(format!("link files into {}", linked.display()));
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&linked).map_err(io())?;
        for file in fs::read_dir(&original).map_err(io())? {
            let file = file.map_err(io())?;
            for copy in 0..copies {
                let name = format!("{copy:03}-{}", file.file_name().to_string_lossy());
                fs::hard_link(file.path(), linked.join(name)).map_err(io())?;
            }
        }
        fs::rename(&unfinished, &all).map_err(io())?;
        Ok(all)
    }

    /// One data set, made now if it is not there.
    fn original(&self, name: &str) -> Result<PathBuf, Failure> {
        let done = self.dir.join(name);
        if done.exists() {
            return Ok(done);
        }
        let unfinished = self.dir.join(format!(".{name}"));
        let mut generate = Command::new(&self.generator);
        generate.arg("--out").arg(&unfinished);
        match name {
            "words" => generate.args(["--words", &WORDS.to_string()]),
            _ => generate.args(["--events", &EVENTS.to_string(), "--kinds", "bid"]),
        };
        run(&mut generate)?;
        fs::rename(&unfinished, &done)
            .map_err(Failure::io(format!("rename to {}", done.display())))?;
        Ok(done)
    }
}
