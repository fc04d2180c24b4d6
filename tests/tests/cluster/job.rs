//! Job files of these tests, put together from settings and steps.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// A job file. Values are YAML, without the braces around what a step has.
#[derive(Clone)]
pub struct Job {
    settings: String,
    steps: String,
}

impl Job {
    /// A job of this name, without steps.
    pub fn new(name: &str) -> Self {
        let job = Self {
            settings: String::new(),
            steps: String::new(),
        };
        job.set("name", name)
    }

    /// A setting.
    pub fn set(mut self, key: &str, value: impl Display) -> Self {
        self.settings += &format!("{key}: {value}\n");
        self
    }

    /// Subtasks of every step that does not say otherwise.
    pub fn parallelism(self, subtasks: u32) -> Self {
        self.set("parallelism", subtasks)
    }

    /// `interval: 1s`, and what else there is to say.
    pub fn checkpoints(self, settings: &str) -> Self {
        self.set("checkpointing", format!("{{ {settings} }}"))
    }

    /// `type: none`, or another strategy with its parameters.
    pub fn restarts(self, strategy: &str) -> Self {
        self.set("restart-strategy", format!("{{ {strategy} }}"))
    }

    /// A step.
    pub fn step(mut self, name: &str, has: impl Display) -> Self {
        self.steps += &format!("  - {name}: {{ {has} }}\n");
        self
    }

    /// Rows that are made here: `rows: 10, rate: 5`, and their columns.
    pub fn generator(self, uid: &str, how: &str, columns: &str) -> Self {
        let how = if how.is_empty() {
            String::new()
        } else {
            format!("{how}, ")
        };
        let has = format!("uid: {uid}, connector: generator, {how}columns: {{ {columns} }}");
        self.step("source", has)
    }

    /// Rows of a file: `format: json`, and what else there is to say.
    pub fn file(self, uid: &str, path: impl AsRef<Path>, how: &str) -> Self {
        let path = path.as_ref().display();
        let has = format!("uid: {uid}, connector: file, path: \"{path}\", {how}");
        self.step("source", has)
    }

    /// A fault; the job is allowed to have some.
    pub fn inject(self, uid: &str, fault: &str) -> Self {
        let allow = "pipeline.allow-fault-injection";
        let job = if self.settings.contains(allow) {
            self
        } else {
            self.set(allow, true)
        };
        job.step("inject", format!("uid: {uid}, {fault}"))
    }

    /// One row per key with these aggregates, and `emit: each` where it is wanted.
    pub fn aggregate(mut self, keys: &str, uid: &str, select: &str, emit: &str) -> Self {
        self.steps += &format!("  - key-by: [{keys}]\n");
        let emit = if emit.is_empty() {
            String::new()
        } else {
            format!(", emit: {emit}")
        };
        let has = format!("uid: {uid}, select: {{ {select} }}{emit}");
        self.step("aggregate", has)
    }

    /// Counts rows per key, as `n` of `counts`.
    pub fn count(self, keys: &str, emit: &str) -> Self {
        self.aggregate(keys, "counts", "n: \"count(*)\"", emit)
    }

    /// The sink `out`: "print" or "blackhole".
    pub fn sink(self, connector: &str) -> Self {
        self.step("sink", format!("uid: out, connector: {connector}"))
    }

    /// The sink `out` as files.
    pub fn file_sink(self, path: impl AsRef<Path>, format: &str) -> Self {
        let path = path.as_ref().display();
        self.sink(&format!("file, path: \"{path}\", format: {format}"))
    }

    /// Writes the file `<name>.yaml`.
    pub fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(format!("{name}.yaml"));
        std::fs::write(&path, self.to_string()).unwrap();
        path
    }
}

impl Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}pipeline:\n{}", self.settings, self.steps)
    }
}
