#!/usr/bin/env bash
# HAProxy 2.6.12 (Debian haproxy 2.6.12-1+deb12u4): maxconn is read with atol, and what
# follows the digits is ignored, by haproxy -c too: "maxconn 1k" is one connection, and
# "maxconn x" is as if no line set it. nbthread and tune.bufsize in the same section refuse such
# values, and timeouts take units, so that 20k for 20000 looks right and passes the check.
#
# Seen:
#   maxconn 1k: Configuration file is valid, runs with Maxconn: 1
#   maxconn 70x: Configuration file is valid, runs with Maxconn: 70
#   nbthread 2x: refused
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 >/dev/null 2>&1 || { echo "the Debian packages cannot be fetched" >&2; exit 2; }
for p in *.deb; do dpkg-deb -f "$p" Package Version | tr '\n' ' '; dpkg -x "$p" root; done
echo
LD_LIBRARY_PATH=$(echo root/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
config() {
	printf '%s\n' global " $1" " stats socket $dir/s" defaults ' timeout client 5s' ' timeout connect 5s' ' timeout server 5s' 'frontend f' " bind unix@$dir/f" >cfg
}
runs_with() {
	root/usr/sbin/haproxy -db -f cfg >log 2>&1 &
	pid=$!
	for _ in {1..100}; do
		info=$(perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or exit; syswrite(S, "show info\n"); while (sysread(S, $b, 4096)) { print $b }' "$dir/s")
		[[ $info == *Maxconn:* ]] && break
		sleep 0.1
	done
	kill "$pid"
	wait "$pid" 2>/dev/null || true
	pid=
	grep '^Maxconn: ' <<<"$info"
}
for case in 1k:1 70x:70; do
	config "maxconn ${case%:*}"
	valid=$(root/usr/sbin/haproxy -c -f cfg 2>&1) || { echo "maxconn ${case%:*} is refused now: $valid" >&2; exit 1; }
	got=$(runs_with)
	echo "maxconn ${case%:*}: $valid, runs with $got"
	[[ $got == "Maxconn: ${case#*:}" ]] || { echo "maxconn ${case%:*} is read otherwise now" >&2; exit 1; }
done
config "nbthread 2x"
if root/usr/sbin/haproxy -c -f cfg >/dev/null 2>&1; then echo "nbthread 2x is accepted now" >&2; exit 1; fi
echo "nbthread 2x: refused"
