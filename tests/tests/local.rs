//! `millstream local` as its users run it: real processes, real files, real kills.

#[path = "local/kills.rs"]
mod kills;
#[path = "local/process.rs"]
mod process;
#[path = "local/words.rs"]
mod words;
