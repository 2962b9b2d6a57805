#!/usr/bin/env bash
# etcd 3.7.3 (go.etcd.io/etcd/server/v3 v3.7.3; 3.5.35 and 3.6.12 do the same): the
# configuration file is read without a check of its keys. A slip (quota-backend-byte), and a key
# that 3.7 removed (experimental-memory-mlock), are ignored without a line in the log, while the
# same as a flag keeps etcd from starting, also next to a configuration file that makes the
# flags count for nothing. A time in the file is a whole number of nanoseconds: "50ms", the only
# form that the flag takes, is refused there, and the flag refuses the number.
#
# Seen: started with "quota-backend-bytes":2147483648 and without the two keys in its log;
#   flag provided but not defined: -experimental-memory-mlock
#   json: cannot unmarshal string into Go struct field configYAML.Config.backend-batch-interval
#   of type time.Duration
#   invalid value "50000000" for flag -backend-batch-interval: parse error
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
export CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off
printf 'module example.com/etcd\n\ngo 1.26.0\n' >go.mod
go get -tool go.etcd.io/etcd/server/v3@v3.7.3 2>/dev/null
go build -o etcd go.etcd.io/etcd/server/v3
./etcd --version | head -n 1
unset "${!ETCD_@}"
config() {
	cat >etcd.yml <<-Y
		data-dir: $dir/data
		listen-client-urls: http://127.0.0.1:18379
		advertise-client-urls: http://127.0.0.1:18379
		listen-peer-urls: http://127.0.0.1:18380
		initial-advertise-peer-urls: http://127.0.0.1:18380
		initial-cluster: default=http://127.0.0.1:18380
		$1
	Y
}
config $'quota-backend-byte: 8589934592\nexperimental-memory-mlock: true'
./etcd --config-file etcd.yml >log 2>&1 &
pid=$!
curl -sS --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:18379/health
echo
kill "$pid"
wait "$pid" || true
pid=
grep -o '"quota-backend-bytes":[0-9]*' log | head -n 1
grep -q '"quota-backend-bytes":2147483648' log || { echo "the slip has another effect now" >&2; exit 1; }
! grep -E 'quota-backend-byte[^s]|experimental-memory-mlock' log || { echo "keys that are not known are in the log now" >&2; exit 1; }
refused() { # what is said of it
	local out
	! out=$(timeout 60 ./etcd --config-file etcd.yml "${@:2}" 2>&1) || { echo "accepted now: ${*:2}" >&2; exit 1; }
	grep -o -m 1 "$1" <<<"$out" || { echo "not refused with \"$1\" any more: $out" >&2; exit 1; }
}
refused 'flag provided but not defined: -experimental-memory-mlock' --experimental-memory-mlock=true
refused 'invalid value "50000000" for flag -backend-batch-interval: parse error' --backend-batch-interval=50000000
config 'backend-batch-interval: 50ms'
refused 'cannot unmarshal string into Go struct field configYAML.Config.backend-batch-interval of type time.Duration'
