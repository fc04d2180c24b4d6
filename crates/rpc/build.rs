//! Generates messages and services without a protobuf compiler.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "millstream/v1/job_graph.proto",
        "millstream/v1/jobmanager.proto",
        "millstream/v1/control.proto",
        "millstream/v1/data.proto",
    ];
    for file in files.into_iter().chain(["millstream/v1/checkpoint.proto"]) {
        println!("cargo:rerun-if-changed=../../proto/{file}");
    }
    let descriptors = protox::compile(files, ["../../proto"])?;
    let out = env::var("OUT_DIR")?;
    fs::write(
        Path::new(&out).join("descriptors.bin"),
        descriptors.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        // The generated `connect` would dial by itself, past `env`.
        .build_transport(false)
        .bytes(".")
        // Maps in order: the same graph is the same bytes.
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
