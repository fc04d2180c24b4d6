//! What users and tools ask of a jobmanager (`jobmanager.proto`).

mod checkpoints;
mod client;
mod details;
mod events;
mod gateway;
mod server;
#[cfg(test)]
mod tests;
mod types;

pub use client::{JobClient, JobEventStream};
pub use gateway::{GatewayError, JobGateway, SubmitFile, SubmitGraph, Submitted};
pub(crate) use server::job_service;
pub use types::{
    CheckpointFailureInfo, CheckpointInfo, CheckpointSubtaskInfo, CheckpointsInfo, JobEndInfo,
    JobEvent, JobFailure, JobInfo, JobSummary, SettingInfo, SlotWaitInfo, SubtaskInfo, VertexInfo,
    VertexInputInfo,
};
