#!/usr/bin/env bash
# numactl 2.0.16 (Debian 2.0.16-1): of several options for CPUs the last one counts alone. They
# neither narrow each other nor conflict.
#
# -N NODES and -C CPUS look as if they could be combined: "these CPUs, on that node". numactl sets
# the affinity at once for each option in the order of the call (numactl.c, main), so the second one
# replaces the first without a word. `numactl -C 0 -N 0` runs on every CPU of node 0. Two options for
# memory, such as -m and -i, are refused as "Conflicting policies".
#
# Seen on a machine with CPUs 0 and 1 on node 0:
#   -C 0 -N 0: CPUs 0-1
#   -N 0 -C 0: CPUs 0
#   -C 0 -C 1: CPUs 1
#   -m 0 -i 0: numactl: Conflicting policies
set -euo pipefail
cpus=$(cat /sys/devices/system/node/node0/cpulist)
grep -q '^0[-,]1' <<<"$cpus" || { echo "needs CPUs 0 and 1 on node 0; it has $cpus"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download numactl libnuma1 >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f numactl_*.deb Package Version | tr '\n' ' '
echo
export LD_LIBRARY_PATH=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
run() { root/usr/bin/numactl "$@" sed -n 's/Cpus_allowed_list:\t/CPUs /p' /proc/self/status 2>&1 | head -1; }
node_last=$(run -C 0 -N 0)
cpu_last=$(run -N 0 -C 0)
second=$(run -C 0 -C 1)
memory=$(run -m 0 -i 0 || true)
memory=${memory%usage:*} # numactl ends the line with the usage
printf '%s\n' "-C 0 -N 0: $node_last" "-N 0 -C 0: $cpu_last" "-C 0 -C 1: $second" "-m 0 -i 0: $memory"
[[ $node_last == "CPUs $cpus" ]] || { echo "-N does not replace -C any more"; exit 1; }
[[ $cpu_last == "CPUs 0" && $second == "CPUs 1" ]] || { echo "the last -C does not count alone any more"; exit 1; }
[[ $memory == *onflicting* ]] || { echo "two options for memory do not conflict any more"; exit 1; }
