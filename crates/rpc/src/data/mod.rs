//! The streams between job processes (`data.proto`): who calls, which channels, and their frames.
//! What is in a frame is the business of `exchange`; what is done with it, of `net`.

mod convert;
mod stream;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use millstream_coordination::protocol::ChannelToken;
use millstream_graph::ChannelId;
use millstream_types::{CheckpointId, Epoch, Incarnation, JobId, TaskmanagerId};

pub(crate) use stream::data_service;
pub use stream::{
    DATA_MESSAGE_BYTES_MAX, DataGateway, DataReceiver, DataRefusal, DataReply, DataStreamError,
    RefusalKind, connect_data, exchange_data,
};

/// What goes over a data stream, either way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataMessage {
    /// Who calls whom; first, from the caller.
    Hello(Hello),
    /// The call is taken; first, from the callee.
    Welcome,
    /// A channel begins; from its sender.
    Open(OpenChannel),
    /// A channel is used no more.
    Close {
        /// Its number.
        number: u32,
    },
    /// Elements from the sender, grants from the receiver.
    Frame(Bytes),
    /// What a source reader tells its enumerator; from the receiver.
    Feedback(ReaderFeedback),
}

/// Who calls whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The job.
    pub job: JobId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The caller.
    pub from: ProcessIdentity,
    /// Whom it means to call.
    pub to: ProcessIdentity,
    /// Known to the tasks of this epoch only.
    pub token: ChannelToken,
}

/// A job process, by its taskmanager.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProcessIdentity {
    /// The taskmanager.
    pub taskmanager: TaskmanagerId,
    /// Which life of it.
    pub incarnation: Incarnation,
}

/// A channel begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenChannel {
    /// Its number in the frames of this stream.
    pub number: u32,
    /// Which channel.
    pub channel: ChannelId,
}

/// What a source reader tells its enumerator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderFeedback {
    /// The channel's number.
    pub number: u32,
    /// It opened, restored from this checkpoint or none, with this many unfinished splits.
    pub opened: Option<(Option<CheckpointId>, u64)>,
    /// Splits finished since then.
    pub finished: u64,
}
