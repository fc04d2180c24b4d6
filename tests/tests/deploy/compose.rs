//! What the compose file says, as Compose reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::process::root;

/// Variables of the shell or an `--env-file`.
pub type Variables = BTreeMap<String, String>;

/// One service.
#[derive(Clone, Debug)]
pub struct Service {
    pub name: String,
    /// Entry point and command.
    pub command: Vec<String>,
    pub environment: Variables,
    /// `name:/target`, or `/target` for a volume of each container alone.
    pub volumes: Vec<String>,
    pub tmpfs: Vec<String>,
    pub memory_bytes: Option<u64>,
    /// The command of the health check.
    pub health: Option<Vec<String>>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Whether a container that ends by itself is started again.
    pub restarts: bool,
    pub is_read_only: bool,
    /// The service as it is written, variables replaced.
    pub raw: Value,
}

/// The services that run with these variables and profiles.
pub fn services(variables: &Variables, profiles: &[&str]) -> Vec<Service> {
    let text = std::fs::read_to_string(root().join("deploy/docker-compose.yaml")).unwrap();
    let mut file: Value = serde_yaml::from_str(&text).unwrap();
    interpolate(&mut file, variables);
    let services = file["services"].as_object().unwrap().iter();
    services
        .filter(|(_, raw)| {
            let of = texts(&raw["profiles"]);
            of.is_empty() || of.iter().any(|one| profiles.contains(&one.as_str()))
        })
        .map(|(name, raw)| service(name, raw, variables))
        .collect()
}

/// The lines `NAME=VALUE` of a file for `--env-file`.
pub fn env_file(path: &str) -> Variables {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn service(name: &str, raw: &Value, variables: &Variables) -> Service {
    let mut command = texts(&raw["entrypoint"]);
    command.extend(texts(&raw["command"]));
    Service {
        name: name.to_owned(),
        command,
        environment: environment(&raw["environment"], variables),
        volumes: texts(&raw["volumes"]),
        tmpfs: texts(&raw["tmpfs"]),
        memory_bytes: raw["mem_limit"].as_str().map(bytes),
        health: match texts(&raw["healthcheck"]["test"]).as_slice() {
            [] => None,
            [first, rest @ ..] if first == "CMD" => Some(rest.to_vec()),
            other => panic!("a health check of another form: {other:?}"),
        },
        grace: Duration::from_secs(raw["stop_grace_period"].as_str().map_or(10, seconds)),
        restarts: raw["restart"] == "unless-stopped",
        is_read_only: raw["read_only"] == true,
        raw: raw.clone(),
    }
}

/// A variable without a value is handed on, and stays unset if it is nowhere.
fn environment(raw: &Value, variables: &Variables) -> Variables {
    let entries = raw.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, value)| match value {
            Value::Null => Some((name.clone(), variables.get(name)?.clone())),
            value => Some((name.clone(), scalar(value))),
        })
        .collect()
}

fn texts(raw: &Value) -> Vec<String> {
    raw.as_array().into_iter().flatten().map(scalar).collect()
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn bytes(text: &str) -> u64 {
    let (number, unit) = text.split_at(text.len() - 1);
    let factor = match unit {
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => panic!("{text} has another unit"),
    };
    number.parse::<u64>().unwrap() * factor
}

fn seconds(text: &str) -> u64 {
    text.strip_suffix('s').unwrap().parse().unwrap()
}

fn interpolate(value: &mut Value, variables: &Variables) {
    match value {
        Value::String(text) => *text = interpolated(text, variables),
        Value::Array(items) => items.iter_mut().for_each(|v| interpolate(v, variables)),
        Value::Object(entries) => entries.values_mut().for_each(|v| interpolate(v, variables)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces `${NAME:-default}`, the one form that the file uses.
fn interpolated(text: &str, variables: &Variables) -> String {
    let Some((before, rest)) = text.split_once("${") else {
        return text.to_owned();
    };
    let (inner, after) = rest.split_once('}').unwrap();
    let (name, default) = inner.split_once(":-").unwrap();
    let given = variables.get(name).filter(|value| !value.is_empty());
    let value = given.map_or(default, String::as_str);
    format!("{before}{value}{}", interpolated(after, variables))
}
