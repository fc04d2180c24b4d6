//! What is thrown at every decoder: arbitrary bytes in, and no panic, no endless work, nothing
//! believed that was not written, nothing different the second time.
//!
//! A target is a function of bytes. Three things call it: the search (`cargo xtask fuzz`, with
//! libFuzzer), the stored corpora in CI, and the seeded changes that CI makes of these.

mod targets;

pub use targets::{TARGETS, Target, find};
