#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): reapply_sysctl=1, which is on unless told and lets "the
# system's sysctl files" win over a profile, reads those files by rules of its own: three
# valid kinds of line or place of sysctl.d(5) do not win.
#
# 1. "-key = value" (do not complain if it cannot be set) is taken for a key named "-key",
#    which no kernel has, and is passed over without a message.
# 2. "net/ipv4/conf/eth0.100/rp_filter", the spelling for names with a dot in them, has its
#    dot made a slash as well, so the interface is never found, again without a message.
# 3. Of two files of one name, the one in /run/sysctl.d wins; for systemd-sysctl and procps
#    it is the one in /etc/sysctl.d.
# A plain "key = value" wins as documented (plugins/plugin_sysctl.py). The reading of lines
# and the order of the folders are unchanged in TuneD's repository in August 2026.
#
# Both read the same files, in a mount namespace of their own, after a profile wrote
# "profile" into each of the keys plain, dash, eth0.100/rp_filter and twice. Seen:
#   systemd-sysctl: file file file etc
#   TuneD:          file profile profile run
#
# It needs root, for the mount namespace in which /proc/sys is a folder of its own.
set -euo pipefail
work=$(mktemp -d)
[[ -d /run/sysctl.d ]] || made=/run/sysctl.d
trap 'rm -rf "$work"; [[ -z ${made:-} ]] || rmdir "$made"' EXIT
cd "$work"
chmod 755 .
apt-get download tuned python3-pyudev python3-six python3-linux-procfs systemd libsystemd-shared >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
for p in tuned systemd; do dpkg-deb -f "$p"_*.deb Package Version | paste -sd' '; done
mkdir -p /run/sysctl.d
keys=(vm/plain vm/dash net/ipv4/conf/eth0.100/rp_filter vm/twice)
mkdir -p proc/vm proc/net/ipv4/conf/eth0.100 etc run
printf 'vm.plain = file\n-vm.dash = file\nnet/ipv4/conf/eth0.100/rp_filter = file\n' >etc/10-site.conf
echo 'vm.twice = etc' >etc/20-site.conf
echo 'vm.twice = run' >run/20-site.conf
cat >reapply.py <<'E2'
import sys
sys.path.insert(0, "root/usr/lib/python3/dist-packages")
from tuned.plugins import plugin_sysctl
plugin_sysctl._apply_system_sysctl({})
E2
run() { # a program, with these files alone, after a profile wrote each key
	for k in "${keys[@]}"; do echo profile >"proc/$k"; done
	LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu:$work/root/usr/lib/x86_64-linux-gnu/systemd:$work/root/lib/systemd" \
		unshare --mount --propagation private sh -euc '
			work=$1; shift
			for d in /usr/local/lib/sysctl.d /usr/lib/sysctl.d /lib/sysctl.d; do
				[ ! -d "$d" ] || mount -t tmpfs none "$d"
			done
			mount --bind "$work/etc" /etc/sysctl.d
			mount --bind "$work/run" /run/sysctl.d
			mount --bind /dev/null /etc/sysctl.conf 2>/dev/null || true
			mount --bind "$work/proc" /proc/sys
			"$@"' sh "$work" "$@" >/dev/null 2>&1 || true
	for k in "${keys[@]}"; do echo "$(head -n 1 "proc/$k")"; done | paste -sd' '
}
systemd=$(run root/lib/systemd/systemd-sysctl)
tuned=$(run python3 reapply.py)
echo "plain, dash, eth0.100/rp_filter, twice"
echo "systemd-sysctl: $systemd"
echo "TuneD:          $tuned"
[[ $systemd == "file file file etc" ]] || { echo "systemd-sysctl reads the files otherwise now"; exit 1; }
[[ $tuned == "file profile profile run" ]] || { echo "TuneD reads the files otherwise now"; exit 1; }
