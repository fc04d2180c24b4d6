#!/usr/bin/env bash
# Every check and test, from a fresh clone: installs what is missing, then what CI runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/machine.sh
find_cargo
bash deploy/setup.sh
exec cargo xtask ci
