//! Reading a job file with the settings of the command line.

use std::path::Path;

use millstream_config::{Layer, Resolved, Target};
use millstream_env::Env;
use millstream_jobspec::JobFile;
use millstream_types::errors;

use crate::args::JobFileArgs;
use crate::error::CliError;

/// The largest job file; the reader's own limit is lower and says so with a position.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A job file that is to go to a cluster.
pub(crate) struct ClusterJob {
    /// Its text.
    pub(crate) text: String,
    /// Settings of the command line.
    pub(crate) overrides: Vec<(String, String)>,
}

/// Reads and checks the file. Relative paths in it are relative to the file.
pub(crate) fn read(env: &Env, args: &JobFileArgs) -> Result<JobFile, CliError> {
    let base = std::path::absolute(&args.job).unwrap_or_else(|_| args.job.clone());
    check(
        args,
        &text(env, args)?,
        Some(base.parent().unwrap_or(Path::new("/"))),
    )
}

/// Reads and checks the file. Relative paths in it are those of the taskmanagers.
pub(crate) fn read_for_cluster(env: &Env, args: &JobFileArgs) -> Result<ClusterJob, CliError> {
    let text = text(env, args)?;
    check(args, &text, None)?;
    let pair = |setting: &String| {
        let (key, value) = setting.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    Ok(ClusterJob {
        text,
        overrides: args.settings.iter().filter_map(pair).collect(),
    })
}

fn text(env: &Env, args: &JobFileArgs) -> Result<String, CliError> {
    let shown = args.job.display();
    let bytes = env
        .fs()
        .read(&args.job, FILE_BYTES_MAX)
        .map_err(|error| CliError::Usage {
            code: errors::JOB_FILE,
            what: format!("{shown} cannot be read: {}", error.source),
            remedy: String::new(),
        })?;
    String::from_utf8(bytes).map_err(|error| CliError::Usage {
        code: errors::JOB_TEXT,
        what: format!(
            "{shown} is not UTF-8 text: bad byte at offset {}",
            error.utf8_error().valid_up_to()
        ),
        remedy: String::new(),
    })
}

fn check(args: &JobFileArgs, text: &str, base: Option<&Path>) -> Result<JobFile, CliError> {
    let flags = Layer::flags(args.settings.iter().map(String::as_str), Target::Job);
    let flags = flags.map_err(CliError::Settings)?;
    let (shown, cluster) = (args.job.display().to_string(), Resolved::new([]));
    millstream_jobspec::parse_with_flags(&shown, text, base, &cluster, flags)
        .map_err(CliError::JobFile)
}
