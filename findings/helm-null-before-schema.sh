#!/usr/bin/env bash
# Helm 4.2.4 (Go module helm.sh/helm/v4): a value that is set to null is removed together with the
# chart's default before values.schema.json is checked. So a schema that says "type": "integer"
# with a minimum, but does not list the value as required, accepts `--set replicas=null`, and
# the template renders without the value. Only "required" makes Helm refuse it.
#
# Seen: without "required" the template renders "replicas: " and no error; with it
# "missing property 'replicas'".
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
mkdir -p chart/templates
printf 'apiVersion: v2\nname: x\nversion: 0.1.0\n' >chart/Chart.yaml
printf 'replicas: 1\n' >chart/values.yaml
printf 'kind: X\nreplicas: {{ .Values.replicas }}\n' >chart/templates/x.yaml
cat >go.mod <<'M'
module x

go 1.25
M
cat >main.go <<'G'
package main

import (
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	c, err := loader.Load("chart")
	if err == nil {
		var v common.Values
		v, err = util.ToRenderValues(c, map[string]any{"replicas": nil}, common.ReleaseOptions{Name: "x"}, nil)
		if err == nil {
			var out map[string]string
			out, err = engine.Render(c, v)
			fmt.Print(out["x/templates/x.yaml"])
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}
G
export GOFLAGS=-mod=mod GOWORK=off GOPATH=$dir/go
go get helm.sh/helm/v4@v4.2.4 >/dev/null 2>&1 || { echo "the module cannot be fetched" >&2; exit 2; }
go build -o render . >said 2>&1 || { cat said; exit 2; }
echo '{"properties":{"replicas":{"type":"integer","minimum":1}}}' >chart/values.schema.json
without=$(./render) || { echo "refused without required: $without" >&2; exit 1; }
echo '{"required":["replicas"],"properties":{"replicas":{"type":"integer","minimum":1}}}' >chart/values.schema.json
with=$(./render) && { echo "accepted with required: $with" >&2; exit 1; }
printf 'Helm 4.2.4, replicas=null\nwithout required:\n%s\nwith required:\n%s\n' "$without" "$with"
grep -q 'replicas: $' <<<"$without" || grep -q 'replicas: *$' <<<"$without" || { echo "it renders something else" >&2; exit 1; }
