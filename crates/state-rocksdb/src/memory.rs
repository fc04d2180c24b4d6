//! One budget for everything keyed state takes in a slot, and the options that keep to it.

use std::fmt;

use millstream_state::StateError;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, LogLevel, Options, WriteBufferManager};

/// The memory of one slot's keyed state, shared by the backends of its operators.
///
/// | share | for |
/// |---|---|
/// | 1/2 | dirty maps: an active and a frozen one for each operator; what they leave keeps the one before for reads |
/// | 1/4 | write buffers of all databases, charged to the block cache |
/// | 1/4 | blocks, indexes and filters |
///
/// The cache counts write buffers as its own, so both quarters together are its capacity. It goes
/// beyond that only for blocks that are in use at the moment.
#[derive(Clone)]
pub struct RocksMemory {
    cache: Cache,
    write_buffers: WriteBufferManager,
    write_buffer_bytes: usize,
    dirty_bytes_max: usize,
    ingest_bytes_min: usize,
    small_snapshot_bytes: u64,
}

/// A smaller dirty map goes through a write buffer: a file each time would be many small ones to
/// compact.
const INGEST_BYTES_MIN: usize = 4 << 20;

/// A snapshot of less is written whole: a restore reads one file, and that is deleted with its
/// checkpoint.
const SMALL_SNAPSHOT_BYTES: u64 = 1 << 20;

/// RocksDB's own default, named because each level has its compression.
const LEVELS: usize = 7;

/// What RocksDB uses of its half of the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RocksMemoryUsage {
    /// Block cache, write buffers charged to it included.
    pub cache_bytes: usize,
    /// Write buffers alone.
    pub write_buffer_bytes: usize,
}

impl fmt::Debug for RocksMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksMemory")
            .field("dirty_bytes_max", &self.dirty_bytes_max)
            .field("write_buffer_bytes", &self.write_buffer_bytes)
            .finish_non_exhaustive()
    }
}

impl RocksMemory {
    /// The least that an operator can work with.
    pub const BYTES_MIN_PER_OPERATOR: usize = 4 << 20;

    /// Splits `budget_bytes` among the keyed operators of a slot.
    ///
    /// # Panics
    /// If there is no operator.
    pub fn new(budget_bytes: usize, n_operators: usize) -> Result<Self, StateError> {
        assert!(
            n_operators > 0,
            "a slot without keyed state has no budget for it"
        );
        let min = n_operators.saturating_mul(Self::BYTES_MIN_PER_OPERATOR);
        if budget_bytes < min {
            return Err(StateError::BudgetTooSmall {
                found: budget_bytes,
                min,
            });
        }
        let cache = Cache::new_lru_cache(budget_bytes / 2);
        let write_buffers_total = budget_bytes / 4;
        // Without stalling: a stall that waits for the buffers of other databases could wait for
        // ever when all of them are small. What bounds the buffers is that a drain brings one
        // dirty map at most, and that a column family stalls at two of its own.
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            write_buffers_total,
            false,
            cache.clone(),
        );
        Ok(Self {
            cache,
            write_buffers,
            write_buffer_bytes: (write_buffers_total / n_operators / 2).clamp(256 << 10, 64 << 20),
            dirty_bytes_max: budget_bytes / 4 / n_operators,
            ingest_bytes_min: INGEST_BYTES_MIN,
            small_snapshot_bytes: SMALL_SNAPSHOT_BYTES,
        })
    }

    /// The same memory, where every map is drained by files.
    #[cfg(test)]
    pub(crate) fn always_ingesting(self) -> Self {
        Self {
            ingest_bytes_min: 0,
            ..self
        }
    }

    /// The same memory, where no snapshot is too small for changes.
    #[cfg(test)]
    pub(crate) fn always_incremental(self) -> Self {
        Self {
            small_snapshot_bytes: 0,
            ..self
        }
    }

    /// State below this is written whole in each snapshot.
    pub(crate) fn small_snapshot_bytes(&self) -> u64 {
        self.small_snapshot_bytes
    }

    /// From this size on a dirty map is drained by files.
    pub(crate) fn ingest_bytes_min(&self) -> usize {
        self.ingest_bytes_min
    }

    /// What each of an operator's two dirty maps may have.
    pub fn dirty_bytes_max(&self) -> usize {
        self.dirty_bytes_max
    }

    /// What RocksDB uses at the moment.
    pub fn usage(&self) -> RocksMemoryUsage {
        RocksMemoryUsage {
            cache_bytes: self.cache.get_usage(),
            write_buffer_bytes: self.write_buffers.get_usage(),
        }
    }

    /// Options for the files that a dirty map becomes.
    pub(crate) fn drain_options(&self) -> Options {
        let mut options = self.options();
        options.set_compression_per_level(&[]);
        options.set_compression_type(DBCompressionType::None);
        options
    }

    /// Options for databases and column families alike.
    pub(crate) fn options(&self) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        // State is read a key at a time: a block is decompressed for one value of it.
        table.set_block_size(8 << 10);
        table.set_bloom_filter(10.0, false);
        // Indexes and filters are in the cache, and so in the budget, before any block of data.
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_error_if_exists(true);
        options.create_missing_column_families(true);
        options.set_paranoid_checks(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(&self.write_buffers);
        options.set_write_buffer_size(self.write_buffer_bytes);
        options.set_max_write_buffer_number(2);
        // The first level's files are compacted away within minutes.
        let mut levels = [DBCompressionType::Lz4; LEVELS];
        levels[0] = DBCompressionType::None;
        options.set_num_levels(LEVELS as i32);
        options.set_compression_per_level(&levels);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_background_jobs(2);
        options.set_max_open_files(1024);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(1);
        options.set_manifest_preallocation_size(64 << 10);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_budget_add_up_to_it() {
        let budget = 256 << 20;
        let memory = RocksMemory::new(budget, 4).unwrap();
        let dirty = 2 * 4 * memory.dirty_bytes_max();
        assert_eq!(dirty, budget / 2);
        assert_eq!(memory.write_buffers.get_buffer_size(), budget / 4);
    }

    #[test]
    fn a_budget_that_cannot_work_is_refused_with_the_least_that_can() {
        let error = RocksMemory::new(10 << 20, 3).unwrap_err();
        assert!(error.to_string().contains("12582912"), "{error}");
    }
}
