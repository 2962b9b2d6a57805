#!/usr/bin/env bash
# A container's cpu.weight from its CPU shares depends on the version of
# github.com/opencontainers/cgroups, the library of runc and crun's relatives.
#
# Versions: github.com/opencontainers/cgroups v0.0.2 and v0.0.3.
# Behavior: up to v0.0.2 ConvertCPUSharesToCgroupV2Value maps shares to weight
#   with a straight line through (2, 1) and (262144, 10000), so a pod that asks
#   for one CPU (1024 shares) gets weight 39, well below the kernel's default of
#   100. From v0.0.3 the curve is fitted so that 1024 shares are weight 100.
#   Two nodes of one cluster with other runtimes share CPUs differently: between
#   0.1 and 1 CPU the ratio is 10.0 before and 5.9 after.
# Output seen:
#   v0.0.2 2:1 102:4 512:20 1024:39 2048:79 262144:10000
#   v0.0.3 2:1 102:17 512:59 1024:100 2048:174 262144:10000
set -euo pipefail

dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cat >"$dir/main.go" <<'GO'
package main

import (
	"fmt"

	"github.com/opencontainers/cgroups"
)

func main() {
	for _, shares := range []uint64{2, 102, 512, 1024, 2048, 262144} {
		fmt.Printf(" %d:%d", shares, cgroups.ConvertCPUSharesToCgroupV2Value(shares))
	}
	fmt.Println()
}
GO

status=0
check() {
	local version=$1 want=$2 got
	mkdir "$dir/$version"
	cp "$dir/main.go" "$dir/$version/"
	got=$(cd "$dir/$version" && go mod init weights >/dev/null 2>&1 &&
		go get "github.com/opencontainers/cgroups@$version" >/dev/null 2>&1 && go run .)
	echo "$version$got"
	[[ $got == "$want" ]] || { echo "changed: $version was expected to print$want" >&2; status=1; }
}
check v0.0.2 ' 2:1 102:4 512:20 1024:39 2048:79 262144:10000'
check v0.0.3 ' 2:1 102:17 512:59 1024:100 2048:174 262144:10000'
exit $status
