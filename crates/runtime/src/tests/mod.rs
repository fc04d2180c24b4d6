//! Whole jobs in one process, driven by a script in the place of a jobmanager.

mod fixture;
mod jobs;
mod snapshots;
