#!/usr/bin/env bash
# nfpm 2.45.1 (rpmpack 0.7.1) writes the names of an rpm's payload with a leading slash
# ("/opt/finding/file"), rpmbuild 4.18 with "./" ("./opt/finding/file"). rpm takes both; a program
# that unpacks the payload by itself has to drop the slash (cpio --no-absolute-filenames), as
# packaging/lint does for rpmlint.
#
# Seen:
#   nfpm:     /opt/finding/file
#   rpmbuild: ./opt/finding/file
set -euo pipefail
for program in go rpm2cpio cpio rpmbuild; do
	command -v "$program" >/dev/null || { echo "$program is missing (Go; rpm2cpio, cpio, rpm)"; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOBIN=$work GOWORK=off GOFLAGS='' go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.1
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
"$work/nfpm" package --config "$work/nfpm.yaml" --packager rpm --target "$work/nfpm.rpm" >/dev/null
cat >"$work/finding.spec" <<E2
Name: finding
Version: 1.0.0
Release: 1
Summary: finding
License: Apache-2.0
BuildArch: noarch
%description
finding
%install
install -D $work/file %{buildroot}/opt/finding/file
%files
/opt/finding/file
E2
rpmbuild --quiet -bb --define "_topdir $work/build" --define "_rpmdir $work" --define "_rpmfilename rpmbuild.rpm" "$work/finding.spec"
names() { rpm2cpio "$work/$1.rpm" | cpio -t 2>/dev/null | grep '/file$'; }
echo "nfpm:     $(names nfpm)"
echo "rpmbuild: $(names rpmbuild)"
[ "$(names nfpm)" = /opt/finding/file ] && [ "$(names rpmbuild)" = ./opt/finding/file ]
