//! How a process ended, in words.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use nix::sys::signal::Signal;

/// The failure that the end of a job process is.
pub(super) fn failure(pid: u32, status: ExitStatus) -> FailureInfo {
    let how = match (status.signal(), status.code()) {
        (Some(number), _) => match Signal::try_from(number) {
            Ok(signal) => format!("was killed by signal {number} ({signal})"),
            Err(_) => format!("was killed by signal {number}"),
        },
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".to_owned(),
    };
    let mut failure = FailureInfo::new(
        FailureKind::JobProcess,
        format!("job process (pid {pid}) {how}"),
    );
    failure.remedy = Some(match status.signal() {
        Some(9) => {
            "look in the kernel's log for its out-of-memory killer, and for who else killed it"
                .to_owned()
        }
        _ => format!("look at the taskmanager's log for lines of process {pid}"),
    });
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_and_codes_given() {
        let text = |raw| failure(7, ExitStatus::from_raw(raw)).message;
        assert_eq!(
            text(9),
            "job process (pid 7) was killed by signal 9 (SIGKILL)"
        );
        assert_eq!(
            text(11),
            "job process (pid 7) was killed by signal 11 (SIGSEGV)"
        );
        assert_eq!(text(101 << 8), "job process (pid 7) exited with code 101");
        let remedy = failure(7, ExitStatus::from_raw(9)).remedy.unwrap();
        assert!(remedy.contains("out-of-memory"));
    }
}
