//! The oracle's self-test: who judges the engine must be shown to notice each thing that can be
//! wrong with output, to tell the right story about it, and to accept good output.

mod damaged;
mod output;
mod process;
mod random;
mod watched;
