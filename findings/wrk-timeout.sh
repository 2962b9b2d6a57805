#!/usr/bin/env bash
# wrk 4.1.0 (Debian 4.1.0-3+b2): --timeout ends no request. wrk waits for the late response,
# counts it as a request that was answered, and leaves its time out of the latencies.
#
# The timeout (2 s unless told) is the size of wrk's table of latencies: a sample that
# has no room there becomes "timeout" in the line of socket errors (wrk.c,
# response_complete). The connection is kept and the response read to its end. So the
# rate counts the late responses, the maximum cannot exceed the timeout, and a server
# that answers one request in ten after 1.2 s looks as fast as one that never stalls.
#
# The server answers at once, but every 10th request after 1.2 s; one connection. Seen:
#   the server: 79 requests, all answered, 7 of them after 1.2 s
#   wrk:        79 requests, timeout 7, maximum 216.75ms
set -euo pipefail
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
apt-get download wrk libluajit-5.1-2 >/dev/null 2>&1
for f in *.deb; do dpkg -x "$f" root; done
dpkg-deb -f wrk_*.deb Package Version | tr '\n' ' '
echo
cat >server.py <<'E2'
import asyncio
seen = 0
async def serve(reader, writer):
    global seen
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            seen += 1
            if seen % 10 == 0:
                await asyncio.sleep(1.2)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            with open("answered", "w") as f:
                f.write("%d %d\n" % (seen, seen // 10))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
E2
python3 server.py >port &
server=$!
for _ in $(seq 100); do [[ -s port ]] && break; sleep 0.1; done
LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu root/usr/bin/wrk -t1 -c1 -d9s --timeout 1s --latency "http://127.0.0.1:$(cat port)/" >said
read -r all late <answered
requests=$(awk '$2 == "requests" { print $1 }' said)
timeouts=$(sed -n 's/.*timeout //p' said)
maximum=$(awk '$1 == "Latency" && NF == 5 { print $4 }' said)
echo "the server: $all requests, all answered, $late of them after 1.2 s"
echo "wrk:        $requests requests, timeout $timeouts, maximum $maximum"
((requests >= all - 1)) || { echo "wrk does not count late responses any more"; exit 1; }
[[ $timeouts == "$late" && $maximum == *ms ]] || { echo "late responses are among the latencies now"; exit 1; }
