//! The control stream between a jobmanager and a taskmanager, and the socket between a taskmanager
//! and its job processes: the same messages on both.

mod bounded;
mod client;
pub(crate) mod common;
mod framing;
mod from_taskmanager;
mod server;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod to_taskmanager;

pub use bounded::{ControlMessage, MESSAGE_BYTES_MAX};
pub use client::{ControlReceiver, connect_control, describe_storage};
pub use framing::{FrameIoError, MessageReader, MessageWriter};
pub(crate) use server::control_service;
pub use server::{ControlGateway, ControlSession, ControlSessionError};
