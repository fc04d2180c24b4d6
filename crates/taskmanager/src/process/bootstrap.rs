//! What a job process is told before its first message, and how it is found out that one is asked
//! for.
//!
//! On the socket comes first the length of a text (u32, big endian) and the text: three lines that
//! say whose process it is, an empty line, and the taskmanager's configuration.

use std::io;

use millstream_types::{Incarnation, TaskmanagerId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::host::HostIdentity;

/// Set for a job process: the number of the inherited descriptor of its socket. It is standard
/// input, the one descriptor that goes to exactly one child without a moment in which others could
/// inherit it too.
pub const FD_VARIABLE: &str = "MILLSTREAM_JOB_PROCESS_FD";
/// Set for a job process: the process id of its taskmanager. Another parent is none.
pub(super) const PARENT_VARIABLE: &str = "MILLSTREAM_JOB_PROCESS_PARENT";
/// Longest text.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// What a job process needs to know of its taskmanager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bootstrap {
    pub(super) identity: HostIdentity,
    pub(super) config: String,
}

impl Bootstrap {
    fn text(&self) -> String {
        let HostIdentity {
            taskmanager,
            incarnation,
            advertised_host,
        } = &self.identity;
        format!(
            "{taskmanager}\n{}\n{advertised_host}\n\n{}",
            incarnation.0, self.config
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, config) = text.split_once("\n\n")?;
        let mut lines = head.lines();
        let taskmanager = TaskmanagerId::new(lines.next()?).ok()?;
        let incarnation = Incarnation(lines.next()?.parse().ok()?);
        let advertised_host = lines.next()?.to_owned();
        if lines.next().is_some() {
            return None;
        }
        Some(Self {
            identity: HostIdentity {
                taskmanager,
                incarnation,
                advertised_host,
            },
            config: config.to_owned(),
        })
    }

    /// Sends it.
    pub(super) async fn write(&self, mut socket: impl AsyncWrite + Unpin) -> io::Result<()> {
        let text = self.text();
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        socket.write_all(&length.to_be_bytes()).await?;
        socket.write_all(text.as_bytes()).await
    }

    /// Receives it.
    pub(super) async fn read(mut socket: impl AsyncRead + Unpin) -> io::Result<Self> {
        let malformed =
            || io::Error::new(io::ErrorKind::InvalidData, "no greeting of a taskmanager");
        let mut length = [0; 4];
        socket.read_exact(&mut length).await?;
        let length = u32::from_be_bytes(length) as usize;
        if length > TEXT_BYTES_MAX {
            return Err(malformed());
        }
        let mut bytes = vec![0; length];
        socket.read_exact(&mut bytes).await?;
        let text = std::str::from_utf8(&bytes).map_err(|_| malformed())?;
        Self::parse(text).ok_or_else(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_greeting_is_read_as_it_was_written_and_nothing_else_is_one() {
        let bootstrap = Bootstrap {
            identity: HostIdentity {
                taskmanager: TaskmanagerId::new("tm-1").unwrap(),
                incarnation: Incarnation(u64::MAX),
                advertised_host: "fd00::7".to_owned(),
            },
            config: "a: 1\n\nb: 2\n".to_owned(),
        };
        let mut wire = Vec::new();
        bootstrap.write(&mut wire).await.unwrap();
        assert_eq!(Bootstrap::read(&wire[..]).await.unwrap(), bootstrap);
        for wrong in [
            "tm-1\n1\nhost",
            "tm-1\nx\nhost\n\n",
            "tm-1\n1\nhost\nmore\n\n",
        ] {
            assert_eq!(Bootstrap::parse(wrong), None, "{wrong:?}");
        }
        let huge = u32::MAX.to_be_bytes();
        assert!(Bootstrap::read(&huge[..]).await.is_err());
        assert!(Bootstrap::read(&wire[..10]).await.is_err());
    }
}
