#!/usr/bin/env bash
# TuneD 2.20.0 (Debian 2.20.0-1): a child profile that overrides a variable of its parent
# with a text that refers to a variable of its own gets the text "${name}", not the value.
#
# Within one file, a variable may refer to those above it. The merger lays the child's
# variables over the parent's, and Python's ordered dictionary leaves an overridden one
# in the parent's place, before the child's new ones; they are then evaluated in that
# order (profiles/merger.py _merge_two, profiles/variables.py add_from_cfg). Nothing is
# logged, and the text goes on into every option that uses the variable. The newer
# prepend= of 2.28 lets the child move its new variables to the front by hand.
#
# Seen, with the package's own loader, for a child whose two lines stand in the right order:
#   child alone:        nr=8 pages=8 line=pages are 8
#   child over parent:  nr=8 pages=${nr} line=pages are ${nr}
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download tuned >/dev/null 2>&1
dpkg -x tuned_*.deb root
dpkg-deb -f tuned_*.deb Package Version | tr '\n' ' '
echo
mkdir -p profiles/parent profiles/child profiles/alone
printf '[variables]\npages=4\nline=pages are ${pages}\n' >profiles/parent/tuned.conf
printf '[main]\ninclude=parent\n\n[variables]\nnr=8\npages=${nr}\n' >profiles/child/tuned.conf
printf '[variables]\nnr=8\npages=${nr}\nline=pages are ${pages}\n' >profiles/alone/tuned.conf
cat >load.py <<'E2'
import sys
sys.path.insert(0, "root/usr/lib/python3/dist-packages")
from tuned import profiles
from tuned.utils.global_config import GlobalConfig
for name, says in (("alone", "child alone:       "), ("child", "child over parent: ")):
    variables = profiles.variables.Variables()
    profiles.Loader(profiles.locator.Locator(["profiles"]), profiles.factory.Factory(), profiles.merger.Merger(),
                    GlobalConfig("root/etc/tuned/tuned-main.conf"), variables).load([name])
    print(says, *("%s=%s" % (v, variables.expand("${%s}" % v)) for v in ("nr", "pages", "line")))
E2
python3 load.py 2>/dev/null | tee said
grep -q '^child alone: .*line=pages are 8$' said || { echo "one file is read otherwise now"; exit 1; }
grep -qF 'line=pages are ${nr}' said || { echo "a child's override can refer to its new variables now"; exit 1; }
