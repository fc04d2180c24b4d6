//! The command line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::examiner::Subject;
use crate::row::{Columns, Format};
use crate::rule::{Expectation, Rows, ValueRule};

/// What a key costs in memory times this is some gigabytes.
const KEYS_MAX: u64 = 50_000_000;

/// Printed where the command line is not understood.
pub const USAGE: &str = "\
usage: oracle check DIR --keys K [options]
       oracle watch DIR --keys K (--until-done FILE | --seconds S | both) [--poll 200ms] [options]

Reads the committed files of DIR as a consumer would and judges rows (key, n, sum): for each key of
0 .. K-1, n = 1, 2, ... once each, sum = running sum. Prints a verdict as JSON.

  --rows-per-key N     each key ends with n = N
  --rows TOTAL         all keys together have TOTAL rows
  --value n|one        what row n adds to the sum: n (default) or one
  --format json|csv    form of all files (default: .csv files are CSV, all others JSON lines)
  --columns K,N,S      names of the columns (default: key,n,sum)
  --final              the job is done: all rows must be there
  --until-done FILE    watch until this file exists
  --seconds S          watch this long; with --until-done: at most this long

Exit code: 0 exact, 1 violated, 2 not understood.";

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Look once.
    Check {
        /// At what.
        subject: Subject,
        /// Whether all rows must be there.
        is_final: bool,
    },
    /// Look again and again while the job runs, then check.
    Watch {
        /// At what.
        subject: Subject,
        /// Whether all rows must be there in the end.
        is_final: bool,
        /// Time between two looks.
        poll: Duration,
        /// When to end.
        until: Until,
    },
}

/// When watching ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Until {
    /// Once this file exists; a time that passes before is a finding.
    Done(PathBuf, Option<Duration>),
    /// After this time.
    Elapsed(Duration),
}

/// A command line that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

fn refuse<T>(reason: impl Into<String>) -> Result<T, UsageError> {
    Err(UsageError(reason.into()))
}

/// Words behind the program's name to a command.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut args = args.into_iter();
    let command = args.next().unwrap_or_default();
    if !["check", "watch"].contains(&command.as_str()) {
        return refuse(format!(
            "command {command:?}, but there are check and watch"
        ));
    }
    let mut options = Options::read(args)?;
    let subject = subject(&mut options)?;
    let is_final = options.is_final;
    if is_final && subject.expectation.rows == Rows::Open {
        return refuse("--final needs --rows-per-key or --rows");
    }
    let command = match command.as_str() {
        "check" => Command::Check { subject, is_final },
        _ => Command::Watch {
            poll: options.take("--poll", duration)?.unwrap_or(POLL_DEFAULT),
            until: until(&mut options)?,
            subject,
            is_final,
        },
    };
    match options.values.pop_first() {
        Some((name, _)) => refuse(format!("option {name} is unknown here")),
        None => Ok(command),
    }
}

const POLL_DEFAULT: Duration = Duration::from_millis(200);

fn subject(options: &mut Options) -> Result<Subject, UsageError> {
    let Some(keys) = options.take("--keys", integer)? else {
        return refuse("--keys is missing");
    };
    if keys == 0 || keys > KEYS_MAX {
        return refuse(format!("--keys {keys}, but 1 to {KEYS_MAX} are possible"));
    }
    let per_key = options.take("--rows-per-key", integer)?;
    let rows = match (per_key, options.take("--rows", integer)?) {
        (Some(n), None) => Rows::PerKey(n),
        (None, Some(total)) => Rows::Total(total),
        (None, None) => Rows::Open,
        (Some(_), Some(_)) => return refuse("--rows-per-key and --rows exclude each other"),
    };
    let value = options.take("--value", |text| match text {
        "n" => Some(ValueRule::N),
        "one" => Some(ValueRule::One),
        _ => None,
    })?;
    let format = options.take("--format", |text| match text {
        "json" => Some(Format::Json),
        "csv" => Some(Format::Csv),
        _ => None,
    })?;
    let columns = options.take("--columns", columns)?.unwrap_or_default();
    Ok(Subject {
        dir: options.dir.clone(),
        format,
        columns,
        expectation: Expectation {
            keys,
            rows,
            value: value.unwrap_or(ValueRule::N),
        },
    })
}

fn until(options: &mut Options) -> Result<Until, UsageError> {
    let done = options.take("--until-done", |text| Some(PathBuf::from(text)))?;
    let seconds = options.take("--seconds", integer)?.map(Duration::from_secs);
    match (done, seconds) {
        (Some(file), seconds) => Ok(Until::Done(file, seconds)),
        (None, Some(seconds)) => Ok(Until::Elapsed(seconds)),
        (None, None) => refuse("watch needs --until-done or --seconds"),
    }
}

struct Options {
    dir: PathBuf,
    is_final: bool,
    values: BTreeMap<String, String>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, UsageError> {
        let (mut dir, mut is_final, mut values) = (None, false, BTreeMap::new());
        while let Some(arg) = args.next() {
            if arg == "--final" {
                is_final = true;
            } else if arg.starts_with("--") {
                let Some(value) = args.next() else {
                    return refuse(format!("option {arg} has no value"));
                };
                if values.insert(arg.clone(), value).is_some() {
                    return refuse(format!("option {arg} is there twice"));
                }
            } else if dir.replace(PathBuf::from(&arg)).is_some() {
                return refuse(format!("a second directory {arg:?}"));
            }
        }
        match dir {
            Some(dir) => Ok(Self {
                dir,
                is_final,
                values,
            }),
            None => refuse("no directory"),
        }
    }

    fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, UsageError> {
        let Some(text) = self.values.remove(name) else {
            return Ok(None);
        };
        match read(&text) {
            Some(value) => Ok(Some(value)),
            None => refuse(format!("option {name} cannot be {text:?}")),
        }
    }
}

fn integer(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// `200ms` or `2s`.
fn duration(text: &str) -> Option<Duration> {
    let duration = match text.strip_suffix("ms") {
        Some(number) => Duration::from_millis(integer(number)?),
        None => Duration::from_secs(integer(text.strip_suffix('s')?)?),
    };
    (!duration.is_zero()).then_some(duration)
}

fn columns(text: &str) -> Option<Columns> {
    let mut names = text.split(',').map(str::to_owned);
    let columns = Columns {
        key: names.next()?,
        n: names.next()?,
        sum: names.next()?,
    };
    names.next().is_none().then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split(' ').map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_command_line_is_understood() {
        let command = read(
            "watch out --keys 10 --rows 100 --value one --format csv --columns k,i,total --final \
             --poll 50ms --until-done done --seconds 60",
        );
        let Ok(Command::Watch {
            subject,
            is_final: true,
            poll,
            until,
        }) = command
        else {
            panic!("{command:?}");
        };
        assert_eq!(subject.expectation.rows, Rows::Total(100));
        assert_eq!(subject.expectation.value, ValueRule::One);
        assert_eq!(
            (subject.format, subject.columns.sum.as_str()),
            (Some(Format::Csv), "total")
        );
        assert_eq!(poll, Duration::from_millis(50));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(until, Until::Done("done".into(), minute));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, reason) in [
            ("", "command \"\", but there are check and watch"),
            ("check --keys 1", "no directory"),
            ("check out", "--keys is missing"),
            ("check out other --keys 1", "a second directory \"other\""),
            ("check out --keys", "option --keys has no value"),
            (
                "check out --keys 1 --keys 2",
                "option --keys is there twice",
            ),
            ("check out --keys x", "option --keys cannot be \"x\""),
            (
                "check out --keys 0",
                "--keys 0, but 1 to 50000000 are possible",
            ),
            (
                "check out --keys 1 --final",
                "--final needs --rows-per-key or --rows",
            ),
            (
                "check out --keys 1 --poll 1s",
                "option --poll is unknown here",
            ),
            (
                "watch out --keys 1 --seconds 1 --poll 1",
                "option --poll cannot be \"1\"",
            ),
            (
                "watch out --keys 1",
                "watch needs --until-done or --seconds",
            ),
            (
                "check out --keys 1 --rows 1 --rows-per-key 1",
                "--rows-per-key and --rows exclude each other",
            ),
        ] {
            assert_eq!(read(line), Err(reason.to_owned()), "{line}");
        }
    }
}
