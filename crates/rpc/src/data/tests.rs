use millstream_graph::EdgeId;
use prost::Message as _;

use super::*;
use crate::pb;

fn identity(name: &str) -> ProcessIdentity {
    let taskmanager = TaskmanagerId::new(name).unwrap();
    ProcessIdentity {
        taskmanager,
        incarnation: Incarnation(5),
    }
}

fn messages() -> Vec<DataMessage> {
    let feedback = |opened| {
        DataMessage::Feedback(ReaderFeedback {
            number: 1,
            opened,
            finished: 7,
        })
    };
    let channel = ChannelId {
        edge: EdgeId(1),
        from: 2,
        to: 3,
    };
    vec![
        DataMessage::Hello(Hello {
            job: JobId::from_bytes([9; 16]),
            epoch: Epoch(4),
            from: identity("tm-1"),
            to: identity("tm-2"),
            token: ChannelToken(u128::MAX - 7),
        }),
        DataMessage::Welcome,
        DataMessage::Open(OpenChannel { number: 3, channel }),
        DataMessage::Close { number: u32::MAX },
        DataMessage::Frame(Bytes::from(vec![1; 1 << 20])),
        feedback(None),
        feedback(Some((None, 0))),
        feedback(Some((Some(CheckpointId(4)), 2))),
    ]
}

#[test]
fn every_message_comes_back_as_it_was_and_fits_the_limit() {
    for message in messages() {
        let bytes = convert::to_wire(message.clone()).encode_to_vec();
        assert!(bytes.len() <= DATA_MESSAGE_BYTES_MAX);
        let read = convert::from_wire(pb::DataMessage::decode(&bytes[..]).unwrap()).unwrap();
        assert_eq!(read, message);
    }
}

#[test]
fn a_token_of_another_length_is_refused_without_being_shown() {
    let hello = pb::Hello {
        job: Some(pb::JobEpoch {
            job_id: vec![9; 16].into(),
            epoch: 4,
        }),
        from: Some(pb::ProcessIdentity {
            taskmanager_id: "tm-1".into(),
            incarnation: 1,
        }),
        to: Some(pb::ProcessIdentity {
            taskmanager_id: "tm-2".into(),
            incarnation: 1,
        }),
        token: b"secret".to_vec().into(),
    };
    let message = Some(pb::data_message::Message::Hello(hello));
    let error = convert::from_wire(pb::DataMessage { message }).unwrap_err();
    assert_eq!(error.to_string(), "Hello.token has 6 bytes, not 16");
}

#[test]
fn a_broken_stream_is_told_in_words_and_not_as_the_compiler_prints_it() {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Wrapper(#[source] tonic::Status);

    let status = || {
        let broken = std::io::Error::other("stream closed because of a broken pipe");
        tonic::Status::from_error(Box::new(broken))
    };
    for told in [
        crate::status::in_words(&std::io::Error::other(status())),
        crate::status::in_words(&Wrapper(status())),
    ] {
        assert_eq!(told, "stream closed because of a broken pipe");
    }
}
