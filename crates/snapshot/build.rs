//! Generates the form of what is stored, without a protobuf compiler.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "millstream/v1/checkpoint.proto",
        "millstream/v1/job_store.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed=../../proto/{file}");
    }
    let descriptors = protox::compile(files, ["../../proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
