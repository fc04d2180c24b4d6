//! `oracle`: prints the verdict on a job's committed output. See the library for what it judges.

use std::process::ExitCode;

use millstream_oracle::{args, run};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("oracle: {error}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let (is_exact, verdict) = run(command);
    println!("{verdict:#}");
    ExitCode::from(u8::from(!is_exact))
}
