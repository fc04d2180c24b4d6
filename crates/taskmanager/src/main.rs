//! The `taskmanager` binary.

use std::process::ExitCode;

/// Lower and steadier memory than the C library's, under RocksDB as well.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    millstream_taskmanager::daemon::main()
}
