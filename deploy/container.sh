#!/usr/bin/env bash
# One container without an engine, for tests and checks: a program with root directory, mounts,
# address, process numbers and rights of its own, made of namespaces by util-linux and iproute2.
#
#   unshare --net --mount --uts --ipc --propagation private \
#       bash deploy/container.sh OPTIONS -- PROGRAM [ARGUMENT...]
#
#   --root DIR            its root; only directories, and what --mount and --tmpfs put there, are needed
#   --name NAME           host name
#   --network PID         a process in whose network namespace there is a bridge br0
#   --address A/BITS      address of eth0, which is a port of that bridge
#   --user UID:GID        who the program runs as: without capabilities, and cannot get any
#   --workdir DIR         where it runs
#   --mount SOURCE:TARGET[:ro]
#   --tmpfs TARGET
#   --memory BYTES        what the program finds as the limit of its control group; nothing is enforced
#   --writable            the root can be written
#   --env NAME=VALUE      it gets these variables and no others
#
# PROGRAM is process 1. When this process ends, so do all processes of the container.
set -euo pipefail

root='' name='' network='' address='' user='' workdir=/ memory='' writable=''
mounts=() tmpfs=() variables=()
while [ "$1" != -- ]; do
    case $1 in
    --root) root=$2 ;;
    --name) name=$2 ;;
    --network) network=$2 ;;
    --address) address=$2 ;;
    --user) user=$2 ;;
    --workdir) workdir=$2 ;;
    --mount) mounts+=("$2") ;;
    --tmpfs) tmpfs+=("$2") ;;
    --memory) memory=$2 ;;
    --env) variables+=("$2") ;;
    --writable)
        writable=yes
        shift
        continue
        ;;
    *)
        echo "unknown option $1" >&2
        exit 2
        ;;
    esac
    shift 2
done
shift

hostname "$name"

# A cable from the bridge. Both ends go when one of the two namespaces does.
bridge() { nsenter --net="/proc/$network/ns/net" ip "$@"; }
bridge link add "port$$" type veth peer name eth0 netns $$
bridge link set "port$$" master br0 up
ip link set lo up
ip link set eth0 up
case $address in
*:*) ip address add "$address" dev eth0 nodad ;;
*) ip address add "$address" dev eth0 ;;
esac

mount --bind "$root" "$root"
for each in "${mounts[@]}"; do
    IFS=: read -r source target mode <<<"$each"
    [ -e "$root$target" ] || [ -d "$source" ] || touch "$root$target"
    mount --bind "$source" "$root$target"
    [ "$mode" != ro ] || mount -o remount,bind,ro "$root$target"
done
for target in "${tmpfs[@]}"; do
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root$target"
done
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
if [ -n "$memory" ]; then
    # Both versions of control groups, as seen from within a group.
    mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/sys"
    mkdir -p "$root/sys/fs/cgroup/memory"
    echo "$memory" >"$root/sys/fs/cgroup/memory.max"
    echo "$memory" >"$root/sys/fs/cgroup/memory/memory.limit_in_bytes"
fi
[ -n "$writable" ] || mount -o remount,bind,ro "$root"

# A change of user takes back what --kill-child has set, so it is set again behind it.
exec unshare --pid --fork --kill-child --mount-proc --root="$root" --wd="$workdir" \
    setpriv --pdeathsig=KILL --reuid="${user%:*}" --regid="${user#*:}" --clear-groups \
    --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i "${variables[@]}" "$@"
