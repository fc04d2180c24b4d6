//! What a job process prints, as lines of the taskmanager's log.

use millstream_types::JobId;
use tokio::io::{AsyncRead, AsyncReadExt};
use tracing::info;

/// Longer lines are cut into pieces: a process must not fill our memory. A record of its log may have
/// some texts of 16 KiB.
const LINE_BYTES_MAX: usize = 128 * 1024;

/// Logs every line, a record of its log as such, until the stream ends.
pub(super) async fn log_lines(stream: impl AsyncRead + Unpin, job: JobId, pid: u32) {
    each_line(stream, |line| {
        if !millstream_telemetry::pass_on(line) {
            info!(job_id = %job, "[job process {pid}] {line}");
        }
    })
    .await;
}

async fn each_line(mut stream: impl AsyncRead + Unpin, mut take: impl FnMut(&str)) {
    let mut pending: Vec<u8> = Vec::new();
    let mut chunk = vec![0; LINE_BYTES_MAX];
    loop {
        let read = match stream.read(&mut chunk).await {
            // A broken pipe has no more lines than an ended one.
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
            pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") || pending.len() >= LINE_BYTES_MAX {
                emit(&mut pending, &mut take);
            }
        }
    }
    emit(&mut pending, &mut take);
}

fn emit(pending: &mut Vec<u8>, take: &mut impl FnMut(&str)) {
    let text = String::from_utf8_lossy(pending);
    let line = text.trim_end_matches(['\n', '\r']);
    if !line.is_empty() {
        take(line);
    }
    pending.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        each_line(text, |line| lines.push(line.to_owned())).await;
        lines
    }

    #[tokio::test]
    async fn each_line_is_one_the_last_without_an_end_too() {
        assert_eq!(lines(b"a\r\n\nb\nc").await, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn an_endless_line_comes_in_pieces() {
        let pieces = lines(&vec![b'x'; 3 * LINE_BYTES_MAX]).await;
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|piece| piece.len() == LINE_BYTES_MAX));
    }
}
