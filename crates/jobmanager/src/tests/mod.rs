//! Jobs from submission to end, with scripted taskmanagers over channels and a store in memory.

mod failover;
mod life;
mod recovery;
mod refusal;
mod storage;
mod strategy;
mod world;
