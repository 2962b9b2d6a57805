#!/usr/bin/env bash
# The load generator hey sends fewer requests than -n asks for.
#
# Version: github.com/rakyll/hey v0.1.4.
# Behavior: -n is divided by the number of workers (-c) and rounded down, and
#   each worker sends that many. With -n 100 -c 60 it sends 60 requests, 40 %
#   less than asked, with exit code 0 and no message; the rate limit -q is per
#   worker. A comparison of two runs by "total requests" compares other loads.
# Output seen:
#   -n 100 -c 50: 100 requests
#   -n 10 -c 3: 9 requests
#   -n 100 -c 60: 60 requests
set -euo pipefail

dir=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
GOBIN=$dir go install github.com/rakyll/hey@v0.1.4 2>/dev/null
cat >"$dir/server.py" <<'PY'
import http.server
import os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        os.write(1, b"request\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer.request_queue_size = 256
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$dir/server.py" >"$dir/out" &
server=$!
for _ in $(seq 100); do
	[[ -s $dir/out ]] && break
	sleep 0.1
done
port=$(head -n 1 "$dir/out")

status=0
check() {
	local n=$1 c=$2 want=$3 before after
	before=$(grep -c request "$dir/out" || true)
	"$dir/hey" -n "$n" -c "$c" "http://127.0.0.1:$port/" >/dev/null
	after=$(grep -c request "$dir/out")
	echo "-n $n -c $c: $((after - before)) requests"
	[[ $((after - before)) == "$want" ]] || { echo "changed: $want were expected" >&2; status=1; }
}
check 100 50 100
check 10 3 9
check 100 60 60
exit $status
