#!/usr/bin/env bash
# etcd 3.7.3 (go.etcd.io/etcd/server/v3 v3.7.3; 3.5.35 and 3.6.12 do the same): an option that
# is both a flag and an environment variable does not have the flag's value. etcd does not
# start, also where both have the same value, and also where the variable is empty: an empty
# variable alone sets nothing. (pkg/flags/flag.go, verifyEnv.) A variable of an option that
# etcd does not have, such as one that 3.7 removed, is a warning only.
#
# Seen: exit status 1 and, for ETCD_SNAPSHOT_COUNT= with --snapshot-count=5000,
#   "level":"fatal" ... "conflicting environment variable is shadowed by corresponding
#   command-line flag (either unset environment variable or disable flag))"
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off
printf 'module example.com/etcd\n\ngo 1.26.0\n' >go.mod
go get -tool go.etcd.io/etcd/server/v3@v3.7.3 2>/dev/null
go build -o etcd go.etcd.io/etcd/server/v3
./etcd --version | head -n 1
unset "${!ETCD_@}"
# A time-out that contradicts the heartbeat keeps it from starting: how far it comes is seen.
try() { timeout 60 env "$1" ./etcd --data-dir data --election-timeout 1 "${@:2}" 2>&1 || true; }
conflict='conflicting environment variable is shadowed by corresponding command-line flag'
checked='should be at least as 5 times as --heartbeat-interval'
for value in '' 5000; do
	out=$(try "ETCD_SNAPSHOT_COUNT=$value" --snapshot-count=5000)
	grep -o "\"fatal\".*$conflict" <<<"$out" | cut -c1-120
	grep -q "$conflict" <<<"$out" || { echo "ETCD_SNAPSHOT_COUNT=$value next to --snapshot-count is accepted now" >&2; exit 1; }
done
out=$(try ETCD_SNAPSHOT_COUNT=)
{ grep -q "$checked" && ! grep -q "$conflict"; } <<<"$out" || { echo "an empty variable alone is not ignored any more" >&2; exit 1; }
out=$(try ETCD_EXPERIMENTAL_MEMORY_MLOCK=true)
grep -o 'unrecognized environment variable","environment-variable":"[^"]*"' <<<"$out" || { echo "a variable without an option is not a warning any more" >&2; exit 1; }
grep -q "$checked" <<<"$out" || { echo "a variable without an option keeps etcd from starting now" >&2; exit 1; }
