#!/usr/bin/env bash
# A line "-KEY" without a value in sysctl.d(5) does not only keep patterns away
# from KEY: with systemd-sysctl it also takes back an assignment of KEY that was
# read before it. procps reads the same two lines as the assignment alone.
#
# Versions: Debian 12 packages systemd 252 (systemd-sysctl) and procps 4.0.2
#   (sysctl --system).
# Behavior: of the lines
#       net.ipv4.conf.eth0.rp_filter = 2
#       -net.ipv4.conf.eth0.rp_filter
#   systemd-sysctl writes nothing, and sysctl --system writes 2. sysctl.d(5) says
#   that such a line excludes the key from "being set by a matching glob". So a
#   machine has one value after a boot and another one after sysctl --system.
# Output seen (Debian 12, systemd 252.39-1~deb12u2, procps 2:4.0.2-3):
#   systemd-sysctl leaves: as it was
#   sysctl --system leaves: 2
#
# It needs root, for a mount namespace in which /proc/sys is a folder of its own.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
if [ "$(id -u)" = 0 ]; then chown _apt "$dir" 2>/dev/null || true; fi
apt-get download systemd libsystemd-shared procps libproc2-0 >/dev/null
for deb in ./*.deb; do
	dpkg-deb -f "$deb" Package Version | paste -sd' '
	dpkg-deb -x "$deb" root
done
key=net/ipv4/conf/eth0/rp_filter
mkdir -p "proc/$(dirname $key)" etc
printf 'net.ipv4.conf.eth0.rp_filter = 2\n-net.ipv4.conf.eth0.rp_filter\n' >etc/10-test.conf

run() { # the program, in a namespace with these files alone
	echo 'as it was' >"proc/$key"
	LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu:$dir/root/lib/x86_64-linux-gnu:$dir/root/usr/lib/x86_64-linux-gnu/systemd:$dir/root/lib/systemd" \
		unshare --mount --propagation private sh -euc '
			dir=$1; shift
			for d in /etc/sysctl.d /run/sysctl.d /usr/local/lib/sysctl.d /usr/lib/sysctl.d /lib/sysctl.d; do
				[ ! -d "$d" ] || mount -t tmpfs none "$d"
			done
			[ -d /etc/sysctl.d ]
			mount --bind "$dir/etc" /etc/sysctl.d
			mount --bind /dev/null /etc/sysctl.conf 2>/dev/null || true
			mount --bind "$dir/proc" /proc/sys
			"$@"' sh "$dir" "$@" >/dev/null 2>&1 || true
	cat "proc/$key" | head -n 1
}
systemd=$(run "$dir/root/lib/systemd/systemd-sysctl")
procps=$(run "$dir/root/sbin/sysctl" --system)
echo "systemd-sysctl leaves: $systemd"
echo "sysctl --system leaves: $procps"
[ "$systemd" = 'as it was' ] || { echo "systemd-sysctl does not take the assignment back any more"; exit 1; }
[ "$procps" = 2 ] || { echo "procps does not keep the assignment any more"; exit 1; }
