#!/usr/bin/env bash
# wrk 4.1.0 (Debian 4.1.0-3+b2): the percentiles that wrk prints are not those of the
# responses it got: it adds samples for requests that it never sent.
#
# wrk is known as the closed-loop generator without a correction for "coordinated
# omission", which wrk2 was made for. But it has one: at the end, each sample longer
# than twice the mean time between the requests of a connection brings further samples,
# shorter by that time each (wrk.c, stats_correct). With a server that is slow once in a
# hundred requests, the median is right, and the 75th percentile is half of a stall that
# one response in a hundred had. "requests" counts the real responses only. So neither
# can percentiles of wrk be compared with those of a log of the server, nor with ab's or
# hey's; and which correction was made depends on the mean, so on the stalls themselves.
#
# The server answers at once, but every 100th request after 500 ms. Seen:
#   the server: 1.0 % of its responses took 500 ms
#   wrk:        75% 249.46ms, 90% 400.47ms
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
            if seen % 100 == 0:
                await asyncio.sleep(0.5)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
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
LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu root/usr/bin/wrk -t1 -c1 -d10s --latency "http://127.0.0.1:$(cat port)/" >said
echo "the server: 1.0 % of its responses took 500 ms"
awk '$1 == "75%" || $1 == "90%" { s = s (s ? ", " : "") $1 " " $2 } END { print "wrk:        " s }' said
grep -qE '^ +75% +[12][0-9]{2}\.[0-9]+ms' said || { echo "wrk prints the percentiles of the responses now"; cat said; exit 1; }
