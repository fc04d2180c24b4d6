//! The end of the process, and nothing softer: for invariants that broke and hosts that hang.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Signal;

/// What a report is cut at: enough for a cause chain and a stack, too little to fill a disk.
const REPORT_BYTES_MAX: usize = 8 * 1024;
/// How long an orderly exit may take before the process is aborted: a library's exit handler may
/// hang on a thread of its own.
const EXIT_HANDLERS_TIMEOUT: Duration = Duration::from_secs(1);

/// Ends the process; in tests, writes down that it would have.
#[derive(Clone, Debug)]
pub struct Exit {
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Process,
    Log(ExitLog),
}

/// One recorded end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExitRecord {
    /// [`Exit::fail_stop`] with this report.
    FailStop(String),
    /// [`Exit::now`] with this code.
    Now(i32),
    /// Killed at this fail point.
    Killed(String),
    /// Stopped at this fail point.
    Stopped(String),
}

/// What a recording [`Exit`] was asked for.
#[derive(Clone, Default, Debug)]
pub struct ExitLog {
    records: Arc<Mutex<Vec<ExitRecord>>>,
}

impl ExitLog {
    /// All ends so far, in order.
    pub fn records(&self) -> Vec<ExitRecord> {
        self.records.lock().clone()
    }
}

impl Exit {
    /// Really ends this process.
    pub fn process() -> Self {
        Self {
            target: Target::Process,
        }
    }

    /// Records instead, for tests and for the simulator, which then crashes the host.
    pub fn recording() -> (Self, ExitLog) {
        let log = ExitLog::default();
        (
            Self {
                target: Target::Log(log.clone()),
            },
            log,
        )
    }

    /// Aborts the process after a bounded report to standard error: it can no longer vouch for what
    /// it does. No destructor runs, so nothing half-done is "finished". `report` must hold no secret.
    ///
    /// In production this does not return. Under a recording `Exit` it does, and the caller stops.
    pub fn fail_stop(&self, report: &str) {
        let report = bounded(report);
        match &self.target {
            Target::Log(log) => log.records.lock().push(ExitRecord::FailStop(report)),
            Target::Process => {
                write_report(&report);
                abort();
            }
        }
    }

    /// Ends the process at once with this exit code, without waiting for any task.
    ///
    /// In production this does not return. Under a recording `Exit` it does, and the caller stops.
    pub fn now(&self, code: i32) {
        match &self.target {
            Target::Log(log) => log.records.lock().push(ExitRecord::Now(code)),
            Target::Process => exit(code),
        }
    }

    /// As `kill -9` from outside at the fail point `name`: nothing is flushed, nothing is told.
    pub(crate) fn kill(&self, name: &str) {
        self.signal(name, ExitRecord::Killed(name.to_owned()), Signal::KILL);
    }

    /// As `kill -STOP` from outside at the fail point `name`: everything stands still until SIGCONT.
    pub(crate) fn stop(&self, name: &str) {
        self.signal(name, ExitRecord::Stopped(name.to_owned()), Signal::STOP);
    }

    fn signal(&self, name: &str, record: ExitRecord, signal: Signal) {
        match &self.target {
            Target::Log(log) => log.records.lock().push(record),
            Target::Process => {
                write_report(&format!("fail point {name} reached: {signal:?}"));
                // A process may always signal itself.
                let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
            }
        }
    }
}

/// `report` on one line of printable text, cut at [`REPORT_BYTES_MAX`].
fn bounded(report: &str) -> String {
    let mut line = String::new();
    for c in report.chars() {
        let shown = if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        };
        if line.len() + shown.len() > REPORT_BYTES_MAX {
            line.push_str(" [cut]");
            break;
        }
        line.push_str(&shown);
    }
    line
}

fn write_report(report: &str) {
    // Standard error may be gone; the process ends all the same.
    let _ = std::io::stderr().write_all(format!("FATAL {report}\n").as_bytes());
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that ends the process"
)]
fn abort() -> ! {
    std::process::abort()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that ends the process"
)]
fn exit(code: i32) -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(EXIT_HANDLERS_TIMEOUT);
        std::process::abort()
    });
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_exit_writes_down_what_would_have_happened() {
        let (exit, log) = Exit::recording();
        exit.fail_stop("slot 3 still runs\nepoch 7");
        exit.clone().now(130);
        assert_eq!(
            log.records(),
            [
                ExitRecord::FailStop("slot 3 still runs\\nepoch 7".into()),
                ExitRecord::Now(130)
            ]
        );
    }

    #[test]
    fn a_report_is_bounded_and_says_that_it_was_cut() {
        let (exit, log) = Exit::recording();
        exit.fail_stop(&"é".repeat(1_000_000));
        let [ExitRecord::FailStop(report)] = &log.records()[..] else {
            panic!("one record expected")
        };
        assert!(report.len() <= REPORT_BYTES_MAX + 8 && report.ends_with("[cut]"));
    }
}
