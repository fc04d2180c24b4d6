//! Errors of storage as failures of a job.

use std::error::Error;

use millstream_coordination::chain::Refusal;
use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::job::{ClaimRefusal, Event};
use millstream_snapshot::chain::ChainFailure;
use millstream_types::Disposition;

use super::io::ClaimFailure;

/// What the machine of the job is told of a claim that did not succeed in this directory.
pub(super) fn claim_event(failure: &ClaimFailure, directory: &str) -> Event {
    match failure {
        ClaimFailure::Plan(_) => Event::ClaimRefused(ClaimRefusal::Unusable(info(
            failure,
            FailureKind::Restore,
            Some(removal(directory)),
        ))),
        ClaimFailure::Chain(chain) => chain_event(chain, directory),
    }
}

/// How a job goes that cannot be cancelled, since its storage takes no end.
pub(crate) fn removal(directory: &str) -> String {
    format!(
        "To be rid of the job instead, stop the jobmanager, delete {directory}, and start the \
         jobmanager again."
    )
}

fn chain_event(failure: &ChainFailure, directory: &str) -> Event {
    let unusable = |kind| {
        let remedy = format!("{} {}", failure.remedy(), removal(directory));
        let mut info = info(failure, kind, Some(remedy));
        info.message = format!("[{}] {}", failure.code(), info.message);
        Event::ClaimRefused(ClaimRefusal::Unusable(info))
    };
    match failure {
        ChainFailure::Fenced { .. } => Event::OwnershipLost,
        ChainFailure::Refused {
            refusal: Refusal::Terminal { state, .. },
            ..
        } => Event::ClaimRefused(ClaimRefusal::Ended(*state)),
        ChainFailure::Refused { .. } => unusable(FailureKind::Restore),
        ChainFailure::Rejected { .. } => unusable(FailureKind::Internal),
        // A store that is not reached is no verdict on what is in it.
        ChainFailure::RestorePoint { .. } | ChainFailure::JobObject { .. }
            if failure.disposition() == Disposition::Retry =>
        {
            Event::ClaimNotWritten
        }
        ChainFailure::RestorePoint { .. } | ChainFailure::JobObject { .. } => {
            unusable(FailureKind::Restore)
        }
        ChainFailure::GivenUp { .. } | ChainFailure::Closed { .. } => Event::ClaimNotWritten,
    }
}

/// An error with its causes.
pub(super) fn info(error: &dyn Error, kind: FailureKind, remedy: Option<String>) -> FailureInfo {
    let mut texts = millstream_telemetry::causes(error).into_iter();
    let mut info = FailureInfo::new(kind, texts.next().unwrap_or_default());
    info.causes = texts.collect();
    info.remedy = remedy.filter(|remedy| !remedy.is_empty());
    info
}
