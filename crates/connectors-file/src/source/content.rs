//! The contents of a file: as it lies there, or unpacked.
//!
//! A place in a packed file is one in its unpacked contents. It is reached by unpacking all that is
//! in front of it, a chunk at a time, so that whoever waits meanwhile is not kept waiting.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use millstream_env::fs::File;
use millstream_graph::Compression;
use millstream_operator::{ErrorKind, OperatorError};

use crate::fault;

/// Bytes of a packed file read at once.
const PACKED_BYTES: usize = 64 * 1024;
/// A zstd frame may ask its reader to remember so many bytes: 128 MiB, as the zstd tool accepts.
const WINDOW_LOG_MAX: u32 = 27;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// What a source is told about a file; none if it is not packed.
    pub(super) fn of(compression: Compression, path: &Path) -> Option<Self> {
        let ends_with = |ending: &str| {
            let found = path.extension().and_then(OsStr::to_str);
            found.is_some_and(|found| found.eq_ignore_ascii_case(ending))
        };
        match compression {
            Compression::None => None,
            Compression::Gzip => Some(Self::Gzip),
            Compression::Zstd => Some(Self::Zstd),
            Compression::Auto if ends_with("gz") => Some(Self::Gzip),
            Compression::Auto if ends_with("zst") => Some(Self::Zstd),
            Compression::Auto => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn of_head(head: &[u8]) -> Option<Self> {
        if head.starts_with(&GZIP_MAGIC) {
            return Some(Self::Gzip);
        }
        head.starts_with(&ZSTD_MAGIC).then_some(Self::Zstd)
    }
}

/// That a text file starts like one, given its first bytes and how it is said to be packed.
pub(super) fn check_head(
    path: &Path,
    head: &[u8],
    packing: Option<Packing>,
) -> Result<(), OperatorError> {
    let refused = |what: String, remedy: &str| {
        Err(OperatorError::new(ErrorKind::External, what).with_remedy(remedy))
    };
    match (packing, Packing::of_head(head)) {
        (None, Some(found)) => {
            let name = found.name();
            let what = format!("source file {path:?} is compressed with {name}");
            refused(what, &format!("set compression: {name}"))
        }
        (None, None) => check_encoding(path, head),
        (Some(packing), _) if head.is_empty() => {
            let name = packing.name();
            let what = format!("source file {path:?} is empty, which no {name} file is");
            refused(what, "bring the whole file, or take it away")
        }
        // What is not even the other kind may still be one with a skippable frame in front.
        (Some(Packing::Gzip), found) if found != Some(Packing::Gzip) => {
            let what = format!("source file {path:?} is not compressed with gzip");
            refused(what, "set compression as the file is, or rename it")
        }
        (Some(Packing::Zstd), Some(Packing::Gzip)) => {
            let what = format!("source file {path:?} is compressed with gzip, not with zstd");
            refused(what, "set compression as the file is, or rename it")
        }
        (Some(Packing::Gzip | Packing::Zstd), _) => Ok(()),
    }
}

/// That a text does not say of itself that it is in another encoding than UTF-8.
pub(super) fn check_encoding(path: &Path, head: &[u8]) -> Result<(), OperatorError> {
    let encoding = match head {
        [0xff, 0xfe, 0, 0, ..] => "UTF-32LE",
        [0, 0, 0xfe, 0xff, ..] => "UTF-32BE",
        [0xff, 0xfe, ..] => "UTF-16LE",
        [0xfe, 0xff, ..] => "UTF-16BE",
        _ => return Ok(()),
    };
    let what = format!("source file {path:?} is in {encoding}, as its byte order mark says");
    let remedy = format!("convert it: iconv -f {encoding} -t UTF-8");
    Err(OperatorError::new(ErrorKind::External, what).with_remedy(remedy))
}

/// A file that is read forward from any place in its contents.
pub(super) enum Content {
    Plain(Box<dyn File>),
    Packed(Box<Packed>),
}

impl Content {
    pub(super) fn new(file: Box<dyn File>, packing: Option<Packing>) -> io::Result<Self> {
        Ok(match packing {
            None => Self::Plain(file),
            Some(packing) => Self::Packed(Box::new(Packed::new(file, packing)?)),
        })
    }

    /// Goes to a place.
    pub(super) fn seek(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.seek(SeekFrom::Start(offset)).map(drop),
            Self::Packed(packed) => packed.seek(offset),
        }
    }

    /// Reads some bytes of the contents.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Found> {
        match self {
            Self::Plain(file) => match file.read(buffer)? {
                0 => Ok(Found::End),
                bytes => Ok(Found::Bytes(bytes)),
            },
            Self::Packed(packed) => packed.read(buffer),
        }
    }

    /// The error that ends the reading of this file.
    pub(super) fn error(&self, path: &Path, error: io::Error) -> OperatorError {
        match self {
            Self::Plain(_) => fault::of_io("read", path, error),
            Self::Packed(packed) => packed.error(path, error),
        }
    }
}

/// What reading found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Bytes(usize),
    /// Bytes in front of the place that is wanted.
    Nothing,
    End,
}

/// A packed file.
pub(super) struct Packed {
    packing: Packing,
    /// None for as long as a new one is made from its file.
    decoder: Option<Decoder>,
    /// Bytes unpacked so far.
    offset: u64,
    /// The place that is wanted, at `offset` or behind it.
    wanted: u64,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
    Zstd(zstd::Decoder<'static, BufReader<Counted>>),
}

impl Packed {
    fn new(mut file: Box<dyn File>, packing: Packing) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        Ok(Self {
            packing,
            decoder: Some(Decoder::new(Counted::new(file), packing)?),
            offset: 0,
            wanted: 0,
        })
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.wanted = offset;
        if offset >= self.offset {
            return Ok(());
        }
        let decoder = self.decoder.take();
        let mut file = decoder.ok_or_else(broken)?.into_file();
        file.seek(SeekFrom::Start(0))?;
        self.decoder = Some(Decoder::new(Counted::new(file), self.packing)?);
        self.offset = 0;
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Found> {
        let decoder = self.decoder.as_mut().ok_or_else(broken)?;
        let missing = usize::try_from(self.wanted - self.offset).unwrap_or(usize::MAX);
        let room = match missing {
            0 => buffer.len(),
            missing => missing.min(buffer.len()),
        };
        let bytes = decoder.read(&mut buffer[..room])?;
        self.offset += bytes as u64;
        self.wanted = self.wanted.max(self.offset);
        Ok(match (bytes, missing) {
            (0, 1..) => {
                let what = "it holds less than was read of it before";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            (0, 0) => Found::End,
            (bytes, 0) => Found::Bytes(bytes),
            _ => Found::Nothing,
        })
    }

    fn error(&self, path: &Path, error: io::Error) -> OperatorError {
        let at = match &self.decoder {
            Some(decoder) => decoder.counted(),
            None => return fault::of_io("read", path, error),
        };
        if let Some(failed) = at.failed {
            return fault::of_io("read", path, io::Error::new(failed, error));
        }
        let (name, offset) = (self.packing.name(), self.offset);
        let (how, remedy) = match error.kind() {
            io::ErrorKind::UnexpectedEof => ("ends early", "bring the whole file again"),
            _ => (
                "is damaged",
                "bring it again; a zstd file that needs a dictionary or a window above 128 MiB must \
                 be compressed anew",
            ),
        };
        let what = format!(
            "source file {path:?}: its {name} data {how}, {offset} bytes into what it holds, at or \
             before byte {} of the file: {error}",
            at.bytes,
        );
        OperatorError::new(ErrorKind::External, what).with_remedy(remedy)
    }
}

fn broken() -> io::Error {
    io::Error::other("the file could not be read from its start again")
}

impl Decoder {
    fn new(file: Counted, packing: Packing) -> io::Result<Self> {
        let file = BufReader::with_capacity(PACKED_BYTES, file);
        Ok(match packing {
            Packing::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(file))),
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(file)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Self::Zstd(decoder)
            }
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }

    fn counted(&self) -> &Counted {
        match self {
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    fn into_file(self) -> Box<dyn File> {
        let counted = match self {
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        };
        counted.file
    }
}

/// A file that knows how far it was read, and whether reading it failed.
struct Counted {
    file: Box<dyn File>,
    bytes: u64,
    /// The file system's error, apart from those of what unpacks.
    failed: Option<io::ErrorKind>,
}

impl Counted {
    fn new(file: Box<dyn File>) -> Self {
        Self {
            file,
            bytes: 0,
            failed: None,
        }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        match &read {
            Ok(bytes) => self.bytes += *bytes as u64,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.failed = Some(error.kind());
            }
            Err(_) => {}
        }
        read
    }
}
