# shellcheck shell=bash
# Trees of other systems, and commands in them: for checks that must not see this machine's packages.
# Sourced, never run. Needs root and debootstrap.

[ "$(id -u)" = 0 ] || { echo "$0 needs root: it makes a tree of another system" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "install debootstrap first" >&2; exit 1; }

# make_tree RELEASE DIRECTORY [PACKAGE,...]: a minimal Debian. The way to the network is this
# machine's: names, certificates, what apt was told about its sources.
make_tree() {
    debootstrap --variant=minbase --include="ca-certificates${3:+,$3}" "$1" "$2" >"$2.log" ||
        { tail -n 20 "$2.log" >&2; exit 1; }
    cp /etc/resolv.conf "$2/etc/resolv.conf"
    # Every installed system has it, but not what debootstrap makes.
    printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$2/etc/hosts"
    cp /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/ca-certificates.crt"
    apt-config dump | grep '^Acquire::Check' >"$2/etc/apt/apt.conf.d/90machine" || true
}

# Variables that commands need to reach the network as this machine does.
network=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE PIP_CERT; do
    [ -z "${!name:-}" ] || network+=("$name=${!name}")
done

# Rust as its archive lays it out, which a newcomer may unpack below /usr/local.
add_toolchain() {
    local sysroot
    sysroot=$(rustc --print sysroot)
    cp -a "$sysroot/bin" "$sysroot/lib" "$sysroot/libexec" "$1/usr/local/"
}

# inside TREE SHARED COMMAND...: in the tree, with namespaces of its own for mounts and processes;
# both go with the command. The directory SHARED is at /mnt/shared and cannot be written.
inside() {
    unshare --mount --pid --fork --kill-child --propagation private bash -s -- "$@" <<'SCRIPT'
set -euo pipefail
tree=$1 shared=$2
shift 2
# A root that is a mount, as everywhere: else `unshare --mount` would be refused in there.
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mount -t sysfs sysfs "$tree/sys"
mkdir -p "$tree/mnt/shared"
mount --bind -o ro "$shared" "$tree/mnt/shared"
exec chroot "$tree" "$@" </dev/null
SCRIPT
}

# in_tree TREE SHARED SCRIPT: the same for a script, with a clean environment.
in_tree() {
    inside "$1" "$2" /usr/bin/env -i HOME=/root TERM=dumb \
        PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "${network[@]}" bash -c "$3"
}
