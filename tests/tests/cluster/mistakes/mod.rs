//! Mistakes that users make, made with the programs that they make them with: what the terminal
//! shows is compared with `tests/golden/errors`. `WRITE_GOLDEN=1` writes the files anew.

mod cluster;
mod daemons;
mod files;
mod golden;
mod old;
mod s3;
mod terms;
