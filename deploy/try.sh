#!/usr/bin/env bash
# The first run: installs what is missing, builds the command line alone, and counts the words of
# this repository's documentation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/machine.sh
find_cargo

# A linker and a C compiler for the few crates that hold C, make for the allocator. No C++ and no
# libclang: RocksDB is left out.
require cc gcc libc6-dev
require make make

cat >&2 <<TEXT
Millstream: first run
  installs: ${missing[*]:-nothing, all is there}
  builds:   the command line without RocksDB, into $CARGO_TARGET_DIR
            (20 to 30 CPU-minutes the first time, 10 to 20 minutes on 2 cores; seconds later on)
  runs:     docs/examples/word-count.yaml
TEXT
install_missing

before=$(cpu_seconds)
cargo build --quiet --locked --profile ci -p millstream-cli --no-default-features
echo "  built in $(($(cpu_seconds) - before)) CPU-seconds" >&2
echo >&2
exec "$CARGO_TARGET_DIR/ci/millstream" local docs/examples/word-count.yaml
