//! The file source: an enumerator that finds splits and readers that read them.

mod bad;
mod content;
mod enumerator;
mod expand;
mod frame;
mod frame_csv;
mod parquet;
mod pin;
mod progress;
mod reader;
mod split;
mod window;

pub use enumerator::FileEnumerator;
pub use reader::FileReader;

#[cfg(test)]
mod tests;
