//! What a checkpoint promises about one file, in its stored form.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millstream_operator::{Committable, ErrorKind, OperatorError};

use crate::bytes_io::{Damaged, put_bytes, take_bytes, take_text, take_u64};

const VERSION: u8 = 1;

/// A file that is written and not yet visible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PromisedFile {
    /// The sink's directory when the promise was made.
    pub(super) directory: PathBuf,
    /// The path while it is not committed.
    pub(super) staging: PathBuf,
    /// The name in the directory after that.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// xxh3-64 of the contents.
    pub(super) hash: u64,
}

impl PromisedFile {
    pub(super) fn target(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub(super) fn encode(&self) -> Committable {
        let mut payload = BytesMut::new();
        payload.put_u8(VERSION);
        put_bytes(&mut payload, self.directory.as_os_str().as_bytes());
        put_bytes(&mut payload, self.staging.as_os_str().as_bytes());
        put_bytes(&mut payload, self.name.as_bytes());
        payload.put_u64(self.bytes);
        payload.put_u64(self.hash);
        Committable {
            id: self.name.clone(),
            payload: payload.freeze(),
        }
    }

    pub(super) fn decode(committable: &Committable) -> Result<Self, OperatorError> {
        let error = |why: &str| {
            let what = format!("promise of file {:?}: {why}", committable.id);
            OperatorError::new(ErrorKind::State, what)
                .with_remedy("restore with the release that wrote the checkpoint, or a newer one")
        };
        let mut payload = committable.payload.clone();
        match payload.try_get_u8() {
            Ok(VERSION) => {}
            Ok(_) => return Err(error("its format version is not known to this program")),
            Err(_) => return Err(error("it is empty")),
        }
        let decoded = Self::decode_fields(&mut payload);
        decoded.map_err(|Damaged| error("it is damaged"))
    }

    fn decode_fields(payload: &mut Bytes) -> Result<Self, Damaged> {
        let path = |bytes: Bytes| PathBuf::from(OsStr::from_bytes(&bytes));
        let file = Self {
            directory: path(take_bytes(payload)?),
            staging: path(take_bytes(payload)?),
            name: take_text(payload)?,
            bytes: take_u64(payload)?,
            hash: take_u64(payload)?,
        };
        // A name with a slash in it would leave the sink's directory.
        let mut components = Path::new(&file.name).components();
        let is_plain = matches!(
            (components.next(), components.next()),
            (Some(Component::Normal(_)), None)
        );
        match is_plain && payload.is_empty() {
            true => Ok(file),
            false => Err(Damaged),
        }
    }
}
