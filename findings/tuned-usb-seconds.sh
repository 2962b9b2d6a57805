#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): [usb] autosuspend=, documented as a time in seconds with
# 0 for "disabled", is a boolean: 5 seconds become 0, and 0 is what the kernel takes for
# "suspend at once".
#
# The plug-in reads the value with _option_bool and writes "1" or "0" to
# power/autosuspend of the device; only true, 1 and their like give "1". The kernel's
# file (Documentation/driver-api/usb/power-management.rst) takes seconds: 0 lets an idle
# device sleep without delay, and only a negative number keeps it awake. So the manual's
# example for "turn off autosuspend", autosuspend=0, asks for the contrary, and so does -1.
# "tuned-adm verify" compares with what was written and finds it right. It is unchanged
# in TuneD's repository in August 2026.
#
# Seen, autosuspend= in the profile and what the plug-in makes of it:
#   0 -> 0   1 -> 1   2 -> 0   5 -> 0   -1 -> 0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download tuned python3-pyudev python3-six python3-linux-procfs >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f tuned_*.deb Package Version | tr '\n' ' '
echo
cat >usb.py <<'E2'
import os, sys
sys.path.insert(0, "root/usr/lib/python3/dist-packages")
from tuned.plugins.plugin_usb import USBPlugin
from tuned.utils.commands import commands
plugin = USBPlugin.__new__(USBPlugin)
plugin._cmd = commands()
plugin._autosuspend_sysfile = lambda device: os.path.join(os.getcwd(), "autosuspend")
for value in ("0", "1", "2", "5", "-1"):
    plugin._set_autosuspend(value, "1-1", False)
    print(value, "->", open("autosuspend").read().strip())
E2
python3 usb.py | paste -sd' ' | sed 's/ \([-0-9]* ->\)/   \1/g' | tee said
grep -qx '0 -> 0   1 -> 1   2 -> 0   5 -> 0   -1 -> 0' said || { echo "autosuspend= is read as seconds now"; exit 1; }
