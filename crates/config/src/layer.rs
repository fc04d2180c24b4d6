//! One source of settings: a file, a job, the environment, the flags.

use std::path::PathBuf;

use crate::error::{ConfigError, ConfigErrors, Warning};
use crate::origin::{Origin, Place};
use crate::registry::{
    Key, Scope, Spelling, Status, VARIABLE_PREFIX, example_in, find, find_variable, is_section,
    suggest_key, suggest_variable,
};
use crate::secret::SecretRef;
use crate::suggest::suggest;
use crate::value::{Kind, Value, ValueFault};
use crate::yaml::{self, Entry, Node};

/// Variables with the product's prefix that are no settings.
pub const OTHER_VARIABLES: &[&str] = &["MILLSTREAM_LOG", "MILLSTREAM_CONFIG"];

/// Who the settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A jobmanager or taskmanager; keys of jobs are defaults of its jobs.
    Daemon,
    /// A job; keys of daemons are refused.
    Job,
}

/// One checked setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    spelled: String,
}

/// Checked settings of one source; no key occurs twice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    pub(crate) settings: Vec<Setting>,
    pub(crate) warnings: Vec<Warning>,
}

impl Layer {
    /// A daemon's file. `name` is shown in messages and origins; an empty text is an empty layer.
    ///
    /// # Errors
    /// All faults found.
    pub fn file(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        let node = yaml::parse(text).map_err(|fault| ConfigError::Yaml {
            file: name.to_owned(),
            fault,
        })?;
        if node.is_null() {
            return Ok(Self::default());
        }
        let Some(entries) = node.as_mapping() else {
            let fault = ConfigError::NoMapping {
                file: name.to_owned(),
                found: node.kind(),
            };
            return Err(fault.into());
        };
        Self::entries(name, entries, Target::Daemon, &[])
    }

    /// The settings of a job file. The top-level keys in `own`, such as `name` and `pipeline`, are
    /// the job file's and no settings; they are left out, and known to suggestions.
    ///
    /// # Errors
    /// All faults found.
    pub fn job(file: &str, entries: &[Entry], own: &[&str]) -> Result<Self, ConfigErrors> {
        Self::entries(file, entries, Target::Job, own)
    }

    fn entries(
        file: &str,
        entries: &[Entry],
        target: Target,
        own: &[&str],
    ) -> Result<Self, ConfigErrors> {
        let keep_whole = |name: &str| find(name).is_some_and(|(key, _)| key.kind.takes_mapping());
        let flat = yaml::flatten(entries, &keep_whole).map_err(|fault| ConfigError::Yaml {
            file: file.to_owned(),
            fault,
        })?;
        let mut builder = Builder::new(target);
        builder.own = own.iter().map(|key| (*key).to_owned()).collect();
        builder.strategy = flat
            .iter()
            .filter(|entry| matches!(find(&entry.key), Some((key, _)) if key.name == STRATEGY))
            .find_map(|entry| entry.node.as_text().and_then(strategy));
        for entry in flat.iter().filter(|entry| !is_own(&entry.key, own)) {
            let is_empty = entry.node.is_null()
                || entry
                    .node
                    .as_mapping()
                    .is_some_and(|entries| entries.is_empty());
            if is_empty && find(&entry.key).is_none() && is_section(&entry.key) {
                continue; // A section whose keys are all commented out.
            }
            let place = Place {
                file: file.to_owned(),
                line: entry.at.line,
            };
            let origin = match target {
                Target::Daemon => Origin::File(place),
                Target::Job => Origin::Job(Some(place)),
            };
            builder.add(&entry.key, Raw::Node(entry.node), origin);
        }
        builder.finish()
    }

    /// The flags `-D key=value`, each given without the `-D`.
    ///
    /// # Errors
    /// All faults found.
    pub fn flags<'a>(
        flags: impl IntoIterator<Item = &'a str>,
        target: Target,
    ) -> Result<Self, ConfigErrors> {
        let mut builder = Builder::new(target);
        let mut pairs = Vec::new();
        for flag in flags {
            match flag.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() => {
                    pairs.push((name.trim(), value, Origin::Flag));
                }
                _ => builder.fault(ConfigError::MalformedFlag {
                    flag: flag.to_owned(),
                }),
            }
        }
        builder.add_pairs(&pairs);
        builder.finish()
    }

    /// Settings that travelled with a job graph: key, value as printed, word of the origin.
    ///
    /// # Errors
    /// All faults found.
    pub fn stored<'a>(
        settings: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Result<Self, ConfigErrors> {
        let mut builder = Builder::new(Target::Job);
        let pairs: Vec<_> = settings
            .into_iter()
            .map(|(name, value, origin)| {
                (
                    name,
                    value,
                    if origin == "flag" {
                        Origin::Flag
                    } else {
                        Origin::Job(None)
                    },
                )
            })
            .collect();
        builder.add_pairs(&pairs);
        builder.finish()
    }

    /// The variables `MILLSTREAM_…` of the environment. [`OTHER_VARIABLES`] and those in `allowed`
    /// are no settings; any other one that sets nothing is refused.
    ///
    /// # Errors
    /// All faults found.
    pub fn environment(
        variables: impl IntoIterator<Item = (String, String)>,
        allowed: &[&str],
    ) -> Result<Self, ConfigErrors> {
        let mut builder = Builder::new(Target::Daemon);
        for (variable, value) in variables {
            let name = variable.as_str();
            let ours = name.starts_with(VARIABLE_PREFIX);
            if !ours || OTHER_VARIABLES.contains(&name) || allowed.contains(&name) {
                continue;
            }
            let origin = Origin::Variable(variable.clone());
            match find_variable(name) {
                Some((key, Spelling::Current)) if key.kind == Kind::Secret => {
                    // The variable itself is the reference; its value is looked up when needed.
                    let reference = SecretRef::Env(variable.clone());
                    builder.set(key, name, Value::Secret(reference), origin);
                }
                Some(found) => builder.add_found(found, name, Raw::Text(&value), origin),
                None => builder.fault(ConfigError::UnknownVariable {
                    suggestion: suggest_variable(name),
                    variable,
                }),
            }
        }
        builder.finish()
    }
}

/// Whether a flattened key is one of the job file's own. Dotted settings such as
/// `pipeline.max-parallelism` are not, although `pipeline` is.
fn is_own(key: &str, own: &[&str]) -> bool {
    own.contains(&key)
}

const STRATEGY: &str = "restart-strategy.type";

/// The strategy that a text names.
fn strategy(text: &str) -> Option<&'static str> {
    match find(STRATEGY)?.0.kind.read_text(text) {
        Ok(Value::Choice(name)) => Some(name),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Raw<'a> {
    Node(&'a Node),
    Text(&'a str),
}

impl Raw<'_> {
    fn read(&self, kind: &Kind) -> Result<Value, ValueFault> {
        match self {
            Self::Node(node) => kind.read_node(node),
            Self::Text(text) => kind.read_text(text),
        }
    }

    /// What stands there, for a message that does not repeat it: it may be a secret.
    fn kind(&self) -> &'static str {
        match self {
            Self::Node(node) => node.kind(),
            Self::Text(_) => "a single value",
        }
    }

    /// A path, which takes any text.
    fn path(&self) -> Result<PathBuf, ValueFault> {
        match self.read(&Kind::Text)? {
            Value::Text(path) => Ok(PathBuf::from(path)),
            _ => Err(ValueFault::Shape {
                found: "no path",
                wanted: "a path",
            }),
        }
    }
}

struct Builder {
    target: Target,
    /// The restart strategy of this source: short forms such as `restart-strategy.delay` are its.
    strategy: Option<&'static str>,
    /// Keys of the job file that are no settings, for suggestions.
    own: Vec<String>,
    layer: Layer,
    faults: Vec<ConfigError>,
}

impl Builder {
    fn new(target: Target) -> Self {
        Self {
            target,
            strategy: None,
            own: Vec::new(),
            layer: Layer::default(),
            faults: Vec::new(),
        }
    }

    fn finish(self) -> Result<Layer, ConfigErrors> {
        ConfigErrors::check(self.faults)?;
        Ok(self.layer)
    }

    fn fault(&mut self, fault: ConfigError) {
        if self.faults.len() < ConfigErrors::LIMIT {
            self.faults.push(fault);
        }
    }

    fn add_pairs(&mut self, pairs: &[(&str, &str, Origin)]) {
        let named = |name: &str| matches!(find(name), Some((key, _)) if key.name == STRATEGY);
        self.strategy = pairs
            .iter()
            .find(|(name, ..)| named(name))
            .and_then(|(_, text, _)| strategy(text));
        for (name, value, origin) in pairs {
            self.add(name, Raw::Text(value), origin.clone());
        }
    }

    fn add(&mut self, name: &str, raw: Raw<'_>, origin: Origin) {
        if self.faults.len() >= ConfigErrors::LIMIT {
            return; // Suggestions cost time; a hostile file must not.
        }
        let of_strategy = || {
            let rest = name.strip_prefix("restart-strategy.")?;
            find(&format!("restart-strategy.{}.{rest}", self.strategy?))
        };
        match find(name).or_else(of_strategy) {
            Some(found) => self.add_found(found, name, raw, origin),
            None if is_section(name) => self.fault(ConfigError::NotMapping {
                origin,
                key: name.to_owned(),
                found: raw.kind(),
                example: example_in(name),
            }),
            None => self.fault(ConfigError::UnknownKey {
                origin,
                key: name.to_owned(),
                suggestion: suggest(name, self.own.iter().map(String::as_str))
                    .map(str::to_owned)
                    .or_else(|| suggest_key(name)),
            }),
        }
    }

    fn add_found(
        &mut self,
        (key, spelling): (&'static Key, Spelling),
        name: &str,
        raw: Raw<'_>,
        origin: Origin,
    ) {
        let spelled = name.to_owned();
        match key.status {
            Status::NotBuilt(what) => {
                return self.fault(ConfigError::NotBuilt {
                    origin,
                    key: spelled,
                    what,
                });
            }
            Status::NoEffect(why) => {
                return self.layer.warnings.push(Warning::NoEffect {
                    origin,
                    spelled,
                    why,
                });
            }
            Status::Built => {}
        }
        if key.scope == Scope::Cluster && self.target == Target::Job {
            return self.fault(ConfigError::NotInJobs {
                origin,
                key: spelled,
            });
        }
        let value = match spelling {
            Spelling::SecretFile => raw.path().map(|path| Value::Secret(SecretRef::File(path))),
            Spelling::Current | Spelling::Old => raw.read(&key.kind),
        };
        match value.and_then(|value| only_built(key, value)) {
            Ok(value) => {
                if spelling == Spelling::Old {
                    let (origin, spelled) = (origin.clone(), spelled.clone());
                    self.layer.warnings.push(Warning::OldName {
                        origin,
                        spelled,
                        name: key.name,
                    });
                }
                self.set(key, name, value, origin);
            }
            Err(fault) => self.fault(ConfigError::Value {
                origin,
                key: spelled,
                fault,
            }),
        }
    }

    fn set(&mut self, key: &'static Key, name: &str, value: Value, origin: Origin) {
        let before = self
            .layer
            .settings
            .iter()
            .find(|setting| setting.key.name == key.name);
        if let Some(before) = before {
            let first = format!("{} ({})", before.spelled, before.origin);
            let second = format!("{name} ({origin})");
            return self.fault(ConfigError::Twice {
                key: key.name,
                first,
                second,
            });
        }
        self.layer.settings.push(Setting {
            key,
            value,
            origin,
            spelled: name.to_owned(),
        });
    }
}

/// Refuses the values of a key that are not built.
fn only_built(key: &Key, value: Value) -> Result<Value, ValueFault> {
    match key.only {
        Some(only) if value.to_string() != only.value => Err(ValueFault::NotBuilt {
            found: value.to_string(),
            what: only.what,
        }),
        _ => Ok(value),
    }
}
