#!/usr/bin/env bash
# HdrHistogram for Go accepts values above its highest trackable value, and its
# extremes, mean and standard deviation are those of buckets, not of the values.
#
# Version: github.com/HdrHistogram/hdrhistogram-go v1.4.0.
# Behavior: New(1, 3600000000, 2) records 4000000000 without an error (the range
#   ends at the next power of two of its buckets), and only 5000000000 is
#   refused. Max() then answers 4009754623, more than anything recorded. Of the
#   values 1000000 to 1000099 Mean() is 1001472, above the largest of them, and
#   StdDev() is 0, where the true figures are 1000049.5 and 28.9. With three
#   significant digits a constant 1000000 has the mean 1000192. So Mean() is no
#   replacement for a sum of one's own, and StdDev() below half a bucket's width
#   (0.1 % or 1 % of the value) says nothing.
# Output seen:
#   accepted 4000000000: true, 5000000000: false
#   max 4009754623
#   mean 1001472 deviation 0 largest 1000099
#   constant 1000000: mean 1000192
set -euo pipefail

dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cat >"$dir/main.go" <<'GO'
package main

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func main() {
	h := hdrhistogram.New(1, 3600000000, 2)
	fmt.Printf("accepted 4000000000: %t, 5000000000: %t\n", h.RecordValue(4000000000) == nil, h.RecordValue(5000000000) == nil)
	fmt.Println("max", h.Max())
	h = hdrhistogram.New(1, 3600000000, 2)
	for i := range int64(100) {
		_ = h.RecordValue(1000000 + i)
	}
	fmt.Printf("mean %.0f deviation %.0f largest %d\n", h.Mean(), h.StdDev(), 1000099)
	h = hdrhistogram.New(1, 3600000000, 3)
	for range 1000 {
		_ = h.RecordValue(1000000)
	}
	fmt.Printf("constant 1000000: mean %.0f\n", h.Mean())
}
GO
cd "$dir"
go mod init histogram >/dev/null 2>&1
go get github.com/HdrHistogram/hdrhistogram-go@v1.4.0 >/dev/null 2>&1
go run . | tee out
diff - out <<'WANT' || { echo "changed: the lines above differ from what was seen" >&2; exit 1; }
accepted 4000000000: true, 5000000000: false
max 4009754623
mean 1001472 deviation 0 largest 1000099
constant 1000000: mean 1000192
WANT
