#!/usr/bin/env bash
# Is the README true on a machine that has nothing of ours? Makes a minimal Debian 12 tree, puts git
# and this machine's Rust toolchain into it, clones this repository there and runs the README's
# command 1 as a newcomer would; then counts the same words with the shell's own tools.
#
#   deploy/check-bare-machine.sh [--test] [--keep]
#
# --test   runs command 2 as well: every check and test, about an hour of CPU time
# --keep   keeps the tree and says where it is
#
# Needs root, debootstrap, a Rust toolchain and Debian's packages. No part of CI: it takes minutes of
# network and CPU time that say nothing new about most changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

test=false keep=false
for argument in "$@"; do
    case $argument in
    --test) test=true ;;
    --keep) keep=true ;;
    *)
        echo "usage: $0 [--test] [--keep]" >&2
        exit 2
        ;;
    esac
done
. deploy/tree.sh

scratch=$(mktemp -d)
tree=$scratch/tree
finish() {
    if [ "$keep" = true ]; then
        echo "kept: $tree" >&2
    else
        # Nothing is mounted here: all mounts belong to the namespaces of the commands below.
        rm -rf --one-file-system "$scratch"
    fi
}
trap finish EXIT

echo "== a minimal Debian 12" >&2
make_tree bookworm "$tree" git
add_toolchain "$tree"

newcomer() {
    in_tree "$tree" "$repository" "$1"
}

newcomer 'rustc --version; git -c safe.directory="*" clone -q /mnt/shared /root/millstream
          git -C /root/millstream log -1 --format="commit %h"' >&2

echo "== command 1" >&2
newcomer 'cd /root/millstream && bash deploy/try.sh' >"$scratch/counted"
newcomer 'cd /root/millstream && find docs -name "*.md" -exec awk 1 {} + | tr A-Z a-z \
          | LC_ALL=C tr -cs a-z0-9 "\n" | grep . | sort | uniq -c' |
    awk '{ print $2 ", " $1 }' | LC_ALL=C sort >"$scratch/by-the-shell"
sed 's/^[0-9]*> //' "$scratch/counted" | LC_ALL=C sort >"$scratch/by-millstream"
diff "$scratch/by-the-shell" "$scratch/by-millstream" ||
    { echo "the counts differ: < tr, sort, uniq; > millstream" >&2; exit 1; }
echo "== command 1: $(wc -l <"$scratch/by-millstream") words, counted alike by tr, sort and uniq" >&2
[ -s "$scratch/by-millstream" ] || { echo "but there is no word" >&2; exit 1; }

if [ "$test" = true ]; then
    echo "== command 2" >&2
    newcomer 'cd /root/millstream && bash deploy/test.sh'
fi
