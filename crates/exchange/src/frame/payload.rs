//! Elements to bytes and back.
//!
//! Rows are one Arrow IPC record batch message without its schema, which both sides know, and with
//! event times and kinds as further columns:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | 1 event times follow the columns, 2 kinds follow them |
//! | 1 | 3 | zero |
//! | 4 | 4 | length of the message's metadata |
//! | 8 | | metadata (flatbuffer), zeros up to a multiple of 16, body |

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt8Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::RecordBatchDecoder;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{MetadataVersion, root_as_message};
use bytes::Bytes;
use millstream_batch::Batch;
use millstream_types::{CheckpointId, Disposition, Epoch, EventTime, MonoTime};

use super::{FrameFault, FrameKind, layout};
use crate::element::{
    Barrier, BarrierAnnouncement, BarrierKind, CancelMarker, ChannelStatus, Control, Element,
};

const HAS_EVENT_TIMES: u8 = 1;
const HAS_KINDS: u8 = 2;
/// What stands before the metadata.
const PREFIX_BYTES: usize = 8;
/// Of the body within the payload, and of each buffer within the body.
const ALIGNMENT: usize = 16;
const BARRIER_BYTES: usize = 33;

/// A column that cannot cross a process boundary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "column {column:?} is {data_type}, which is not sent between processes; cast it to its value \
     type before the exchange"
)]
pub struct UnsupportedColumn {
    /// The column.
    pub column: String,
    /// Its type, or the part of it that is refused.
    pub data_type: DataType,
}

/// Rows that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Rows of another schema than the channel's.
    #[error("the rows do not have the schema of the channel")]
    OtherSchema,
    /// A single element beyond the limit.
    #[error(
        "an element of {bytes} bytes is above the limit of {limit}; raise it or cut the record"
    )]
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// The limit in force.
        limit: u64,
    },
    /// Rows that Arrow does not write.
    #[error("the rows cannot be written")]
    Arrow(#[source] ArrowError),
}

impl EncodeError {
    /// What it asks of the scheduler: the same rows come again after a restart, and fail again.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::OtherSchema | Self::TooLarge { .. } => Disposition::FailJob,
            Self::Arrow(_) => Disposition::FailTask,
        }
    }
}

/// An element as bytes: head, then body.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) kind: FrameKind,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Encoded {
    fn small(kind: FrameKind, head: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            head: head.into(),
            body: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// Where in the element, and why.
pub(super) type Refused = (u64, FrameFault);

/// Encodes and decodes the elements of channels with one schema.
#[derive(Clone, Debug)]
pub struct ElementCodec {
    /// With the extra columns, by the flags.
    schemas: [SchemaRef; 4],
    options: IpcWriteOptions,
    element_bytes_max: u64,
}

impl ElementCodec {
    /// The codec of a channel. Refuses columns with a dictionary, runs or unions: their parts would
    /// not be known to the other side.
    pub fn new(schema: &SchemaRef, element_bytes_max: u64) -> Result<Self, UnsupportedColumn> {
        for field in schema.fields() {
            layout::check_type(field.data_type()).map_err(|data_type| UnsupportedColumn {
                column: field.name().clone(),
                data_type: data_type.clone(),
            })?;
        }
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)
            .expect("the alignment and the version are among those that Arrow lists");
        let with = |flags: u8| {
            let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
            if flags & HAS_EVENT_TIMES != 0 {
                fields.push(Arc::new(Field::new("event time", DataType::Int64, false)));
            }
            if flags & HAS_KINDS != 0 {
                fields.push(Arc::new(Field::new("kind", DataType::UInt8, false)));
            }
            // Metadata of the schema is not sent: the receiver's own is put back.
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        let schemas = [Arc::clone(schema), with(1), with(2), with(3)];
        Ok(Self {
            schemas,
            options,
            element_bytes_max,
        })
    }

    pub(super) fn encode(&self, now: MonoTime, element: &Element) -> Result<Encoded, EncodeError> {
        let encoded = match element {
            Element::Batch(batch) => self.encode_batch(batch)?,
            Element::Watermark(time) => Encoded::small(FrameKind::Watermark, time.0.to_le_bytes()),
            Element::Status(status) => Encoded::small(
                FrameKind::Status,
                [u8::from(*status == ChannelStatus::Idle)],
            ),
            Element::Barrier(barrier) => {
                Encoded::small(FrameKind::Barrier, barrier_bytes(now, barrier))
            }
            Element::EndOfData { drain } => {
                Encoded::small(FrameKind::EndOfData, [u8::from(*drain)])
            }
            Element::EndOfPartition => Encoded::small(FrameKind::EndOfPartition, []),
            Element::Splits(splits) => Encoded::small(FrameKind::Splits, splits.to_vec()),
        };
        let (bytes, limit) = (encoded.len() as u64, self.element_bytes_max);
        if bytes > limit {
            return Err(EncodeError::TooLarge { bytes, limit });
        }
        Ok(encoded)
    }

    pub(super) fn encode_control(now: MonoTime, control: Control) -> Encoded {
        match control {
            Control::Cancel(CancelMarker { id }) => {
                Encoded::small(FrameKind::Cancel, id.0.to_le_bytes())
            }
            Control::Announce(BarrierAnnouncement { barrier }) => {
                Encoded::small(FrameKind::Announce, barrier_bytes(now, &barrier))
            }
        }
    }

    pub(super) fn encode_grant(bytes: u64) -> Encoded {
        Encoded::small(FrameKind::Credit, bytes.to_le_bytes())
    }

    fn encode_batch(&self, batch: &Batch) -> Result<Encoded, EncodeError> {
        if batch.records().schema_ref().fields() != self.schemas[0].fields() {
            return Err(EncodeError::OtherSchema);
        }
        let mut columns: Vec<ArrayRef> = batch.records().columns().to_vec();
        let mut flags = 0;
        if let Some(times) = batch.event_times() {
            flags |= HAS_EVENT_TIMES;
            columns.push(Arc::new(times.clone()));
        }
        if let Some(kinds) = batch.kinds() {
            flags |= HAS_KINDS;
            columns.push(Arc::new(kinds.clone()));
        }
        let schema = Arc::clone(&self.schemas[usize::from(flags)]);
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let records = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(EncodeError::Arrow)?;
        let mut no_dictionaries = DictionaryTracker::new(true);
        let (_, message) = IpcDataGenerator::default()
            .encode(
                &records,
                &mut no_dictionaries,
                &self.options,
                &mut IpcWriteContext::default(),
            )
            .map_err(EncodeError::Arrow)?;
        let metadata = message.ipc_message;
        let mut head = Vec::with_capacity(body_start(metadata.len()));
        head.extend_from_slice(&[flags, 0, 0, 0]);
        head.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
        head.extend_from_slice(&metadata);
        head.resize(body_start(metadata.len()), 0);
        Ok(Encoded {
            kind: FrameKind::Batch,
            head,
            body: message.arrow_data,
        })
    }

    pub(super) fn decode(
        &self,
        now: MonoTime,
        kind: FrameKind,
        bytes: Bytes,
    ) -> Result<Element, Refused> {
        let bad = |what| Err((0, FrameFault::Content(what)));
        match (kind, &*bytes) {
            (FrameKind::Batch, _) => self.decode_batch(bytes).map(Element::Batch),
            (FrameKind::Splits, _) => Ok(Element::Splits(bytes)),
            (FrameKind::Watermark, time) => match time.try_into() {
                Ok(time) => Ok(Element::Watermark(EventTime(i64::from_le_bytes(time)))),
                Err(_) => bad("a watermark has eight bytes"),
            },
            (FrameKind::Status, [0]) => Ok(Element::Status(ChannelStatus::Active)),
            (FrameKind::Status, [1]) => Ok(Element::Status(ChannelStatus::Idle)),
            (FrameKind::Status, _) => bad("a status is one byte, 0 or 1"),
            (FrameKind::Barrier, barrier) => read_barrier(now, barrier).map(Element::Barrier),
            (FrameKind::EndOfData, [0]) => Ok(Element::EndOfData { drain: false }),
            (FrameKind::EndOfData, [1]) => Ok(Element::EndOfData { drain: true }),
            (FrameKind::EndOfData, _) => bad("an end of data is one byte, 0 or 1"),
            (FrameKind::EndOfPartition, []) => Ok(Element::EndOfPartition),
            (FrameKind::EndOfPartition, _) => bad("an end of partition has no bytes"),
            (FrameKind::Cancel | FrameKind::Announce | FrameKind::Credit, _) => {
                bad("control does not stand in line")
            }
        }
    }

    pub(super) fn decode_control(
        now: MonoTime,
        kind: FrameKind,
        bytes: &[u8],
    ) -> Result<Control, Refused> {
        if kind == FrameKind::Announce {
            let announcement = |barrier| Control::Announce(BarrierAnnouncement { barrier });
            return read_barrier(now, bytes).map(announcement);
        }
        let id = bytes
            .try_into()
            .map_err(|_| (0, FrameFault::Content("a cancel marker has eight bytes")))?;
        Ok(Control::Cancel(CancelMarker {
            id: CheckpointId(u64::from_le_bytes(id)),
        }))
    }

    fn decode_batch(&self, bytes: Bytes) -> Result<Batch, Refused> {
        let bad = |offset: usize, what| (offset as u64, FrameFault::Content(what));
        let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
            return Err(bad(0, "rows without a prefix"));
        };
        let [flags, 0, 0, 0, length @ ..] = *prefix else {
            return Err(bad(1, "a prefix with unknown bits"));
        };
        let schema = self.schemas.get(usize::from(flags));
        let schema = schema.ok_or_else(|| bad(0, "a prefix with unknown flags"))?;
        let start = body_start(u32::from_le_bytes(length) as usize);
        if start > bytes.len() {
            return Err(bad(4, "metadata longer than the element"));
        }
        let metadata = &bytes[PREFIX_BYTES..PREFIX_BYTES + u32::from_le_bytes(length) as usize];
        let message = root_as_message(metadata);
        let message =
            message.map_err(|_| bad(PREFIX_BYTES, "metadata that is no Arrow message"))?;
        let body = Buffer::from(bytes.slice(start..));
        let found = layout::check_message(&message, schema.fields(), body.len());
        let batch = found.map_err(|what| bad(PREFIX_BYTES, what))?;
        let no_dictionaries = Default::default();
        let (schema, version) = (Arc::clone(schema), MetadataVersion::V5);
        let records = RecordBatchDecoder::try_new(&body, batch, schema, &no_dictionaries, &version)
            .and_then(RecordBatchDecoder::read_record_batch)
            .map_err(|error| (start as u64, FrameFault::Arrow(error)))?;
        self.take_extra_columns(&records, flags)
            .ok_or_else(|| bad(start, "an event time or a kind that no row can have"))
    }

    fn take_extra_columns(&self, records: &RecordBatch, flags: u8) -> Option<Batch> {
        let mut extra = records.columns()[self.schemas[0].fields().len()..].iter();
        let times = if flags & HAS_EVENT_TIMES == 0 {
            None
        } else {
            extra.next()
        };
        let kinds = if flags & HAS_KINDS == 0 {
            None
        } else {
            extra.next()
        };
        let own = records.columns()[..self.schemas[0].fields().len()].to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(records.num_rows()));
        let schema = Arc::clone(&self.schemas[0]);
        let own = RecordBatch::try_new_with_options(schema, own, &options).ok()?;
        let times = times.map(|times| times.as_primitive::<Int64Type>().clone());
        let kinds = kinds.map(|kinds| kinds.as_primitive::<UInt8Type>().clone());
        Batch::try_new(own, times, kinds).ok()
    }
}

const fn body_start(metadata: usize) -> usize {
    (PREFIX_BYTES + metadata).next_multiple_of(ALIGNMENT)
}

/// Checkpoint, epoch, age in nanoseconds, kind, newest complete checkpoint (0: none, ids begin with 1).
fn barrier_bytes(now: MonoTime, barrier: &Barrier) -> [u8; BARRIER_BYTES] {
    let mut bytes = [0; BARRIER_BYTES];
    let age = u64::try_from(barrier.age_at(now).as_nanos()).unwrap_or(u64::MAX);
    bytes[..8].copy_from_slice(&barrier.id.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&barrier.epoch.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&age.to_le_bytes());
    bytes[24] = match barrier.kind {
        BarrierKind::Checkpoint => 0,
        BarrierKind::Savepoint => 1,
        BarrierKind::StopWithSavepoint { drain: false } => 2,
        BarrierKind::StopWithSavepoint { drain: true } => 3,
    };
    let completed = barrier.completed.map_or(0, |completed| completed.0);
    bytes[25..].copy_from_slice(&completed.to_le_bytes());
    bytes
}

fn read_barrier(now: MonoTime, bytes: &[u8]) -> Result<Barrier, Refused> {
    let bytes: &[u8; BARRIER_BYTES] = bytes
        .try_into()
        .map_err(|_| (0, FrameFault::Content("a barrier has 33 bytes")))?;
    let number = |at| u64::from_le_bytes(super::array(bytes, at));
    let kind = match bytes[24] {
        0 => BarrierKind::Checkpoint,
        1 => BarrierKind::Savepoint,
        2 => BarrierKind::StopWithSavepoint { drain: false },
        3 => BarrierKind::StopWithSavepoint { drain: true },
        _ => return Err((24, FrameFault::Content("a barrier of an unknown kind"))),
    };
    Ok(Barrier {
        id: CheckpointId(number(0)),
        epoch: Epoch(number(8)),
        kind,
        age: Duration::from_nanos(number(16)),
        learnt_at: now,
        completed: Some(CheckpointId(number(25))).filter(|completed| completed.0 > 0),
    })
}
