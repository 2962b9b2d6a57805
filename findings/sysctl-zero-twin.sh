#!/usr/bin/env bash
# systemd-sysctl and procps' sysctl leave different limits from one and the same file.
#
# Debian 12: systemd 252 (systemd-sysctl), procps 4.0.2; Linux 6.18.
# vm.overcommit_ratio and vm.overcommit_kbytes are two spellings of one limit, and so
# are vm.dirty_background_bytes and vm.dirty_background_ratio: each write to one zeroes
# the other, also a write of the value that is there already (mm/util.c
# overcommit_kbytes_handler, mm/page-writeback.c). A file that gives the value first and
# "the other one = 0" behind it, as output of `sysctl -a` that was kept may have it:
# systemd-sysctl reads first and writes only what differs, so the value stays;
# sysctl -p writes both lines, and the limit is 0 in both spellings.
# Seen:
#   systemd-sysctl: overcommit_ratio 65 overcommit_kbytes 0 | background_bytes 400000000 background_ratio 0
#   sysctl -p:      overcommit_ratio 0 overcommit_kbytes 0 | background_bytes 0 background_ratio 0
#
# Needs root, apt-get and a writable /proc/sys; the four values are put back.
set -euo pipefail
work=$(mktemp -d)
declare -A before
names=(overcommit_ratio overcommit_kbytes dirty_background_ratio dirty_background_bytes)
for n in "${names[@]}"; do before[$n]=$(cat "/proc/sys/vm/$n"); done
restore() {
  for n in "${names[@]}"; do [ "${before[$n]}" = 0 ] || echo "${before[$n]}" >"/proc/sys/vm/$n"; done
}
trap 'restore; rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download -qq systemd libsystemd-shared procps libproc2-0 >/dev/null
for f in *.deb; do dpkg -x "$f" root; done
echo "versions: $(ls ./*.deb | tr '\n' ' ')"
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu/systemd:$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu
cat >limits.conf <<'F'
vm.overcommit_ratio = 65
vm.overcommit_kbytes = 0
vm.dirty_background_bytes = 400000000
vm.dirty_background_ratio = 0
F
show() {
  echo "overcommit_ratio $(cat /proc/sys/vm/overcommit_ratio) overcommit_kbytes $(cat /proc/sys/vm/overcommit_kbytes) | background_bytes $(cat /proc/sys/vm/dirty_background_bytes) background_ratio $(cat /proc/sys/vm/dirty_background_ratio)"
}
start() { echo 50 >/proc/sys/vm/overcommit_ratio; echo 10 >/proc/sys/vm/dirty_background_ratio; }
start
root/lib/systemd/systemd-sysctl "$work/limits.conf"
one=$(show)
start
root/sbin/sysctl -q -p "$work/limits.conf"
two=$(show)
printf 'systemd-sysctl: %s\nsysctl -p:      %s\n' "$one" "$two"
[ "$one" = "overcommit_ratio 65 overcommit_kbytes 0 | background_bytes 400000000 background_ratio 0" ] || { echo "systemd-sysctl does not keep the first line's value any more" >&2; exit 1; }
[ "$two" = "overcommit_ratio 0 overcommit_kbytes 0 | background_bytes 0 background_ratio 0" ] || { echo "sysctl -p does not leave both spellings 0 any more" >&2; exit 1; }
