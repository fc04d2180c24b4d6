//! The search: libFuzzer around one target, which the variable `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millstream_fuzz::{TARGETS, Target, find};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("FUZZ_TARGET={name}: there are {}", known.join(", "))
    })
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
