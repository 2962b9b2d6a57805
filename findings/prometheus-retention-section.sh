#!/usr/bin/env bash
# Prometheus 3.16.0 (github.com/prometheus/prometheus v0.316.0): a section
# storage.tsdb.retention of the configuration file takes the place of both retention flags, also
# of the one that it does not mention. With --storage.tsdb.retention.time=30d and a section that
# has only a size, samples are kept without a limit of time; with an empty section ({}) there is
# no limit at all, not even the default of 15 days. /api/v1/status/flags then shows 0s for the
# flag that was given as 30d, and the file's size for a flag that was not given.
#
# Seen, with size: 1GB in the file and the flag of 30d:
#   "storageRetention":"1GiB"
#   "storage.tsdb.retention.size":"1GiB"  "storage.tsdb.retention.time":"0s"
# and with {}: "storageRetention":""
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
export CGO_ENABLED=0 GOWORK=off GOFLAGS='-mod=mod -trimpath -pgo=off'
printf 'module example.com/prometheus\n\ngo 1.26.0\n' >go.mod
go get -tool github.com/prometheus/prometheus/cmd/prometheus@v0.316.0 2>/dev/null
go build -tags=remove_all_sd -o prometheus github.com/prometheus/prometheus/cmd/prometheus # minutes
go list -m github.com/prometheus/prometheus
api=http://127.0.0.1:18490/api/v1/status
runs() { # with a section of retention: what it says of itself
	printf 'storage: {tsdb: {retention: %s}}\n' "$1" >prometheus.yml
	./prometheus --config.file=prometheus.yml --storage.tsdb.path="$dir/data" --web.listen-address=127.0.0.1:18490 --storage.tsdb.retention.time=30d 2>log &
	pid=$!
	curl -s --retry 60 --retry-connrefused --retry-delay 1 -o /dev/null "$api/runtimeinfo"
	curl -sS "$api/runtimeinfo" "$api/flags" | grep -oE '"(storageRetention|storage.tsdb.retention.(time|size))":"[^"]*"' | sort | tr '\n' ' '
	kill "$pid"
	wait "$pid" || true
	pid=
}
size=$(runs '{size: 1GB}')
none=$(runs '{}')
printf '%s\n' "$size" "$none"
[[ $size == *'"storageRetention":"1GiB"'* && $size == *'retention.time":"0s"'* && $size == *'retention.size":"1GiB"'* ]] || { echo "the flag counts next to the section now" >&2; exit 1; }
[[ $none == *'"storageRetention":""'* ]] || { echo "an empty section has a limit now" >&2; exit 1; }
