//! Local state that nobody owns any more: of job processes that were killed, or that ended before all
//! of it was deleted.

use std::path::PathBuf;

/// Deletes it (HND-071). What a living process owns stays.
#[cfg(feature = "rocksdb")]
pub(crate) fn sweep(state_dirs: &[PathBuf]) {
    use tracing::{info, warn};

    for dir in state_dirs {
        match millstream_state_rocksdb::sweep(dir, &[]) {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => {
                info!(dir = %dir.display(), n_swept = swept.len(), "left-over state deleted");
            }
            Err(error) => {
                let error = millstream_telemetry::chain(&error);
                warn!(dir = %dir.display(), error, "left-over state not deleted");
            }
        }
    }
}

/// Without RocksDB no state is on disk.
#[cfg(not(feature = "rocksdb"))]
pub(crate) fn sweep(_state_dirs: &[PathBuf]) {}
