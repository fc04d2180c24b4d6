//! What happens to data between two tasks: elements in line, credits, alignment, watermarks,
//! partitioning, coalescing and the wire form.
//!
//! Invariants: in a channel everything keeps its order, and only cancel markers, announcements and
//! credit overtake; a sender never sends without credit and a receiver never holds more than its
//! window and one element; a frame is delivered once, whole and unchanged, or the attempt fails;
//! the snapshot of a checkpoint holds exactly what stood before its barriers (exactly-once mode).
//!
//! Must never depend on: an executor, locks, a clock, sockets.

pub mod align;
pub mod coalesce;
pub mod credit;
pub mod element;
pub mod frame;
pub mod partition;
pub mod queue;
pub mod watermark;

pub use element::{
    Barrier, BarrierAnnouncement, BarrierKind, CancelMarker, ChannelIndex, ChannelStatus, Control,
    DestinationIndex, Element, Feedback,
};
