//! Data messages on the wire.

use millstream_types::Incarnation;

use super::{DataMessage, Hello, OpenChannel, ProcessIdentity, ReaderFeedback};
use crate::control::common::{
    checkpoint_from_wire, job_from_wire, job_to_wire, taskmanager_from_wire,
};
use crate::control::to_taskmanager::{
    channel_from_wire, channel_to_wire, token_from_wire, token_to_wire,
};
use crate::error::{DecodeError, missing};
use crate::pb::{self, data_message::Message};

pub(super) fn to_wire(message: DataMessage) -> pb::DataMessage {
    let message = match message {
        DataMessage::Hello(hello) => Message::Hello(hello_to_wire(&hello)),
        DataMessage::Welcome => Message::Welcome(pb::Welcome {}),
        DataMessage::Open(open) => Message::Open(pb::OpenChannel {
            number: open.number,
            channel: Some(channel_to_wire(open.channel)),
        }),
        DataMessage::Close { number } => Message::Close(pb::CloseChannel { number }),
        DataMessage::Frame(bytes) => Message::Frame(bytes),
        DataMessage::Feedback(feedback) => {
            let opened = feedback
                .opened
                .map(|(checkpoint, unfinished)| pb::ReaderOpened {
                    checkpoint_id: checkpoint.map(|id| id.0),
                    unfinished,
                });
            let (number, finished) = (feedback.number, feedback.finished);
            Message::Feedback(pb::ReaderFeedback {
                number,
                opened,
                finished,
            })
        }
    };
    pb::DataMessage {
        message: Some(message),
    }
}

pub(super) fn from_wire(message: pb::DataMessage) -> Result<DataMessage, DecodeError> {
    Ok(
        match message.message.ok_or(missing("DataMessage", "message"))? {
            Message::Hello(hello) => DataMessage::Hello(hello_from_wire(hello)?),
            Message::Welcome(_) => DataMessage::Welcome,
            Message::Open(open) => DataMessage::Open(OpenChannel {
                number: open.number,
                channel: channel_from_wire("OpenChannel", open.channel)?,
            }),
            Message::Close(close) => DataMessage::Close {
                number: close.number,
            },
            Message::Frame(bytes) => DataMessage::Frame(bytes),
            Message::Feedback(feedback) => DataMessage::Feedback(feedback_from_wire(feedback)?),
        },
    )
}

fn hello_to_wire(hello: &Hello) -> pb::Hello {
    let identity = |identity: &ProcessIdentity| pb::ProcessIdentity {
        taskmanager_id: identity.taskmanager.to_string(),
        incarnation: identity.incarnation.0,
    };
    pb::Hello {
        job: job_to_wire(hello.job, hello.epoch),
        from: Some(identity(&hello.from)),
        to: Some(identity(&hello.to)),
        token: token_to_wire(hello.token),
    }
}

fn hello_from_wire(message: pb::Hello) -> Result<Hello, DecodeError> {
    let (job, epoch) = job_from_wire("Hello", message.job)?;
    let identity = |field, found: Option<pb::ProcessIdentity>| {
        let pb::ProcessIdentity {
            taskmanager_id,
            incarnation,
        } = found.ok_or(missing("Hello", field))?;
        let taskmanager =
            taskmanager_from_wire("ProcessIdentity", "taskmanager_id", &taskmanager_id)?;
        Ok(ProcessIdentity {
            taskmanager,
            incarnation: Incarnation(incarnation),
        })
    };
    Ok(Hello {
        job,
        epoch,
        from: identity("from", message.from)?,
        to: identity("to", message.to)?,
        token: token_from_wire("Hello", &message.token)?,
    })
}

fn feedback_from_wire(message: pb::ReaderFeedback) -> Result<ReaderFeedback, DecodeError> {
    let opened = message.opened.map(|opened| {
        let id = |id| checkpoint_from_wire("ReaderOpened", "checkpoint_id", id);
        Ok((opened.checkpoint_id.map(id).transpose()?, opened.unfinished))
    });
    Ok(ReaderFeedback {
        number: message.number,
        opened: opened.transpose()?,
        finished: message.finished,
    })
}
