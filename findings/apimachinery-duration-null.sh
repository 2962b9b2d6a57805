#!/usr/bin/env bash
# k8s.io/apimachinery v0.34.4, metav1.Duration: null is refused ("time: invalid duration
# """), although json.Unmarshaler asks implementations to take null as a no-op, and the
# types next to it (metav1.Time, resource.Quantity) do. So does a KubeletConfiguration with
# "cpuManagerReconcilePeriod: null" stop the loader of kubelet 1.34.4 ("failed to decode:
# time: invalid duration"), while "cpuManagerPolicy: null" is the default.
#
# Seen: Duration: time: invalid duration ""; Time: no error; Quantity: no error; a pointer
# to a Duration: no error.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	var d struct{ V metav1.Duration }
	var t struct{ V metav1.Time }
	var q struct{ V resource.Quantity }
	var p struct{ V *metav1.Duration }
	null := []byte(`{"V":null}`)
	of := json.Unmarshal(null, &d)
	fmt.Println("Duration:", of)
	fmt.Println("Time:", json.Unmarshal(null, &t))
	fmt.Println("Quantity:", json.Unmarshal(null, &q))
	fmt.Println("*Duration:", json.Unmarshal(null, &p))
	if of == nil || json.Unmarshal(null, &t) != nil || json.Unmarshal(null, &q) != nil || json.Unmarshal(null, &p) != nil {
		fmt.Println("null is taken otherwise than before")
		os.Exit(1)
	}
}
GO
export GOFLAGS=-mod=mod GOWORK=off
go mod init example.com/null >/dev/null 2>&1
go get k8s.io/apimachinery@v0.34.4 >/dev/null 2>&1 || { echo "the module cannot be fetched" >&2; exit 2; }
go run .
