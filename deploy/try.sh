#!/usr/bin/env bash
# The first run: installs what is missing, builds the command line alone, and counts the words of
# this repository's documentation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/millstream/target}"

if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
    # shellcheck source=/dev/null
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer" >&2
    exit 1
fi

# A linker and a C compiler for the few crates that hold C; no C++, no libclang: RocksDB is left out.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)

cat <<TEXT
Millstream: first run
  installs: ${missing[*]:-nothing, all is there}
  builds:   the command line without RocksDB, into $CARGO_TARGET_DIR
            (about 12 CPU-minutes the first time; 2 cores need 6 to 8 minutes, seconds later on)
  runs:     docs/examples/word-count.yaml
TEXT

if [ ${#missing[@]} -gt 0 ]; then
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

before=$(awk '{print $16 + $17}' /proc/$$/stat)
cargo build --quiet --profile ci -p millstream-cli --no-default-features
after=$(awk '{print $16 + $17}' /proc/$$/stat)
echo "  built in $(((after - before) / $(getconf CLK_TCK))) CPU-seconds" >&2
echo >&2
exec "$CARGO_TARGET_DIR/ci/millstream" local docs/examples/word-count.yaml
