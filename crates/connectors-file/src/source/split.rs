//! A range of a file with the position reached in it, and its stored form.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millstream_operator::{ErrorKind, OperatorError, Split};

use crate::bytes_io::{Damaged, put_bytes, take_bytes, take_u64};

use super::pin::Pin;

const VERSION: u8 = 1;
const LINES_UNKNOWN: u64 = u64::MAX;

/// A place between two records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Bytes of the file before it.
    pub(crate) offset: u64,
    /// Line breaks of the file before it, where they were counted.
    pub(crate) lines: Option<u64>,
}

/// The records whose first byte is at `start` or later and before `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileSplit {
    pub(crate) path: PathBuf,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where to go on: the start of a record. None while the first record of a split in the middle
    /// of a file was not looked for.
    pub(crate) position: Option<Mark>,
    pub(crate) pin: Pin,
}

impl FileSplit {
    /// A split of which nothing was read.
    pub(crate) fn new(path: &Path, start: u64, end: u64, pin: Pin) -> Self {
        let beginning = Mark {
            offset: 0,
            lines: Some(0),
        };
        Self {
            path: path.to_owned(),
            start,
            end,
            position: (start == 0).then_some(beginning),
            pin,
        }
    }

    pub(crate) fn id(&self) -> String {
        let length = self.end - self.start;
        format!("{}:{}+{length}", self.path.display(), self.start)
    }

    pub(crate) fn encode(&self) -> Split {
        let mut state = BytesMut::new();
        state.put_u8(VERSION);
        put_bytes(&mut state, self.path.as_os_str().as_bytes());
        state.put_u64(self.start);
        state.put_u64(self.end);
        state.put_u8(u8::from(self.position.is_some()));
        if let Some(mark) = self.position {
            state.put_u64(mark.offset);
            state.put_u64(mark.lines.unwrap_or(LINES_UNKNOWN));
        }
        state.put_u64(self.pin.bytes);
        state.put_i64(self.pin.modified_ms);
        state.put_u64(self.pin.head_hash);
        Split {
            id: self.id(),
            state: state.freeze(),
        }
    }

    pub(crate) fn decode(split: &Split) -> Result<Self, OperatorError> {
        let error = |why: String| {
            let what = format!("state of file split {:?}: {why}", split.id);
            OperatorError::new(ErrorKind::State, what)
        };
        let mut state = split.state.clone();
        match state.try_get_u8() {
            Ok(VERSION) => {}
            Ok(version) => {
                let why = format!("format version {version}, this program knows {VERSION}");
                let remedy = "restore with the release that wrote the checkpoint, or a newer one";
                return Err(error(why).with_remedy(remedy));
            }
            Err(_) => return Err(error("it is empty".to_owned())),
        }
        let decoded = Self::decode_fields(&mut state);
        match decoded {
            Ok(decoded) if state.is_empty() => Ok(decoded),
            _ => Err(error(format!(
                "its {} bytes are damaged",
                split.state.len()
            ))),
        }
    }

    fn decode_fields(state: &mut Bytes) -> Result<Self, Damaged> {
        let path = take_bytes(state)?;
        let (start, end) = (take_u64(state)?, take_u64(state)?);
        let position = match state.try_get_u8() {
            Ok(0) => None,
            Ok(1) => {
                let (offset, lines) = (take_u64(state)?, take_u64(state)?);
                let lines = (lines != LINES_UNKNOWN).then_some(lines);
                Some(Mark { offset, lines })
            }
            _ => return Err(Damaged),
        };
        let pin = Pin {
            bytes: take_u64(state)?,
            modified_ms: state.try_get_i64().map_err(|_| Damaged)?,
            head_hash: take_u64(state)?,
        };
        if start > end || end > pin.bytes {
            return Err(Damaged);
        }
        Ok(Self {
            path: PathBuf::from(OsStr::from_bytes(&path)),
            start,
            end,
            position,
            pin,
        })
    }
}
