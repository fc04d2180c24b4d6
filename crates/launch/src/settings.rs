//! From command line, environment and file to a table of settings.

use std::path::{Path, PathBuf};

use clap::Args;
use millstream_config::{ConfigErrors, Layer, Resolved, Target};
use millstream_env::Env;
use millstream_types::errors::{self, ErrorCode};

/// A configuration file larger than this is none.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Arms fail points, in builds that have them.
pub const FAIL_POINTS_VARIABLE: &str = "MILLSTREAM_FAIL_POINTS";

/// What every daemon takes. Settings come from flags, the environment (MILLSTREAM_…), the file and
/// the defaults; the first that has a key wins.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The configuration file (YAML).
    #[arg(long, value_name = "FILE", env = "MILLSTREAM_CONFIG")]
    pub config: Option<PathBuf>,
    /// One setting, such as `-D rest.port=8082`; may be given again.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Prints the effective configuration, each value with its origin, and ends.
    #[arg(long)]
    pub print_config: bool,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The file is not there, or cannot be read.
    #[error("configuration file {path} cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not UTF-8.
    #[error("configuration file {path} is no text")]
    NoText {
        /// The file.
        path: PathBuf,
    },
    /// Its settings are refused.
    #[error("{}", .0.report())]
    Config(ConfigErrors),
}

impl LaunchError {
    /// What a user reads.
    pub fn render(&self) -> String {
        let one = |code: ErrorCode| code.render(&millstream_telemetry::chain(self), "");
        match self {
            Self::File { .. } => one(errors::CONF_FILE),
            Self::NoText { .. } => one(errors::CONF_TEXT),
            Self::Config(errors) => errors.render(),
        }
    }
}

impl From<ConfigErrors> for LaunchError {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

/// The settings of this process.
pub fn table(env: &Env, arguments: &Arguments) -> Result<Resolved, LaunchError> {
    let file = match &arguments.config {
        None => Layer::default(),
        Some(path) => Layer::file(&path.display().to_string(), &text(env, path)?)?,
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = Layer::environment(variables, &[FAIL_POINTS_VARIABLE])?;
    let settings = arguments.settings.iter().map(String::as_str);
    let flags = Layer::flags(settings, Target::Daemon)?;
    Ok(Resolved::new([file, environment, flags]))
}

fn text(env: &Env, path: &Path) -> Result<String, LaunchError> {
    let bytes = env
        .fs()
        .read(path, FILE_BYTES_MAX)
        .map_err(|error| LaunchError::File {
            path: path.to_owned(),
            source: error.source,
        })?;
    String::from_utf8(bytes).map_err(|_| LaunchError::NoText {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(config: Option<&str>, settings: &[&str]) -> Arguments {
        Arguments {
            config: config.map(PathBuf::from),
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            print_config: false,
        }
    }

    #[tokio::test]
    async fn a_flag_wins_over_the_file_and_both_over_the_default() {
        let test = Env::for_test(1);
        let path = Path::new("/jm.yaml");
        test.env
            .fs()
            .write_new(path, b"rest.port: 9001\njobmanager.rpc.port: 7001\n")
            .unwrap();
        let table = table(&test.env, &arguments(Some("/jm.yaml"), &["rest.port=9002"])).unwrap();
        let printed = table.print_config();
        for part in ["rest.port: 9002", "jobmanager.rpc.port: 7001"] {
            assert!(printed.contains(part), "{part} is missing in {printed}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_missing_or_no_text_is_named() {
        let test = Env::for_test(1);
        let missing = table(&test.env, &arguments(Some("/none.yaml"), &[])).unwrap_err();
        assert!(missing.to_string().contains("/none.yaml"), "{missing}");
        test.env
            .fs()
            .write_new(Path::new("/bad.yaml"), &[0xff, 0xfe])
            .unwrap();
        let bad = table(&test.env, &arguments(Some("/bad.yaml"), &[])).unwrap_err();
        assert!(bad.to_string().contains("/bad.yaml is no text"), "{bad}");
    }
}
