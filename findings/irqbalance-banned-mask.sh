#!/usr/bin/env bash
# irqbalance 1.9.2 (Debian 1.9.2-1): it says that IRQBALANCE_BANNED_CPUS is discarded and asks for
# IRQBALANCE_BANNED_CPULIST instead. But if both are set, the mask counts and the list does not.
#
# An administrator who adds the list as the message asks, and leaves the old line in place
# (/etc/default/irqbalance), still has the CPUs of the mask banned, and those of the list not. With
# the mask alone it counts as well; "discarded" means deprecated.
#
# /proc/irq is read-only here, so no interrupt is moved. Seen:
#   mask 1 (CPU 0) alone:             banned CPUs 00000001, "discarded" is said
#   list 1 (CPU 1) alone:             banned CPUs 00000002
#   mask 1 and list 1 (CPU 0, CPU 1): banned CPUs 00000001, "discarded" is said
set -euo pipefail
[[ $(id -u) == 0 ]] || { echo "needs root for a mount namespace"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download irqbalance libcap-ng0 libnuma1 >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f irqbalance_*.deb Package Version | tr '\n' ' '
echo
# ask VARIABLES...: the banned CPUs, and whether irqbalance says that the mask is discarded.
ask() {
	unshare --mount env "$@" LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu:root/lib/x86_64-linux-gnu sh -c '
		mount --bind /proc/irq /proc/irq && mount -o remount,bind,ro /proc/irq && mount -t tmpfs none /run || exit 1
		timeout 20 root/usr/sbin/irqbalance --foreground --debug --oneshot' >said 2>&1 || true
	banned=$(sed -n 's/^Banned CPUs: //p' said | head -n 1)
	note=
	if grep -q 'IRQBALANCE_BANNED_CPUS is discarded' said; then note=', "discarded" is said'; fi
	echo "$*: banned CPUs $banned$note"
}
ask IRQBALANCE_BANNED_CPUS=1
[[ $banned == 00000001 && -n $note ]] || { echo "the mask alone is handled otherwise now"; exit 1; }
ask IRQBALANCE_BANNED_CPULIST=1
[[ $banned == 00000002 && -z $note ]] || { echo "the list alone is handled otherwise now"; exit 1; }
ask IRQBALANCE_BANNED_CPUS=1 IRQBALANCE_BANNED_CPULIST=1
[[ $banned == 00000001 && -n $note ]] || { echo "the list counts now if both are set"; exit 1; }
