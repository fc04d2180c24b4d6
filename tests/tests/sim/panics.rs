//! Panics of daemons. They catch those of their tasks and go on; the simulation does not.

use std::sync::Once;

use parking_lot::Mutex;

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static RECORDING: Once = Once::new();

/// Panics are remembered from now on.
pub fn record() {
    RECORDING.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.lock().push(info.to_string());
            usual(info);
        }));
    });
}

/// The first panic, and forgets them all.
pub fn take() -> Option<String> {
    let panics = std::mem::take(&mut *PANICS.lock());
    panics.into_iter().next()
}
