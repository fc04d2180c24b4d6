#!/usr/bin/env bash
# What building and testing everything needs, as far as it is missing: packages of Debian, two parts
# of the Rust toolchain, and Python packages in an environment of their own. Says first what it will
# install; when all is there it changes nothing and is done at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/machine.sh
find_cargo

# RocksDB is C++, and its bindings are made by libclang.
require c++ g++
require make make
require clang clang
compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null || missing+=(libclang-dev)
# Tests ask REST with curl, send signals with kill, and build networks of namespaces.
require curl curl
[ -x /bin/kill ] || missing+=(procps)
require ip iproute2
require python3 python3
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

# A minimal toolchain lacks these two.
components=()
cargo fmt --version >/dev/null 2>&1 || components+=(rustfmt)
cargo clippy --version >/dev/null 2>&1 || components+=(clippy)

# The Python environment is complete when it holds a copy of the list it was made from.
venv=$HOME/.cache/millstream/venv
python=()
if ! cmp -s deploy/requirements.txt "$venv/requirements.txt"; then
    mapfile -t python < <(sed 's/ *#.*//' deploy/requirements.txt | grep .)
fi

if [ ${#missing[@]} -eq 0 ] && [ ${#components[@]} -eq 0 ] && [ ${#python[@]} -eq 0 ]; then
    echo "setup: all is there" >&2
    exit 0
fi
cat >&2 <<TEXT
Millstream: what tests need
  Debian packages:   ${missing[*]:-all are there}
  Rust components:   ${components[*]:-all are there}
  Python packages:   ${python[*]:-all are there}${python:+, into $venv}
  (2 to 3 minutes when everything is missing, mostly download; the build that follows the first
  time takes 60 to 70 CPU-minutes, a third of it RocksDB)
TEXT
install_missing
if [ ${#components[@]} -gt 0 ]; then
    command -v rustup >/dev/null || { echo "install ${components[*]} for this Rust toolchain" >&2; exit 1; }
    rustup component add "${components[@]}"
fi
if [ ${#python[@]} -gt 0 ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r deploy/requirements.txt
    cp deploy/requirements.txt "$venv/requirements.txt"
fi
