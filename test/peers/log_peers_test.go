package peers

import (
	"fmt"
	"os"
	"os/exec"
)

// alpPattern is the format of Puppet's log for alp.
const alpPattern = `^\S+ \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<uri>\S+) [^"]*" (?P<status>\d+) (?P<body_bytes>\d+) (?P<response_time>\d+) `

// mawkAdd adds a duration d to a group, as fettle does: count, sum, squares and extremes.
const mawkAdd = `
function add(t, k) {
	k = t SUBSEP k
	if (!(k in n) || d < least[k]) least[k] = d
	if (d > most[k]) most[k] = d
	n[k]++; sum[k] += d; squares[k] += d * d
}
END { for (k in n) groups++; print groups }`

// mawkProgram groups the log of Puppet.
const mawkProgram = mawkAdd + `
{
	d = $11
	split($7, part, "/")
	resource = substr($7, length(part[2]) + 3)
	add(1, part[2]); add(2, part[3]); add(3, resource); add(4, $1)
}`

// mawkFormats group the logs of other formats.
var mawkFormats = map[string]string{
	"combined": `{ d = $NF; split($7, url, "?"); add(1, $6 " " url[1]); add(2, $1); add(3, $9) }`,
	"distinct": `{ d = $NF; add(1, $7); add(2, $1); add(3, $9); add(4, $6) }`,
	"haproxy": `{
	split($5, times, "/"); d = times[5]
	split($1, client, ":"); split($14, url, "?")
	add(1, $4); add(2, $13 " " url[1]); add(3, client[1]); add(4, $6)
}`,
}

// duckdbFormats read the JSON lines that the groupings need: the members, and method, path, client,
// status and duration in microseconds.
var duckdbFormats = map[string]struct{ members, values string }{
	"caddy": {"request: 'STRUCT(method VARCHAR, uri VARCHAR, client_ip VARCHAR)', status: 'INTEGER', duration: 'DOUBLE'",
		"request.method AS method, split_part(request.uri, '?', 1) AS path, request.client_ip AS client, status, CAST(round(duration * 1e6) AS BIGINT) AS took"},
	"nginx-json":         nginxMembers,
	"nginx-json-escapes": nginxMembers,
	"traefik-json": {"RequestMethod: 'VARCHAR', RequestPath: 'VARCHAR', ClientHost: 'VARCHAR', DownstreamStatus: 'INTEGER', Duration: 'BIGINT'",
		"RequestMethod AS method, split_part(RequestPath, '?', 1) AS path, ClientHost AS client, DownstreamStatus AS status, Duration // 1000 AS took"},
	"envoy-json": {"method: 'VARCHAR', path: 'VARCHAR', downstream_remote_address: 'VARCHAR', response_code: 'INTEGER', duration: 'BIGINT'",
		"method, split_part(path, '?', 1) AS path, split_part(downstream_remote_address, ':', 1) AS client, response_code AS status, duration * 1000 AS took"},
}

var nginxMembers = struct{ members, values string }{"request_method: 'VARCHAR', request_uri: 'VARCHAR', remote_addr: 'VARCHAR', status: 'INTEGER', request_time: 'DOUBLE'",
	"request_method AS method, split_part(request_uri, '?', 1) AS path, remote_addr AS client, status, CAST(round(request_time * 1e6) AS BIGINT) AS took"}

// duckdbJSON groups JSON lines with percentiles. %s are the values, the log and its members.
const duckdbJSON = `SET threads = 1;
CREATE TEMP TABLE log AS SELECT %s FROM read_json('%s', format = 'newline_delimited', columns = {%s});
CREATE TEMP TABLE a AS SELECT method, path, ` + duckdbFigures + ` FROM log GROUP BY ALL;
CREATE TEMP TABLE b AS SELECT client, ` + duckdbFigures + ` FROM log GROUP BY ALL;
CREATE TEMP TABLE c AS SELECT status, ` + duckdbFigures + ` FROM log GROUP BY ALL;
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c);`

const duckdbFigures = `count(*) AS n, sum(took) AS total, stddev_pop(took) AS deviation, min(took) AS least, max(took) AS most, approx_quantile(took, [0.5, 0.9, 0.95, 0.99, 0.999]) AS quantiles`

// formatPeer returns the peer's job for a log of a format: mawk for text, DuckDB for JSON lines. It
// returns nil without DuckDB.
func formatPeer(format, log string) *job {
	if program, ok := mawkFormats[format]; ok {
		return &job{name: "mawk", run: func() *exec.Cmd {
			c := exec.Command("mawk", mawkAdd+program, log)
			c.Env = append(os.Environ(), "LC_ALL=C")
			return c
		}}
	}
	program := os.Getenv("FETTLE_BENCH_DUCKDB")
	if program == "" {
		return nil
	}
	f := duckdbFormats[format]
	return &job{name: "DuckDB", run: func() *exec.Cmd {
		return exec.Command(program, "-c", fmt.Sprintf(duckdbJSON, f.values, log, f.members))
	}}
}

// duckdbProgram does too; the log is its only table.
const duckdbProgram = `SET threads = 1;
CREATE TEMP TABLE log AS
	SELECT c0 AS requestor, split_part(c5, '/', 2) AS environment, split_part(c5, '/', 3) AS indirector,
		regexp_replace(split_part(c5, ' ', 2), '^/[^/]*/', '') AS resource, CAST(c8 AS BIGINT) AS took
	FROM read_csv('%s', delim = ' ', quote = '"', header = false, auto_detect = false,
		columns = {'c0': 'VARCHAR', 'c1': 'VARCHAR', 'c2': 'VARCHAR', 'c3': 'VARCHAR', 'c4': 'VARCHAR', 'c5': 'VARCHAR', 'c6': 'VARCHAR', 'c7': 'VARCHAR', 'c8': 'VARCHAR', 'c9': 'VARCHAR', 'c10': 'VARCHAR'});
CREATE TEMP TABLE a AS SELECT environment, count(*), sum(took), stddev_pop(took), min(took), max(took) FROM log GROUP BY 1;
CREATE TEMP TABLE b AS SELECT indirector, count(*), sum(took), stddev_pop(took), min(took), max(took) FROM log GROUP BY 1;
CREATE TEMP TABLE c AS SELECT resource, count(*), sum(took), stddev_pop(took), min(took), max(took) FROM log GROUP BY 1;
CREATE TEMP TABLE d AS SELECT requestor, count(*), sum(took), stddev_pop(took), min(took), max(took) FROM log GROUP BY 1;
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c), (SELECT count(*) FROM d);`
