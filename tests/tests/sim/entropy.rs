//! Where the standard library gets randomness from: hash seeds, and through them what tokio's
//! `select!` polls first. While a seed runs it follows from the seed, so that the run can be had
//! again in another process.
//!
//! The library looks this function up by name and leaves it open to be replaced, for such uses.
#![allow(
    unsafe_code,
    reason = "a C function is replaced; there is no other way to seed the standard library"
)]

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static IS_SEEDED: AtomicBool = AtomicBool::new(false);
static STATE: AtomicU64 = AtomicU64::new(0);

/// From now on this process draws from this seed.
pub fn seed(seed: u64) {
    STATE.store(seed, Ordering::SeqCst);
    IS_SEEDED.store(true, Ordering::SeqCst);
}

/// As `getrandom(2)`.
///
/// # Safety
/// `buffer` has room for `length` bytes, or is null.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if buffer.is_null() {
        return -1;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    if IS_SEEDED.load(Ordering::SeqCst) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
        }
    } else if fill_from_machine(bytes).is_err() {
        return -1;
    }
    isize::try_from(length).unwrap_or(-1)
}

fn fill_from_machine(bytes: &mut [u8]) -> std::io::Result<()> {
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

/// The generator SplitMix64.
fn next() -> u64 {
    let mut z = STATE
        .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
