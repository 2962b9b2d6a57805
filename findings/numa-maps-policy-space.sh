#!/usr/bin/env bash
# Linux: the name of a memory policy in /proc/PID/numa_maps may contain a space: "prefer (many):0" of
# MPOL_PREFERRED_MANY (5.15) and "weighted interleave:0" of MPOL_WEIGHTED_INTERLEAVE (6.9).
#
# numa(7) describes the second field of a line as the policy. A program that splits a line at spaces
# reads "prefer" and "weighted", without the nodes, and takes "(many):0" for the first attribute
# (mm/mempolicy.c, policy_modes and mpol_to_str; fs/proc/task_mmu.c, show_numa_map).
#
# Seen on Linux 6.18:
#   numactl --preferred-many=0: 2 words: prefer (many):0
#   numactl --membind=0: 1 word: bind:0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download numactl libnuma1 >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f numactl_*.deb Package Version | tr '\n' ' '
echo "Linux: $(uname -r)"
export LD_LIBRARY_PATH=$work/root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
# The policy stands between the address and the first attribute (file=, anon=, heap, stack).
policy() { root/usr/bin/numactl "$1" cat /proc/self/numa_maps | sed -n 's/^[0-9a-f]* \(.*\) file=.*/\1/p' | head -1; }
many=$(policy --preferred-many=0)
bind=$(policy --membind=0)
echo "numactl --preferred-many=0: $(wc -w <<<"$many") words: $many"
echo "numactl --membind=0: $(wc -w <<<"$bind") word: $bind"
[[ $many == "prefer (many):0" ]] || { echo "the name has no space any more: $many"; exit 1; }
[[ $bind == bind:0 ]] || { echo "bind is not printed as bind:0: $bind"; exit 1; }
