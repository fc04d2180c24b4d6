//! From errors of operators, state and storage to the failures that a task reports.

use std::error::Error;

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_operator::{ErrorKind, OperatorError};
use millstream_snapshot::download::DownloadError;
use millstream_state::StateError;

/// Longest text of a failure: a larger one would not fit a message to the jobmanager.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The failure that an operator's error is.
pub(crate) fn of_operator(operator: &str, error: &OperatorError) -> FailureInfo {
    let kind = match error.kind() {
        ErrorKind::BadRecord | ErrorKind::UserCode => FailureKind::User,
        ErrorKind::State | ErrorKind::Internal => FailureKind::Internal,
        ErrorKind::SnapshotRefused => FailureKind::SynchronousSnapshot,
        ErrorKind::External => FailureKind::Connector,
        ErrorKind::DataLoss => FailureKind::DataLoss,
    };
    let mut failure = of_error(kind, error).with_disposition(error.disposition());
    failure.operator = Some(operator.to_owned());
    failure.remedy = error.remedy().map(str::to_owned);
    failure
}

/// State that could not be fetched. The restart strategy decides also where it is damaged: the job
/// goes on by itself once somebody has put the object back, and from nothing else.
pub(crate) fn of_download(error: &DownloadError) -> FailureInfo {
    let mut failure = of_error(FailureKind::Restore, error);
    failure.remedy = Some(error.remedy());
    failure
}

/// A backend's error.
pub(crate) fn of_state(kind: FailureKind, error: &StateError) -> FailureInfo {
    let mut failure = of_error(kind, error);
    failure.remedy = Some(error.remedy().to_owned());
    failure
}

/// A failure with the error's text and causes.
pub(crate) fn of_error(kind: FailureKind, error: &(dyn Error + 'static)) -> FailureInfo {
    let mut texts = millstream_telemetry::causes(error).into_iter();
    let message = texts.next().unwrap_or_default();
    let mut failure = FailureInfo::new(kind, clipped(&message));
    failure.causes = texts.map(|cause| clipped(&cause)).take(16).collect();
    failure
}

/// The text, cut where it would be too long to be sent.
pub(crate) fn clipped(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("{}… ({} bytes in all)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use millstream_snapshot::{Mismatch, StoreError};

    use super::*;

    // HND-073, fourth part.
    #[test]
    fn a_huge_error_text_is_cut_and_says_so() {
        let error = OperatorError::new(ErrorKind::UserCode, "ü".repeat(6_000_000));
        let failure = of_operator("map", &error);
        assert!(failure.message.len() < 20_000);
        assert!(failure.message.ends_with("(12000000 bytes in all)"));
        assert_eq!(failure.kind, FailureKind::User);
    }

    #[test]
    fn damaged_state_is_named_with_a_remedy_and_does_not_end_the_job_for_good() {
        let corrupt = StoreError::Corrupt {
            object: "file:///c/chk-7/state".to_owned(),
            mismatch: Mismatch::Length {
                expected: 2,
                found: 1,
            },
        };
        let failure = of_download(&corrupt.into());
        assert!(!failure.is_non_recoverable());
        let cause = "file:///c/chk-7/state is corrupt: it has 1 bytes where 2 were stored";
        assert!(failure.causes.iter().any(|c| c == cause), "{failure:?}");
        assert!(failure.remedy.unwrap().contains("another checkpoint"));
    }

    #[test]
    fn causes_follow_the_error_outermost_first() {
        let error = OperatorError::new(ErrorKind::External, "file a.txt cannot be read")
            .with_source(std::io::Error::other("disk on fire"));
        let failure = of_operator("lines", &error);
        assert_eq!(failure.message, "file a.txt cannot be read");
        assert_eq!(failure.causes, ["disk on fire"]);
    }
}
