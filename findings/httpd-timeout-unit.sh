#!/usr/bin/env bash
# Apache httpd 2.4.71 (Debian apache2-bin 2.4.71-1~deb12u1): the unit behind the number of
# Timeout is ignored without a message, so that "Timeout 500ms" is 500 seconds, while
# "KeepAliveTimeout 500ms" is half a second and ProxyTimeout takes units too. "Timeout never"
# is accepted and is 0. Timeout goes through atoi, the others through
# ap_timeout_parameter_parse, which rejects a unit that it does not know.
#
# Seen: httpd -t says "Syntax OK" for "Timeout 500ms" and for "Timeout never",
# "KeepAliveTimeout has wrong format" for "KeepAliveTimeout never", and server-info says
#   Timeouts: connection: 500    keep-alive: 0
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq apache2-bin libapr1 libaprutil1 >/dev/null 2>&1 || { echo "the Debian packages cannot be fetched" >&2; exit 2; }
for p in *.deb; do dpkg-deb -f "$p" Package Version | tr '\n' ' '; dpkg -x "$p" root; done
echo
lib=$dir/root/usr/lib
httpd() {
	local times=$1
	shift
	{
		printf 'ServerRoot %s\nServerName localhost\nListen 127.0.0.1:18097\nPidFile %s/pid\nErrorLog %s/log\nMutex file:%s\n' "$dir" "$dir" "$dir" "$dir"
		for m in mpm_event authz_core info; do printf 'LoadModule %s_module %s/apache2/modules/mod_%s.so\n' "$m" "$lib" "$m"; done
		printf '%s\n<Location /info>\nSetHandler server-info\n</Location>\n' "$times"
	} >httpd.conf
	LD_LIBRARY_PATH=$(echo "$lib"/*-linux-gnu) root/usr/sbin/apache2 -f "$dir/httpd.conf" "$@"
}
httpd 'Timeout never' -t || { echo "Timeout without a number is rejected now" >&2; exit 1; }
! out=$(httpd 'KeepAliveTimeout never' -t 2>&1) && grep 'wrong format' <<<"$out" || { echo "KeepAliveTimeout without a number is accepted now" >&2; exit 1; }
httpd $'Timeout 500ms\nKeepAliveTimeout 500ms' -X &
pid=$!
page=$(curl -sS --retry 60 --retry-connrefused --retry-delay 1 'http://127.0.0.1:18097/info?server')
times=$(sed -n 's/.*Timeouts:<[^>]*> <tt>\([^<]*\)<.*/\1/p' <<<"$page")
echo "server-info: $times"
grep -q 'connection: 500 .*keep-alive: 0' <<<"$times" || { echo "Timeout 500ms is not 500 s any more: $times" >&2; exit 1; }
