//! How the memory of this machine is divided, and where working state goes.

use std::path::PathBuf;

use millstream_config::TaskmanagerConfig;
use millstream_env::{Env, resources};
use millstream_runtime::JobProcessSettings;

/// Memory where neither the configuration nor the machine says anything.
const FALLBACK_BYTES: u64 = 1 << 30;
/// Least memory for the keyed state of a slot: below, RocksDB does nothing but flush.
const MANAGED_BYTES_MIN: u64 = 8 << 20;

/// The memory of a taskmanager with its job processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    total_bytes: u64,
    slots: u64,
}

impl Budget {
    /// As configured; else what the container or the machine allows.
    pub(crate) fn new(env: &Env, config: &TaskmanagerConfig) -> Self {
        let allowed = || resources::memory_limit(env.fs().as_ref());
        let total = config.process_memory_bytes.or_else(allowed);
        Self {
            total_bytes: total.unwrap_or(FALLBACK_BYTES),
            slots: u64::from(config.slots.max(1)),
        }
    }

    /// What a job process may hold for each slot that it uses.
    pub(crate) fn per_slot_bytes(self) -> u64 {
        self.total_bytes / self.slots
    }

    /// The part of a slot's memory that keyed state in RocksDB uses.
    fn managed_per_slot_bytes(self, fraction: f64) -> usize {
        let managed = (self.per_slot_bytes() as f64 * fraction) as u64;
        usize::try_from(managed.max(MANAGED_BYTES_MIN)).unwrap_or(usize::MAX)
    }

    /// What a job process of this taskmanager is given.
    pub(crate) fn job_process_settings(self, config: &TaskmanagerConfig) -> JobProcessSettings {
        let dirs = state_dirs(config);
        // Processes spread over the directories, which may be on different disks.
        let chosen = std::process::id() as usize % dirs.len();
        JobProcessSettings {
            channel_window_bytes: config.channel_window_bytes,
            managed_bytes_per_slot: self.managed_per_slot_bytes(config.managed_memory_fraction),
            state_dir: dirs[chosen].clone(),
        }
    }
}

/// Where attempts keep their working state; at least one.
pub(crate) fn state_dirs(config: &TaskmanagerConfig) -> Vec<PathBuf> {
    if config.state_dirs.is_empty() {
        return vec![std::env::temp_dir().join("millstream-taskmanager")];
    }
    config.state_dirs.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_share_the_memory_and_state_has_its_part_of_each() {
        let budget = Budget {
            total_bytes: 4 << 30,
            slots: 4,
        };
        assert_eq!(budget.per_slot_bytes(), 1 << 30);
        assert_eq!(budget.managed_per_slot_bytes(0.25), 256 << 20);
        let tiny = Budget {
            total_bytes: 64 << 20,
            slots: 64,
        };
        assert_eq!(tiny.managed_per_slot_bytes(0.4), 8 << 20);
    }
}
