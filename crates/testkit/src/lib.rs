//! Faulty doubles of outside things, for tests only.
//!
//! [`ChaosStore`] wraps any object store and makes it behave as badly as a real one may: it delays,
//! fails before or after the effect, lets a write land after it was reported as failed, lists what
//! was true a moment ago, and returns short or altered bytes. What it does follows from a seed.
//!
//! Must never depend on: a crate of ours but `types` and `env`; it is a dev-dependency of the rest.

mod chaos;
mod faults;
mod upload;

pub use chaos::{ChaosStore, Uploads};
pub use faults::{Fault, Faults, InjectedFault};
