#!/usr/bin/env bash
# nfpm 2.45.1 (rpmpack 0.7.1): the names in the payload of an rpm begin with "/", and rpmlint
# 2.4.0 (Debian 2.4.0+ds1-0.2) unpacks with "rpm2cpio FILE | cpio -id". GNU cpio -i keeps
# absolute names, so that rpmlint, run as root, installs the package on the machine that only
# checks it: it overwrites programs and units, without an entry in any package database.
#
# rpmbuild writes "./usr/bin/x" (rpm itself takes both), so that the same line is harmless for
# every package of a distribution. rpmlint then also reports "no-binary" and a D-Bus policy that
# it cannot find, because nothing is in its own directory. packaging/lint gives rpmlint a cpio
# with --no-absolute-filenames.
#
# Seen, in a mount namespace whose /opt is empty:
#   payload: /opt/finding/file
#   rpmlint has written /opt/finding/file
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for program in rpm2cpio cpio rpmlint unshare; do
	command -v "$program" >/dev/null || { echo "$program is missing (rpm2cpio, cpio, rpmlint, util-linux)"; exit 1; }
done
nfpm=$(GOWORK=off go tool -n -modfile=tools/package/go.mod nfpm)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo content >"$work/file"
cat >"$work/nfpm.yaml" <<E2
name: finding
arch: amd64
version: 1.0.0
maintainer: nobody <nobody@example.com>
description: finding
license: Apache-2.0
contents: [{src: $work/file, dst: /opt/finding/file}]
E2
"$nfpm" package --config "$work/nfpm.yaml" --packager rpm --target "$work/finding.rpm" >/dev/null
echo "payload: $(rpm2cpio "$work/finding.rpm" | cpio -t 2>/dev/null)"
unshare --mount sh -c 'mount -t tmpfs tmpfs /opt && { rpmlint "$1" >/dev/null 2>&1; find /opt -type f; }' - "$work/finding.rpm" >"$work/found"
[ "$(cat "$work/found")" = /opt/finding/file ] || { echo "rpmlint writes nothing outside of its directory now"; exit 1; }
echo "rpmlint has written $(cat "$work/found")"
