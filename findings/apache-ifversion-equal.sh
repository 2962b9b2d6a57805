#!/usr/bin/env bash
# Apache httpd 2.4.71 (Debian apache2-bin 2.4.71-1~deb12u1), mod_version: <IfVersion = 2.4>
# and <IfVersion 2.4> do not hold for 2.4.71. What the version leaves out is 0, so they
# mean 2.4.0; <= 2.4 does not hold either, and > 2.4 does. A regular expression is needed
# for "any 2.4": = /^2\.4/ or ~ ^2\.4 (with ~ the slashes would be part of it).
#
# Seen: "2.4" no, "= 2.4" no, "<= 2.4" no, "> 2.4" yes, ">= 2.4" yes, "= /^2\.4/" yes,
# "~ ^2\.4" yes, "~ /^2\.4/" no.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq apache2-bin libapr1 libaprutil1 >/dev/null 2>&1 || { echo "the Debian packages cannot be fetched" >&2; exit 2; }
for p in *.deb; do dpkg-deb -f "$p" Package Version | tr '\n' ' '; dpkg -x "$p" root; done
echo
lib=$dir/root/usr/lib
holds() { # prints yes where what stands in <IfVersion $1> is read: it makes httpd warn
	printf 'ServerRoot %s\nServerName localhost\nListen 127.0.0.1:18099\nPidFile %s/pid\nErrorLog /dev/stderr\nLoadModule mpm_event_module %s/apache2/modules/mod_mpm_event.so\nLoadModule authz_core_module %s/apache2/modules/mod_authz_core.so\n<IfVersion %s>\nMaxRequestWorkers 1\n</IfVersion>\n' \
		"$dir" "$dir" "$lib" "$lib" "$1" >"$dir/httpd.conf"
	out=$(LD_LIBRARY_PATH=$(echo "$lib"/*-linux-gnu) "$dir/root/usr/sbin/apache2" -t -f "$dir/httpd.conf" 2>&1) || { echo "$out" >&2; exit 2; }
	if grep -q AH00511 <<<"$out"; then echo yes; else echo no; fi
}
while IFS='|' read -r condition want; do
	is=$(holds "$condition")
	echo "<IfVersion $condition>: $is"
	[ "$is" = "$want" ] || { echo "<IfVersion $condition> is $is, and was $want" >&2; exit 1; }
done <<'TABLE'
2.4|no
= 2.4|no
<= 2.4|no
> 2.4|yes
>= 2.4|yes
= /^2\.4/|yes
~ ^2\.4|yes
~ /^2\.4/|no
TABLE
