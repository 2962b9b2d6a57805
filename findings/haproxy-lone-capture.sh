#!/usr/bin/env bash
# HAProxy 2.6.12 (Debian haproxy 2.6.12-1+deb12u4), option httplog: the documentation shows
# captured headers as "{request headers} {response headers}". A frontend that captures
# headers of one side only writes one pair of braces, at the same place for both sides, and
# no blank for the missing one: the line does not say which side it was, so a parser
# that takes the first braces for the request is wrong for half of such set-ups.
#
# Seen (times and ports left out), the first from "capture request header X-Same len 9",
# the second from "capture response header X-Same len 9":
#   ... 200 59 - - ---- 1/1/0/0/0 0/0 {same} "GET / HTTP/1.0"
#   ... 200 59 - - ---- 1/1/0/0/0 0/0 {same} "GET / HTTP/1.0"
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 >/dev/null 2>&1 || { echo "the Debian packages cannot be fetched" >&2; exit 2; }
for p in *.deb; do dpkg-deb -f "$p" Package Version | tr '\n' ' '; dpkg -x "$p" root; done
echo
cat >cfg <<E
global
 log stdout format raw local0
defaults
 mode http
 option httplog
 timeout client 5s
 timeout connect 5s
 timeout server 5s
frontend f
 log global
 bind unix@$dir/request
 capture request header X-Same len 9
 default_backend b
frontend g
 log global
 bind unix@$dir/response
 capture response header X-Same len 9
 default_backend b
backend b
 server s unix@$dir/back
frontend back
 bind unix@$dir/back
 http-request return status 200 hdr X-Same same
E
LD_LIBRARY_PATH=$(echo root/usr/lib/*-linux-gnu) root/usr/sbin/haproxy -db -f cfg >log 2>err &
pid=$!
ask() {
	perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); for (1 .. 100) { last if connect(S, pack_sockaddr_un($ARGV[0])); select(undef, undef, undef, 0.1) }
		syswrite(S, "GET / HTTP/1.0\r\nX-Same: same\r\n\r\n"); while (sysread(S, $b, 4096)) {}' "$dir/$1"
}
ask request
ask response
for _ in {1..100}; do (($(wc -l <log) >= 2)) && break; sleep 0.1; done
mapfile -t lines < <(sed -E 's/^.* (200 [0-9]+ - - ----) [0-9/]+/\1 1\/1\/0\/0\/0/' log)
printf '%s\n' "${lines[@]}"
[[ ${#lines[@]} == 2 && ${lines[0]} == *'{same}'* ]] || { echo "not two requests with a captured header: $(cat log err)" >&2; exit 1; }
[[ ${lines[0]} == "${lines[1]}" ]] || { echo "the line now says the side of a lone capture" >&2; exit 1; }
