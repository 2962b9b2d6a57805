#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): a child profile that adds one option to an inherited
# section also takes the section's devices= away, so that the inherited options are then
# set on every device of the machine.
#
# TuneD's manual says that sections of one name are merged, and that the child's values
# win over the parent's. An option that the child does not write is kept. devices=,
# type= and enabled= are attributes, not options: one that the child does not write
# has its default there ("*" for devices), and the default wins as if it were written
# (profiles/merger.py, _merge_two). The regexp attributes (devices_udev_regex and others)
# are kept. It is unchanged in TuneD's repository in August 2026.
#
# Here the package's own loader reads a parent for sda and a child that adds a scheduler.
# Seen:
#   parent: [disk] devices=sda readahead=4096
#   child:  [disk] devices=* readahead=4096 elevator=none
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download tuned >/dev/null 2>&1
dpkg -x tuned_*.deb root
dpkg-deb -f tuned_*.deb Package Version | tr '\n' ' '
echo
mkdir -p profiles/parent profiles/child
printf '[disk]\ndevices=sda\nreadahead=4096\n' >profiles/parent/tuned.conf
printf '[main]\ninclude=parent\n\n[disk]\nelevator=none\n' >profiles/child/tuned.conf
cat >load.py <<'E2'
import sys
sys.path.insert(0, "root/usr/lib/python3/dist-packages")
from tuned import profiles
from tuned.utils.global_config import GlobalConfig
for name in ("parent", "child"):
    load = profiles.Loader(profiles.locator.Locator(["profiles"]), profiles.factory.Factory(), profiles.merger.Merger(),
                           GlobalConfig("root/etc/tuned/tuned-main.conf"), profiles.variables.Variables())
    disk = load.load([name]).units["disk"]
    print(name + ": [disk] devices=" + disk.devices, *("%s=%s" % o for o in disk.options.items()))
E2
python3 load.py 2>/dev/null | tee said
grep -qx 'child: \[disk\] devices=\* readahead=4096 elevator=none' said || { echo "a child keeps the devices of its parent now"; exit 1; }
