#!/usr/bin/env bash
# Apache httpd 2.4.71 (Debian apache2-bin 2.4.71-1~deb12u1): the default of
# MaxRequestWorkers with the event and worker modules is the constant 400, not
# ServerLimit x ThreadsPerChild, as "16 (ServerLimit) multiplied by the value of 25
# (ThreadsPerChild)" in its documentation is easily read. A smaller or
# an uneven ThreadsPerChild alone makes httpd change a MaxRequestWorkers that no file sets.
#
# Seen with "ThreadsPerChild 7" and nothing else:
#   AH00513: WARNING: MaxRequestWorkers of 400 is not an integer multiple of
#   ThreadsPerChild of 7, decreasing to nearest multiple 399, for a maximum of 57 servers.
#   AH00515: WARNING: MaxRequestWorkers of 399 would require 57 servers and would exceed
#   ServerLimit of 16, decreasing to 112.
# and with "ThreadsPerChild 50" 400, where 16 x 50 would be 800: no message.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq apache2-bin libapr1 libaprutil1 >/dev/null 2>&1 || { echo "the Debian packages cannot be fetched" >&2; exit 2; }
for p in *.deb; do dpkg-deb -f "$p" Package Version | tr '\n' ' '; dpkg -x "$p" root; done
echo
lib=$dir/root/usr/lib
check() {
	printf 'ServerRoot %s\nServerName localhost\nListen 127.0.0.1:18099\nPidFile %s/pid\nErrorLog /dev/stderr\nLoadModule mpm_event_module %s/apache2/modules/mod_mpm_event.so\nLoadModule authz_core_module %s/apache2/modules/mod_authz_core.so\n%s\n' \
		"$dir" "$dir" "$lib" "$lib" "$1" >"$dir/httpd.conf"
	LD_LIBRARY_PATH=$(echo "$lib"/*-linux-gnu) "$dir/root/usr/sbin/apache2" -t -f "$dir/httpd.conf" 2>&1
}
seven=$(check 'ThreadsPerChild 7')
fifty=$(check 'ThreadsPerChild 50')
echo "$seven"
grep -q 'MaxRequestWorkers of 400 is not an integer multiple of ThreadsPerChild of 7' <<<"$seven" && grep -q 'decreasing to 112' <<<"$seven" ||
	{ echo "the default of MaxRequestWorkers is not 400 any more with ThreadsPerChild 7" >&2; exit 1; }
! grep -q MaxRequestWorkers <<<"$fifty" || { echo "the default of MaxRequestWorkers depends on ThreadsPerChild 50: $fifty" >&2; exit 1; }
# 800 threads are what the documentation promises; asked for, they are accepted as they are.
more=$(check $'ThreadsPerChild 50\nMaxRequestWorkers 801')
grep -q 'MaxRequestWorkers of 801 .* 800' <<<"$more" || { echo "801 is not made 800: $more" >&2; exit 1; }
