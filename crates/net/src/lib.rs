//! The data plane of a job process: channels to tasks in other processes (DESIGN 3, 10).
//!
//! One job: what a task puts into a channel comes out at the other end, in order, under credit. One
//! bidirectional stream for each ordered pair of processes carries all channels from the one to the
//! other.
//!
//! Invariants: the socket is always drained, so a blocked channel never stops another's barrier;
//! what is held for a channel is its window and one element; nothing is sent in a channel before
//! its receiver is there; a caller that does not show job, epoch, incarnation and token is refused
//! (fence F8); a connection that breaks fails every task that still needed it, once, and names both
//! ends.
//!
//! Must never depend on: how tasks run. Their ends of channels are behind [`Inlet`] and [`Outlet`].

mod channel;
mod credit;
mod failure;
mod incoming;
mod outgoing;
mod outputs;
mod peer;
mod plane;

pub use channel::{Inlet, Outlet};
pub use credit::Credit;
pub use failure::LinkFailed;
pub use plane::{DataPlane, DataPlaneSettings, ProcessAddress};
