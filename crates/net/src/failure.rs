//! Why tasks lose their channels.

use millstream_coordination::failure::{FailureInfo, FailureKind};
use millstream_coordination::protocol::DataAddress;
use millstream_exchange::frame::{EncodeError, FrameError, UnsupportedColumn};
use millstream_rpc::ConnectError;
use millstream_rpc::data::{DataRefusal, DataStreamError, ProcessIdentity, RefusalKind};
use millstream_telemetry::causes;
use millstream_types::{Disposition, SubtaskId, rounded};

/// Tasks of this process that lost their channels, all for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkFailed {
    /// The tasks; at least one.
    pub tasks: Vec<SubtaskId>,
    /// What they fail with.
    pub failure: FailureInfo,
}

/// What ends a connection.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// It was not made.
    Connect(ConnectError),
    /// It was made and not answered.
    Silent(std::time::Duration),
    /// It broke.
    Stream(DataStreamError),
    /// The other side ended it.
    Ended,
    /// A frame that is refused.
    Frame(FrameError),
    /// A message that makes no sense here.
    Protocol(String),
}

impl From<DataStreamError> for LinkError {
    fn from(error: DataStreamError) -> Self {
        Self::Stream(error)
    }
}

impl LinkError {
    /// The failure of the tasks that called another process.
    pub(crate) fn of_caller(&self, own: &End, peer: &End) -> FailureInfo {
        let message = match self {
            Self::Connect(_) => format!(
                "taskmanager {} cannot reach taskmanager {} at {}",
                own.name, peer.name, peer.address
            ),
            _ => broke(own, peer),
        };
        self.failure(message)
    }

    /// The failure of the tasks that another process called.
    pub(crate) fn of_callee(&self, peer: &End, own: &End) -> FailureInfo {
        self.failure(broke(peer, own))
    }

    fn failure(&self, message: String) -> FailureInfo {
        let mut failure = FailureInfo::new(FailureKind::Link, message);
        failure.causes = self.causes();
        failure.remedy = Some(self.remedy());
        failure
    }

    fn causes(&self) -> Vec<String> {
        match self {
            Self::Connect(error) => vec![error.to_string()],
            Self::Silent(waited) => vec![format!(
                "the call was not answered within {}",
                rounded(waited)
            )],
            Self::Stream(error) => causes(error),
            Self::Ended => vec!["the process at the other end ended the connection".to_owned()],
            Self::Frame(error) => causes(error),
            Self::Protocol(text) => vec![text.clone()],
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Connect(error) => format!(
                "check that the address it advertises (taskmanager.host, taskmanager.data.port-range) \
                 can be reached from here; {}",
                error.remedy()
            ),
            Self::Frame(error) => error.remedy().to_owned(),
            Self::Silent(_) | Self::Stream(_) | Self::Ended | Self::Protocol(_) => {
                "look at the log of the taskmanager at the other end; if it did not end, at the \
                 network between both"
                    .to_owned()
            }
        }
    }

    /// How the other side is told, where this side is the callee.
    pub(crate) fn as_refusal(&self) -> Option<DataRefusal> {
        let kind = match self {
            Self::Frame(_) | Self::Protocol(_) | Self::Stream(DataStreamError::Decode(_)) => {
                RefusalKind::Malformed
            }
            Self::Connect(_) | Self::Silent(_) | Self::Stream(_) | Self::Ended => return None,
        };
        Some(DataRefusal {
            kind,
            message: self.causes().join(": "),
        })
    }
}

fn broke(from: &End, to: &End) -> String {
    format!(
        "the data connection from taskmanager {} ({}) to taskmanager {} ({}) broke",
        from.name, from.address, to.name, to.address
    )
}

/// One end of a connection, for texts.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) name: String,
    pub(crate) address: String,
}

impl End {
    pub(crate) fn new(identity: &ProcessIdentity, address: impl ToString) -> Self {
        Self {
            name: identity.taskmanager.to_string(),
            address: address.to_string(),
        }
    }
}

/// The failure of a task whose element cannot be sent.
pub(crate) fn of_encode(
    error: &EncodeError,
    peer: &ProcessIdentity,
    to: &DataAddress,
) -> FailureInfo {
    let text = format!(
        "rows for taskmanager {} ({to}) cannot be sent",
        peer.taskmanager
    );
    let mut failure =
        FailureInfo::new(FailureKind::User, text).with_disposition(error.disposition());
    failure.causes = causes(error);
    failure.remedy =
        Some("make the records smaller, or raise the limit for one element".to_owned());
    failure
}

/// The failure of a task whose rows have a column that is not sent.
pub(crate) fn of_column(error: &UnsupportedColumn) -> FailureInfo {
    FailureInfo::new(FailureKind::Deployment, error.to_string())
        .with_disposition(Disposition::FailJob)
}
