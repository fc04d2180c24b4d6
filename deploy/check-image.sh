#!/usr/bin/env bash
# Do the steps of the Dockerfile work, and does what they make run? Carries them out without Docker, in
# trees made by debootstrap, then runs a jobmanager and two taskmanagers from the result: as the image's
# user, with a root that cannot be written, each with an address of its own. Counts the words of the
# documentation in the image, and compares with the shell's own tools.
#
#   deploy/check-image.sh [--binaries DIR] [--keep]
#
# --binaries  takes jobmanager, taskmanager and millstream from there instead of building them, which
#             takes about an hour of CPU time; every other step is carried out
# --keep      keeps the tree and says where it is
#
# Needs root, debootstrap, iproute2, python3, Debian's packages and, without --binaries, a Rust
# toolchain. No part of CI: minutes of network that say nothing new about most changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. deploy/tree.sh

binaries='' keep=''
while [ $# -gt 0 ]; do
    case $1 in
    --binaries)
        binaries=$2
        shift
        ;;
    --keep) keep=yes ;;
    *)
        echo "usage: $0 [--binaries DIR] [--keep]" >&2
        exit 2
        ;;
    esac
    shift
done

scratch=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill -9 "$child" 2>/dev/null || true; done
    # What was killed here is not worth a message.
    wait 2>/dev/null || true
    if [ -n "$keep" ]; then
        echo "kept: $scratch" >&2
    else
        # Nothing is mounted here: all mounts belong to the namespaces of the commands below.
        rm -rf --one-file-system "$scratch"
    fi
}
trap finish EXIT

echo "== the base: a minimal Debian 12" >&2
make_tree bookworm "$scratch/debian"

echo "== the steps of the Dockerfile" >&2
options=(--base "debian:12-slim=$scratch/debian")
if [ -n "$binaries" ]; then
    mkdir -p "$scratch/built/src/target/release"
    cp "$binaries/jobmanager" "$binaries/taskmanager" "$binaries/millstream" "$scratch/built/src/target/release/"
    options+=(--base "rust:1.95-slim-bookworm=$scratch/debian" --instead "cargo build=$scratch/built")
else
    cp -a "$scratch/debian" "$scratch/rust"
    add_toolchain "$scratch/rust"
    options+=(--base "rust:1.95-slim-bookworm=$scratch/rust")
fi
python3 deploy/image.py "${options[@]}" deploy/Dockerfile . "$scratch"
image=$scratch/image
echo "== the image: $(du -sm "$image" | cut -f 1) MiB, of which $(du -sm "$scratch/debian" | cut -f 1) are the base" >&2
of_image() { python3 -c 'import json, sys; print(eval(sys.argv[2], json.load(open(sys.argv[1]))))' "$scratch/image.json" "$1"; }
user=$(of_image user)
workdir=$(of_image workdir)
path=$(of_image "env['PATH']")
[ "${user%:*}" -gt 0 ] || { echo "the image runs as root" >&2; exit 1; }

echo "== a jobmanager and two taskmanagers from the image, as $user" >&2
mkdir "$scratch/data" "$scratch/state-1" "$scratch/state-2" "$scratch/state-3"
# A new volume takes its rights from the directory of the image that it is mounted at.
for each in data:lib state-1:cache state-2:cache state-3:cache; do
    mode=$(stat -c '%u:%g %a' "$image/var/${each#*:}/millstream")
    chown "${mode% *}" "$scratch/${each%:*}"
    chmod "${mode#* }" "$scratch/${each%:*}"
done
printf '127.0.0.1 localhost\n10.91.0.1 jobmanager\n' >"$scratch/hosts"
unshare --net bash -c 'ip link add br0 type bridge && ip link set br0 up && exec sleep infinity' &
network_pid=$!
children+=("$network_pid")
until nsenter --net="/proc/$network_pid/ns/net" ip link show br0 >/dev/null 2>&1; do sleep 0.1; done

# container NUMBER NAME PROGRAM...: with address 10.91.0.NUMBER; its process id is the last child.
container() {
    unshare --net --mount --uts --ipc --propagation private bash deploy/container.sh \
        --root "$image" --name "$2" --network "$network_pid" --address "10.91.0.$1/24" \
        --user "$user" --workdir "$workdir" --tmpfs /tmp --memory 1073741824 \
        --mount "$scratch/data:/var/lib/millstream" --mount "$scratch/state-$1:/var/cache/millstream" \
        --mount "$scratch/hosts:/etc/hosts:ro" --env "PATH=$path" \
        --env MILLSTREAM_JOBMANAGER_RPC_ADDRESS=jobmanager --env MILLSTREAM_SECURITY_TRANSPORT=plaintext \
        --env MILLSTREAM_JOBMANAGER_BIND_HOST=0.0.0.0 --env MILLSTREAM_TASKMANAGER_BIND_HOST=0.0.0.0 \
        --env MILLSTREAM_STATE_BACKEND_ROCKSDB_LOCALDIR=/var/cache/millstream \
        -- "${@:3}" >"$scratch/$2.log" 2>&1 &
    children+=("$!")
}
mapfile -t command < <(of_image "'\n'.join(command)")
container 1 jobmanager "${command[@]}"
jobmanager=$!
container 2 taskmanager-1 taskmanager --config /etc/millstream/taskmanager.yaml
container 3 taskmanager-2 taskmanager --config /etc/millstream/taskmanager.yaml
taskmanager=$!

# first PID: process 1 of a container. in_container PID COMMAND...: what `docker exec` does.
first() { cat "/proc/$1/task/$1/children"; }
in_container() {
    nsenter --target "$(first "$1" | tr -d ' ')" --mount --uts --ipc --net --pid --root --wd \
        setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups \
        env -i "PATH=$path" MILLSTREAM_JOBMANAGER_RPC_ADDRESS=jobmanager "${@:2}"
}
for _ in $(seq 100); do
    sleep 0.2
    overview=$(nsenter --net="/proc/$jobmanager/ns/net" curl -s http://127.0.0.1:8081/overview || true)
    case $overview in *'"taskmanagers":2'*) break ;; esac
done
case $overview in
*'"taskmanagers":2'*) ;;
*)
    echo "no two taskmanagers after 20 s: $overview" >&2
    tail -n 20 "$scratch"/{jobmanager,taskmanager-?}.log >&2
    exit 1
    ;;
esac

echo "== the health check, in both" >&2
for each in "$jobmanager" "$taskmanager"; do in_container "$each" sh -c "$(of_image health)"; done

echo "== words, counted on the cluster" >&2
in_container "$jobmanager" millstream run word-count.yaml -m jobmanager:6123 >"$scratch/counted" ||
    { tail -n 20 "$scratch"/{jobmanager,taskmanager-?}.log >&2; exit 1; }
find docs -name '*.md' -exec awk 1 {} + | tr A-Z a-z | LC_ALL=C tr -cs a-z0-9 '\n' | grep . | sort | uniq -c |
    awk '{ print $2 ", " $1 }' | LC_ALL=C sort >"$scratch/by-the-shell"
grep '^[0-9]*> ' "$scratch/counted" | sed 's/^[0-9]*> //' | LC_ALL=C sort >"$scratch/by-millstream"
diff "$scratch/by-the-shell" "$scratch/by-millstream" ||
    { echo "the counts differ: < tr, sort, uniq; > millstream" >&2; exit 1; }
grep -q '^2> ' "$scratch/counted" || { echo "one subtask did it all" >&2; exit 1; }
# Not even root could write, who has all other rights there.
! nsenter --target "$(first "$jobmanager" | tr -d ' ')" --mount --root touch /etc/written 2>/dev/null ||
    { echo "the root can be written" >&2; exit 1; }

echo "== stopped by SIGTERM" >&2
for each in "$taskmanager" "$jobmanager"; do
    kill -TERM "$(first "$each" | tr -d ' ')"
    wait "$each" || { echo "exit code $? after SIGTERM" >&2; tail -n 20 "$scratch"/{jobmanager,taskmanager-?}.log >&2; exit 1; }
done
echo "== fine: $(wc -l <"$scratch/by-millstream") words, counted alike by tr, sort and uniq" >&2
