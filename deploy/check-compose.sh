#!/usr/bin/env bash
# Do both generations of Compose read docker-compose.yaml, and alike? Takes Compose 1.29.2 from Debian
# 12 and Compose 2 from Debian 13, each in a tree of its own. No engine is needed.
#
#   deploy/check-compose.sh
#
# Needs root, debootstrap and Debian's packages. No part of CI, which has no use for another release
# of Debian; the test `deploy` reads the same file there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/tree.sh

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT

# Says what is wrong with a line that Compose should print.
expect() {
    grep -qE -- "$2" "$1" || { echo "no line like '$2' in:" >&2; cat "$1" >&2; exit 1; }
}

for release in bookworm trixie; do
    tree=$scratch/$release
    make_tree "$release" "$tree"
    in_tree "$tree" "$PWD" 'export DEBIAN_FRONTEND=noninteractive; apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends docker-compose >/dev/null'
    in_tree "$tree" "$PWD" 'docker-compose version --short || docker-compose version' >"$scratch/version"
    compose='cd /mnt/shared && docker-compose -f deploy/docker-compose.yaml'
    in_tree "$tree" "$PWD" "$compose config -q"
    in_tree "$tree" "$PWD" "$compose --profile s3 config -q"
    in_tree "$tree" "$PWD" "$compose --env-file deploy/s3.env --profile s3 config -q"

    in_tree "$tree" "$PWD" "$compose config" >"$scratch/plain"
    expect "$scratch/plain" 'MILLSTREAM_CHECKPOINTING_DIR: /var/lib/millstream/checkpoints'
    # Without a value: unset in the container, not empty.
    ! grep -E 'MILLSTREAM_S3_[A-Z_]+: *("" *|'"'' *"')$' "$scratch/plain" ||
        { echo "a variable that is not given is empty instead of unset" >&2; exit 1; }

    in_tree "$tree" "$PWD" "$compose --env-file deploy/s3.env --profile s3 config" >"$scratch/s3"
    expect "$scratch/s3" 'MILLSTREAM_CHECKPOINTING_DIR: s3://millstream/checkpoints'
    expect "$scratch/s3" 'MILLSTREAM_S3_ENDPOINT: http://s3:8333'
    expect "$scratch/s3" 'MILLSTREAM_S3_SECRET_KEY: for-trying-only'
    expect "$scratch/s3" 'AWS_SECRET_ACCESS_KEY: for-trying-only'
    echo "Compose $(head -n 1 "$scratch/version") of $release: fine"
done
