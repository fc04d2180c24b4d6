//! Lines of print sinks on their way to attached clients.

use std::sync::Arc;

use millstream_coordination::protocol::{FromTaskmanager, OutputLines};
use millstream_operator::RowOutput;
use millstream_types::{Epoch, JobId, SubtaskId};

use super::Uplink;

/// Sends the lines of one task up.
pub(super) struct UplinkRows {
    pub(super) uplink: Arc<dyn Uplink>,
    pub(super) job: JobId,
    pub(super) epoch: Epoch,
    pub(super) subtask: SubtaskId,
}

impl RowOutput for UplinkRows {
    fn lines(&self, lines: Vec<String>) {
        self.uplink.send(FromTaskmanager::Output(OutputLines {
            job: self.job,
            epoch: self.epoch,
            subtask: self.subtask,
            lines,
            dropped: 0,
        }));
    }
}
