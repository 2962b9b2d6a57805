#!/usr/bin/env bash
# syft 1.52.0, SPDX of a Go program: where the module cache of the machine has the modules, syft takes
# licenses from there. A file counts as a license by its name, also pgproto3/notice_response.go of
# pgx 5.12.0, which is program text. The reference to it (crossRefs) is "file://$GOPATH/...", which
# spdx-tools 0.8.5, SPDX's own validator, rejects. The same program on a machine without the modules
# gives a valid document. SYFT_GOLANG_SEARCH_LOCAL_MOD_CACHE_LICENSES=false gives it everywhere.
#
# Seen:
#   by default: 1 cross_reference must be a valid URL
#   without the search: 0
#
# It builds syft, which takes minutes.
set -euo pipefail
for program in go python3; do
	command -v "$program" >/dev/null || { echo "$program is missing"; exit 1; }
done
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0 SYFT_CHECK_FOR_APP_UPDATE=false
GOBIN=$work go install github.com/anchore/syft/cmd/syft@v1.52.0
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install spdx-tools==0.8.5
mkdir "$work/program"
cd "$work/program"
cat >main.go <<'E2'
package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

func main() { fmt.Println(pgproto3.NoticeResponse{}) }
E2
go mod init example.com/program 2>/dev/null
go get -q github.com/jackc/pgx/v5@v5.12.0 2>/dev/null || go get github.com/jackc/pgx/v5@v5.12.0 2>/dev/null
go mod tidy 2>/dev/null
go build -o program .
# look SEARCH: how many references to the file, and what the validator says.
look() {
	SYFT_GOLANG_SEARCH_LOCAL_MOD_CACHE_LICENSES=$1 "$work/syft" "$work/program/program" -q --output "spdx-json=$work/$1.spdx.json"
	local said
	said=$("$work/venv/bin/pyspdxtools" -i "$work/$1.spdx.json" 2>&1 | grep -o 'cross_reference must be a valid URL' | head -n 1) || true
	echo "$(grep -o 'file://[^"]*notice_response.go' "$work/$1.spdx.json" | wc -l) $said"
}
true=$(look true) false=$(look false)
echo "by default: $true"
echo "without the search: $false"
[[ $true == "1 cross_reference must be a valid URL" && $false == "0 " ]]
