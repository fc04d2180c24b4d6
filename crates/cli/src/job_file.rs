//! Reading a job file with the settings of the command line.

use std::path::Path;

use millstream_config::{Layer, Resolved, Target};
use millstream_env::Env;
use millstream_jobspec::JobFile;

use crate::args::JobFileArgs;
use crate::error::CliError;

/// The largest job file; the reader's own limit is lower and says so with a position.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads and checks the file. Relative paths in it are relative to the file.
pub(crate) fn read(env: &Env, args: &JobFileArgs) -> Result<JobFile, CliError> {
    let path = &args.job;
    let shown = path.display().to_string();
    let bytes = env
        .fs()
        .read(path, FILE_BYTES_MAX)
        .map_err(|error| CliError::Usage {
            what: format!(
                "{shown} cannot be read: {}",
                millstream_telemetry::chain(&error)
            ),
            remedy: "give the path of a job file, such as docs/examples/word-count.yaml".to_owned(),
        })?;
    let text = String::from_utf8(bytes).map_err(|error| CliError::Usage {
        what: format!(
            "{shown} is not UTF-8 text: bad byte at offset {}",
            error.utf8_error().valid_up_to()
        ),
        remedy: "save the job file as UTF-8".to_owned(),
    })?;
    let flags = Layer::flags(args.settings.iter().map(String::as_str), Target::Job);
    let flags = flags.map_err(|errors| CliError::Usage {
        what: errors.report(),
        remedy: "see docs/reference/configuration.md for the keys of a job".to_owned(),
    })?;
    let base = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let base = base.parent().unwrap_or(Path::new("/"));
    let cluster = Resolved::new([]);
    millstream_jobspec::parse_with_flags(&shown, &text, Some(base), &cluster, flags)
        .map_err(CliError::JobFile)
}
