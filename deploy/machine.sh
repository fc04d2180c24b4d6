# shellcheck shell=bash
# What the scripts beside this file share: finding the toolchain, naming what is missing, installing
# that and nothing else. Sourced, never run.

# Where builds go: outside the clone, so that a fresh clone finds what the last one built. RocksDB
# and the expression engine take most of an hour of CPU time and change seldom.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/millstream/target}"

# Debian packages that are missing.
missing=()

# require COMMAND PACKAGE...: the packages bring the command.
require() {
    command -v "$1" >/dev/null || missing+=("${@:2}")
}

# Makes `cargo` known, or says how to get it.
find_cargo() {
    if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
        # shellcheck source=/dev/null
        . "$HOME/.cargo/env"
    fi
    if ! command -v cargo >/dev/null; then
        local version
        version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
        echo "cargo is missing: install Rust $version or newer, with rustup or from its archive" >&2
        exit 1
    fi
}

# Installs what `require` found missing.
install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    local root=()
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "as root, run first: apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        root=(sudo)
    fi
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# CPU-seconds that the children of this script have used.
cpu_seconds() {
    local stat
    stat=$(cat "/proc/$$/stat")
    # Behind the program's name, which may hold blanks: the 14th and 15th field.
    read -r -a stat <<<"${stat##*) }"
    echo $(((stat[13] + stat[14]) / $(getconf CLK_TCK)))
}
