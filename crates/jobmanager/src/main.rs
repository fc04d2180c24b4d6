//! The `jobmanager` binary.

use std::process::ExitCode;

/// Lower and steadier memory than the C library's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    millstream_jobmanager::daemon::main()
}
