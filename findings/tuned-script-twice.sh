#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): a child profile with a [script] section that names no
# script runs each inherited script twice, at start and at stop.
#
# Such a section is what a child writes to change an attribute of it, for example
# enabled=, priority= or uname_regex=. The merger joins the parent's list of scripts with
# the list "of the child", after the child's options were laid over the parent's: where the
# child has no script, that is the parent's list again (profiles/merger.py, _merge_two).
# plugin_script then walks over the list. It is unchanged in TuneD's repository in
# August 2026.
#
# Seen, with the package's own loader and plug-in:
#   start ran: parent.sh start, parent.sh start
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download tuned python3-pyudev python3-six python3-linux-procfs >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f tuned_*.deb Package Version | tr '\n' ' '
echo
mkdir -p profiles/parent profiles/child
printf '[script]\nscript=parent.sh\n' >profiles/parent/tuned.conf
printf '#!/bin/sh\necho "parent.sh $1" >>%s/ran\n' "$work" >profiles/parent/parent.sh
chmod 755 profiles/parent/parent.sh
printf '[main]\ninclude=parent\n\n[script]\nuname_regex=.*\n' >profiles/child/tuned.conf
cat >start.py <<'E2'
import sys
sys.path.insert(0, "root/usr/lib/python3/dist-packages")
from tuned import profiles
from tuned.plugins.plugin_script import ScriptPlugin
from tuned.utils.global_config import GlobalConfig
variables = profiles.variables.Variables()
load = profiles.Loader(profiles.locator.Locator([sys.argv[1]]), profiles.factory.Factory(), profiles.merger.Merger(),
                       GlobalConfig("root/etc/tuned/tuned-main.conf"), variables)
plugin = ScriptPlugin.__new__(ScriptPlugin)
plugin._variables = variables
plugin._call_scripts(load.load(["child"]).units["script"].options["script"], ["start"])
E2
python3 start.py "$work/profiles" 2>err || { cat err; exit 1; }
echo "start ran: $(paste -sd, ran | sed 's/,/, /g')"
[ "$(grep -cx 'parent.sh start' ran)" = 2 ] || { echo "the parent's script runs once now"; exit 1; }
