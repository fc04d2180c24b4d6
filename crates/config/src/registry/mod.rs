//! The one table of all keys: what is accepted, what it means, and what is only known.
//!
//! A key is `Built` only if it has its effect. Keys of Flink whose effect is missing are known and
//! refused as such, so that nobody believes in a setting that does nothing.

mod checkpointing;
mod execution;
mod jobmanager;
mod reference;
mod state;
mod taskmanager;
#[cfg(test)]
mod tests;

pub use reference::reference_markdown;

use crate::suggest::suggest;
use crate::value::Kind;

/// Where a key may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a daemon's configuration only.
    Cluster,
    /// In a job. A daemon's configuration may hold it too: it is then the default of its jobs.
    Job,
}

/// Whether a key does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has its effect.
    Built,
    /// Known from Flink or planned, refused: what it would be, and what to use instead.
    NotBuilt(&'static str),
    /// Accepted with a warning, and nothing else: why nothing is lost.
    NoEffect(&'static str),
}

/// A built key of which only one value is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Only {
    /// The value that is built, as printed.
    pub value: &'static str,
    /// What the other values would need.
    pub what: &'static str,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// The short form, which is printed.
    pub name: &'static str,
    /// Other names that are as good.
    pub also: &'static [&'static str],
    /// Flink's old names, accepted with a warning.
    pub old: &'static [&'static str],
    /// The type of its value.
    pub kind: Kind,
    /// The default as written in a file; `None` if it is unset.
    pub default: Option<&'static str>,
    /// Where it may be set.
    pub scope: Scope,
    /// Whether it does anything.
    pub status: Status,
    /// If only one value is built, that one.
    pub only: Option<Only>,
    /// What it is.
    pub meaning: &'static str,
    /// What changes with it.
    pub effect: &'static str,
}

/// A key that is built; scope job, no default.
const fn key(name: &'static str, kind: Kind) -> Key {
    Key {
        name,
        also: &[],
        old: &[],
        kind,
        default: None,
        scope: Scope::Job,
        status: Status::Built,
        only: None,
        meaning: "",
        effect: "",
    }
}

/// A key that is known and refused. A name that ends in `.*` stands for all keys below it.
const fn later(name: &'static str, what: &'static str) -> Key {
    Key {
        status: Status::NotBuilt(what),
        ..key(name, Kind::Text)
    }
}

/// A key that is accepted and does nothing.
const fn no_effect(name: &'static str, why: &'static str) -> Key {
    Key {
        status: Status::NoEffect(why),
        ..key(name, Kind::Text)
    }
}

impl Key {
    const fn default(self, value: &'static str) -> Self {
        Self {
            default: Some(value),
            ..self
        }
    }

    const fn also(self, names: &'static [&'static str]) -> Self {
        Self {
            also: names,
            ..self
        }
    }

    const fn old(self, names: &'static [&'static str]) -> Self {
        Self { old: names, ..self }
    }

    const fn cluster(self) -> Self {
        Self {
            scope: Scope::Cluster,
            ..self
        }
    }

    const fn only(self, value: &'static str, what: &'static str) -> Self {
        Self {
            only: Some(Only { value, what }),
            ..self
        }
    }

    const fn means(self, meaning: &'static str, effect: &'static str) -> Self {
        Self {
            meaning,
            effect,
            ..self
        }
    }

    /// The environment variable that sets the key.
    #[must_use]
    pub fn variable(&self) -> String {
        variable_of(self.name)
    }
}

/// All tables in the order of the reference, with their titles.
pub const SECTIONS: &[(&str, &[Key])] = &[
    ("Checkpointing", checkpointing::KEYS),
    ("State", state::KEYS),
    ("Object storage", state::S3_KEYS),
    ("Restarts and scheduling", execution::KEYS),
    ("Taskmanager", taskmanager::KEYS),
    ("Network between tasks", taskmanager::NETWORK_KEYS),
    ("Jobmanager", jobmanager::KEYS),
    ("Heartbeats, logs, security", jobmanager::COMMON_KEYS),
];

/// All keys.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|(_, keys)| keys.iter())
}

/// How a key was spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// By its name or one that is as good.
    Current,
    /// By an old name of Flink.
    Old,
    /// As `…-file`, which refers to a secret in a file.
    SecretFile,
}

const LONG: &str = "execution.checkpointing.";
const SHORT: &str = "checkpointing.";

/// The key of this name, old and long names included.
#[must_use]
pub fn find(name: &str) -> Option<(&'static Key, Spelling)> {
    let short = name.strip_prefix(LONG).map(|rest| format!("{SHORT}{rest}"));
    let short = short.as_deref().unwrap_or(name);
    let current = |key: &&Key| key.name == short || key.also.contains(&name);
    if let Some(key) = keys().find(current) {
        return Some((key, Spelling::Current));
    }
    if let Some(key) = keys().find(|key| key.old.contains(&name)) {
        return Some((key, Spelling::Old));
    }
    if let Some(key) = name.strip_suffix("-file").and_then(secret) {
        return Some((key, Spelling::SecretFile));
    }
    keys()
        .find(|key| family(key, short))
        .map(|key| (key, Spelling::Current))
}

fn secret(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name && key.kind == Kind::Secret)
}

/// Whether `key` is a family such as `security.ssl.*` that `name` belongs to.
fn family(key: &Key, name: &str) -> bool {
    let prefix = key.name.strip_suffix('*');
    prefix.is_some_and(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
}

/// Whether keys begin with `prefix` and a dot, as when a section is left empty in a file.
#[must_use]
pub fn is_section(prefix: &str) -> bool {
    let dotted = format!("{prefix}.");
    let is_part = |name: &str| name.starts_with(&dotted);
    LONG.starts_with(&dotted)
        || keys().any(|key| {
            is_part(key.name) || key.also.iter().chain(key.old).any(|name| is_part(name))
        })
}

/// A key of a section with a value, without the section: `interval: 10s`.
#[must_use]
pub fn example_in(section: &str) -> String {
    let is_long = LONG.strip_suffix('.') == Some(section);
    let dotted = if is_long {
        SHORT.to_owned()
    } else {
        format!("{section}.")
    };
    let rest = |key: &Key| {
        let names = [key.name].into_iter().chain(key.also.iter().copied());
        names
            .into_iter()
            .find_map(|name| name.strip_prefix(&dotted))
    };
    let built = keys().filter(|key| key.status == Status::Built);
    let mut found: Vec<_> = built.filter_map(|key| Some((rest(key)?, key))).collect();
    // What most people set, then what shows a value.
    found.sort_by_key(|(rest, key)| (*rest != "interval", key.default.is_none()));
    match found.first() {
        Some((rest, key)) => format!("{rest}: {}", key.default.unwrap_or("10s")),
        None => "key: value".to_owned(),
    }
}

/// The key that was probably meant by `name`: in the family of spellings that `name` is in.
#[must_use]
pub fn suggest_key(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix(LONG) {
        let meant = suggest(&format!("{SHORT}{rest}"), built_names())?;
        return Some(match meant.strip_prefix(SHORT) {
            Some(rest) => format!("{LONG}{rest}"),
            None => meant.to_owned(),
        });
    }
    suggest(name, built_names()).map(str::to_owned)
}

fn built_names() -> impl Iterator<Item = &'static str> {
    let built = keys().filter(|key| key.status == Status::Built);
    built.flat_map(|key| std::iter::once(key.name).chain(key.also.iter().copied()))
}

/// Prefix of all environment variables of the product.
pub const VARIABLE_PREFIX: &str = "MILLSTREAM_";

/// `checkpointing.min-pause` is set by `MILLSTREAM_CHECKPOINTING_MIN_PAUSE`.
#[must_use]
pub fn variable_of(name: &str) -> String {
    format!(
        "{VARIABLE_PREFIX}{}",
        name.replace(['.', '-'], "_").to_ascii_uppercase()
    )
}

/// The key that a variable sets, by any of its names.
pub(crate) fn find_variable(variable: &str) -> Option<(&'static Key, Spelling)> {
    let named = |name: &&str| variable_of(name) == variable;
    let long = |name: &str| {
        name.starts_with(SHORT) && variable_of(&format!("execution.{name}")) == variable
    };
    let current = |key: &&Key| {
        variable_of(key.name) == variable || long(key.name) || key.also.iter().any(named)
    };
    if let Some(key) = keys().find(current) {
        return Some((key, Spelling::Current));
    }
    if let Some(key) = keys().find(|key| key.old.iter().any(named)) {
        return Some((key, Spelling::Old));
    }
    let secret = variable.strip_suffix("_FILE")?;
    keys()
        .find(|key| key.kind == Kind::Secret && variable_of(key.name) == secret)
        .map(|key| (key, Spelling::SecretFile))
}

/// The variable that was probably meant.
pub(crate) fn suggest_variable(variable: &str) -> Option<String> {
    let variables: Vec<String> = built_names().map(variable_of).collect();
    suggest(variable, variables.iter().map(String::as_str)).map(str::to_owned)
}
