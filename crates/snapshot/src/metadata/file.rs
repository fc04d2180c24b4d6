//! The file: an envelope around one message of `proto/millstream/v1/checkpoint.proto`.

use prost::Message;

use super::{CheckpointMetadata, METADATA_BYTES_MAX, MetadataFault};
use crate::envelope::{self, EnvelopeFault, Kind};
use crate::pb;

/// The version that is written, and the newest that is read.
pub const NEWEST_VERSION: u16 = 1;

const KIND: Kind = Kind {
    magic: b"MSCKPTMD",
    version: NEWEST_VERSION,
};

/// The bytes of `_metadata`. The same metadata gives the same bytes.
pub fn encode(metadata: &CheckpointMetadata) -> Result<Vec<u8>, MetadataFault> {
    super::verify::check_key_groups(metadata)?;
    let bytes = envelope::seal(
        KIND,
        &pb::CheckpointMetadata::from(metadata).encode_to_vec(),
    );
    let found = bytes.len() as u64;
    if found > METADATA_BYTES_MAX {
        return Err(MetadataFault::TooLarge {
            found,
            limit: METADATA_BYTES_MAX,
        });
    }
    Ok(bytes)
}

/// Reads what [`encode`] wrote and refuses everything else.
pub fn decode(bytes: &[u8]) -> Result<CheckpointMetadata, MetadataFault> {
    let body = envelope::open(KIND, bytes)?;
    let message = pb::CheckpointMetadata::decode(body)
        .map_err(|error| MetadataFault::Message(error.to_string()))?;
    let metadata = CheckpointMetadata::try_from(message)?;
    super::verify::check_key_groups(&metadata)?;
    Ok(metadata)
}

/// A frame around any body, for tests of what stands behind a valid one.
#[cfg(test)]
pub(super) fn sealed(body: &[u8]) -> Vec<u8> {
    envelope::seal(KIND, body)
}

impl From<EnvelopeFault> for MetadataFault {
    fn from(fault: EnvelopeFault) -> Self {
        Self::Envelope(fault)
    }
}
