//! Control messages over a stream of bytes: the socket between a taskmanager and a job process.
//!
//! Each message is its length (u32, big endian) and then its protobuf bytes.

use std::io;
use std::marker::PhantomData;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::bounded::ControlMessage;
use crate::error::{DecodeError, EncodeError};

/// A message that did not go over.
#[derive(Debug, thiserror::Error)]
pub enum FrameIoError {
    /// The stream is broken, or ended within a message.
    #[error("the socket between taskmanager and job process is broken")]
    Io(#[from] io::Error),
    /// Above the bound, or no such message: the other side is not what it should be.
    #[error("a message between taskmanager and job process is refused")]
    Decode(#[from] DecodeError),
    /// It was not written. The stream can still be used.
    #[error("a message between taskmanager and job process cannot be sent")]
    Encode(#[from] EncodeError),
}

/// Reads messages of one kind.
#[derive(Debug)]
pub struct MessageReader<R, M> {
    stream: R,
    limit: usize,
    kind: PhantomData<fn() -> M>,
}

impl<R: AsyncRead + Unpin, M: ControlMessage> MessageReader<R, M> {
    /// Reads from `stream` messages of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            limit,
            kind: PhantomData,
        }
    }

    /// The next message; none at the end of the stream. Not to be dropped while it waits: what it
    /// has read of a message would be lost.
    pub async fn next(&mut self) -> Result<Option<M>, FrameIoError> {
        let mut length = [0; 4];
        // An end is one only before the first byte of a message.
        match self.stream.read(&mut length[..1]).await? {
            0 => return Ok(None),
            _ => self.stream.read_exact(&mut length[1..]).await?,
        };
        let (length, limit) = (u32::from_be_bytes(length) as usize, self.limit);
        if length > limit {
            let (found, limit) = (length as u64, limit as u64);
            return Err(DecodeError::TooLarge {
                what: "a message",
                found,
                limit,
            }
            .into());
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(Some(M::from_bytes(&bytes)?))
    }
}

/// Writes messages of one kind.
#[derive(Debug)]
pub struct MessageWriter<W, M> {
    stream: W,
    limit: usize,
    kind: PhantomData<fn(M)>,
}

impl<W: AsyncWrite + Unpin, M: ControlMessage> MessageWriter<W, M> {
    /// Writes to `stream` messages of at most `limit` bytes.
    pub fn new(stream: W, limit: usize) -> Self {
        // The length has four bytes.
        Self {
            stream,
            limit: limit.min(u32::MAX as usize),
            kind: PhantomData,
        }
    }

    /// Writes a message. Not to be dropped while it waits.
    pub async fn send(&mut self, message: &M) -> Result<(), FrameIoError> {
        let bytes = message.to_bytes(self.limit)?;
        // At most the limit: it fits.
        self.stream
            .write_all(&(bytes.len() as u32).to_be_bytes())
            .await?;
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }
}
