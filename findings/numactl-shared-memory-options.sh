#!/usr/bin/env bash
# numactl 2.0.16 (Debian 2.0.16-1): --touch and the other options for shared memory do not apply to a
# command. --touch does not fault in the memory of the command: numactl refuses it. --strict is
# accepted, but does nothing; a numactl that ends with 0 has not made -m any stricter.
#
# The manual lists these options next to --membind and --cpunodebind. They belong to the other use of
# numactl, which sets the policy of a segment or of a file in tmpfs and runs no command (numactl.c,
# main: needshm, noshm, did_strict).
#
# Seen:
#   -m 0 --touch: exit 1, numactl: --touch must be after shared memory specification
#   -m 0 --length 1m: exit 1, numactl: shm related option --length for process
#   -m 0 --huge: exit 1, numactl: shm related option --huge for process
#   -m 0 --strict: exit 0, numactl: warning. Strict flag for process ignored.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download numactl libnuma1 >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f numactl_*.deb Package Version | tr '\n' ' '
echo
export LD_LIBRARY_PATH=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
run() {
	local code=0 said
	said=$(root/usr/bin/numactl "$@" true 2>&1 >/dev/null) || code=$?
	said=$(head -1 <<<"$said")
	echo "$*: exit $code, ${said%usage:*}" # numactl ends the line with the usage
}
touch=$(run -m 0 --touch)
length=$(run -m 0 --length 1m)
huge=$(run -m 0 --huge)
strict=$(run -m 0 --strict)
printf '%s\n' "$touch" "$length" "$huge" "$strict"
[[ $touch == *"exit 1"* && $length == *"exit 1"* && $huge == *"exit 1"* ]] || { echo "numactl accepts an option for shared memory with a command now"; exit 1; }
[[ $strict == *"exit 0"*ignored* ]] || { echo "--strict is not ignored any more"; exit 1; }
