package peers

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testroot"
)

// What the log of the bench has: as much as the source's busiest week, of which the
// speeds of fettle logs are promised.
const (
	logLines     = 2_000_000
	logResources = 300_000 // distinct, over all indirectors
	logRounds    = 5
)

// dimensions are what the log is grouped by, by everybody: the four of source 003.
const dimensions = "environment,indirector,resource,requestor"

// alpLines is of how many lines alp makes groups: of all of them it would for hours.
const alpLines = 100_000

// TestBenchLogs measures fettle logs beside grep, mawk, GoAccess, DuckDB and alp on one log,
// in turn, and writes what it found to docs/benchmarks.md.
func TestBenchLogs(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testroot.Program(t, "./cmd/fettle"))
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	resources := writeLog(t, log)
	root := testroot.New(t, testroot.Options{Servers: true, Binds: []testroot.Bind{
		{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}, {Source: dir, Target: "/srv"}},
		Env: []string{"LC_ALL=C"}})
	root.Must("sh", "-c", "gzip -k /srv/access.log")
	fettle := func(workers, file string, more ...string) []string {
		words := []string{"fettle", "logs", "--workers", workers, "--output", "json"}
		for by := range strings.SplitSeq(dimensions, ",") {
			words = append(words, "--by", by)
		}
		return append(append(words, more...), file)
	}
	inRoot := func(words ...string) func() *exec.Cmd { return func() *exec.Cmd { return root.Command(words...) } }
	jobs := []*job{
		{name: "`grep -c`", run: inRoot("grep", "-c", "file_metadata", "/srv/access.log")},
		{name: "fettle logs, four groupings", run: inRoot(fettle("1", "/srv/access.log", "--no-percentiles")...)},
		{name: "the same with percentiles", run: inRoot(fettle("1", "/srv/access.log")...)},
		{name: "without them, two workers", run: inRoot(fettle("2", "/srv/access.log", "--no-percentiles")...)},
		{name: "`gzip -dc`", run: inRoot("sh", "-c", "gzip -dc /srv/access.log.gz | cat >/dev/null")},
		{name: "fettle logs of the compressed log, with percentiles, two workers", run: inRoot(fettle("2", "/srv/access.log.gz")...)},
		{name: "mawk, the same groupings without percentiles", run: inRoot("mawk", mawkProgram, "/srv/access.log")},
	}
	if duckdb := os.Getenv("FETTLE_BENCH_DUCKDB"); duckdb != "" {
		jobs = append(jobs, &job{name: "DuckDB, the same without percentiles, one thread", run: func() *exec.Cmd {
			c := exec.Command(duckdb, "-c", fmt.Sprintf(duckdbProgram, log))
			c.Dir = dir
			return c
		}})
	}
	goaccess := &job{name: "GoAccess, its own panels", run: inRoot("goaccess", "/srv/access.log", "--no-global-config",
		`--log-format=%h %^ %^ [%d:%t %^] "%r" %s %b %D "%R" "%u"`, "--date-format=%d/%b/%Y", "--time-format=%H:%M:%S", "-o", "/tmp/out.json")}
	for range logRounds {
		for _, j := range jobs {
			j.measure(t)
		}
	}
	for range 2 { // twenty times as long as the others
		goaccess.measure(t)
	}
	jobs = append(jobs, goaccess)

	var alp []*job
	if program := os.Getenv("FETTLE_BENCH_ALP"); program != "" {
		some := filepath.Join(dir, "some.log")
		root.Must("sh", "-c", fmt.Sprintf("head -n %d /srv/access.log >/srv/some.log", alpLines))
		alp = []*job{
			{name: "alp, its usual columns of method and URL", run: func() *exec.Cmd {
				return exec.Command(program, "regexp", "--file", some, "--limit", "1000000", "--pattern", alpPattern, "-o", "count,method,uri,min,max,sum,avg,p99")
			}},
			{name: "fettle logs, the same", run: inRoot("fettle", "logs", "--workers", "1", "--output", "json", "--by", "method,url", "/srv/some.log")},
		}
		for range 2 {
			for _, j := range alp {
				j.measure(t)
			}
		}
	}

	one := peak(t, exec.Command(program, fettle("1", log)[1:]...))
	two := peak(t, exec.Command(program, fettle("2", log)[1:]...))
	grep, plain, percentiles := jobs[0].cpu(), jobs[1].cpu(), jobs[2].cpu()
	var b strings.Builder
	var unmet []string
	fmt.Fprintf(&b, "%d requests with %d resources, %d rounds in turn (GoAccess: 2), the log in the page cache; processor time, medians.\n\n| job | CPU, s | of `grep -c`'s | promised |\n|---|---|---|---|\n", logLines, resources, logRounds)
	promise := func(name, got, promised string, met bool) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, got, promised)
		if !met {
			unmet = append(unmet, name+": "+strings.TrimSpace(got)+", promised "+promised)
		}
	}
	for i, j := range jobs {
		at, times := j.cpu(), j.cpu().Seconds()/grep.Seconds()
		got := fmt.Sprintf("%.3f (%.3f-%.3f) | %.1f", at.Seconds(), slices.Min(j.cpus).Seconds(), slices.Max(j.cpus).Seconds(), times)
		switch {
		case i == 1:
			promise(j.name, got, "at most 5", times <= 5)
		case i == 2:
			promise(j.name, got, "at most 7", times <= 7)
		case i == 3:
			faster := jobs[1].wall().Seconds() / j.wall().Seconds()
			promise(j.name, got, fmt.Sprintf("done %.2f times as soon as with one, 1.5 at least", faster), faster >= 1.5)
		case i == 5:
			longer := j.wall().Seconds() / jobs[4].wall().Seconds()
			promise(j.name, got, fmt.Sprintf("done in %.2f of the time of `gzip -dc`, 1 at most", longer), longer <= 1)
		case strings.HasPrefix(j.name, "mawk"):
			promise(j.name, got, fmt.Sprintf("%.1f times fettle's, 6 at least", at.Seconds()/plain.Seconds()), at.Seconds() >= 6*plain.Seconds())
		case strings.HasPrefix(j.name, "DuckDB"):
			promise(j.name, got, fmt.Sprintf("%.1f times fettle's, 4 at least", at.Seconds()/plain.Seconds()), at.Seconds() >= 4*plain.Seconds())
		case j == goaccess:
			promise(j.name, got, fmt.Sprintf("%.1f times fettle's with percentiles, 30 at least", at.Seconds()/percentiles.Seconds()), at.Seconds() >= 30*percentiles.Seconds())
		default:
			promise(j.name, got, "-", true)
		}
	}
	for _, j := range alp {
		promise(fmt.Sprintf("%s, of %d lines", j.name, alpLines), fmt.Sprintf("%.3f | %.1f", j.cpu().Seconds(), j.cpu().Seconds()/grep.Seconds()), "-", true)
	}
	promise("memory at the most with percentiles, one worker, MB", fmt.Sprintf("%.0f | ", one), "at most 250", one <= 250)
	promise("and with two workers, MB", fmt.Sprintf("%.0f | ", two), "at most 450", two <= 450)
	record(t, "logs", b.String(), unmet)
}

// job is one way to answer a question, measured several times.
type job struct {
	name  string
	run   func() *exec.Cmd
	cpus  []time.Duration
	walls []time.Duration
}

func (j *job) measure(t *testing.T) {
	t.Helper()
	c := j.run()
	var out, said strings.Builder // to /dev/null grep would stop at the first line
	c.Stdout, c.Stderr = &out, &said
	start := time.Now()
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", j.name, err, said.String())
	}
	j.walls = append(j.walls, time.Since(start))
	j.cpus = append(j.cpus, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
}

func (j *job) cpu() time.Duration  { return median(j.cpus) }
func (j *job) wall() time.Duration { return median(j.walls) }

// writeLog writes a log of Puppet's requests through Apache, of sixty hours, and says
// how many resources are in it.
func writeLog(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	indirectors := []string{"file_metadata", "file_metadata", "file_metadata", "file_metadata", "file_metadata", "file_metadata", "file_metadata", "file_metadatas", "file_content", "catalog", "report"}
	const nodes = 5000
	seen := map[string]bool{}
	start := time.Date(2012, 3, 18, 4, 2, 25, 0, time.UTC)
	for i := range logLines {
		what, node := indirectors[r.IntN(len(indirectors))], r.IntN(nodes)
		when := start.Add(time.Duration(float64(i) / logLines * 60 * float64(time.Hour)))
		took := int(math.Exp(r.NormFloat64()*0.9 + 8.5))
		method, key := "GET", ""
		switch what {
		case "catalog":
			key, took = fmt.Sprintf("host%d.example.com", node), took*300
		case "report":
			key, took, method = fmt.Sprintf("host%d.example.com", node), took*100, "PUT"
		default:
			// Most files are asked for again and again, some by one node: files of one
			// indirector are so many that all together are logResources.
			n := int(logResources / 2.6 * math.Pow(r.Float64(), 1.5))
			key = fmt.Sprintf("modules/module%d/etc/application/file%d.conf", n%400, n)
		}
		seen[what+"/"+key] = true
		fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"%s /environment%d/%s/%s HTTP/1.1\" 200 %d %d \"-\" \"-\"\n",
			node>>16, node>>8&255, node&255, when.Format("02/Jan/2006:15:04:05 +0000"), method, r.IntN(12), what, key, 300+r.IntN(100), took)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return len(seen)
}

const alpPattern = `^\S+ \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<method>\S+) (?P<uri>\S+) [^"]*" (?P<status>\d+) (?P<body_bytes>\d+) (?P<response_time>\d+) `

// mawkProgram groups as fettle does: count, sum, squares and extremes.
const mawkProgram = `
function add(t, k) {
	k = t SUBSEP k
	if (!(k in n) || d < least[k]) least[k] = d
	if (d > most[k]) most[k] = d
	n[k]++; sum[k] += d; squares[k] += d * d
}
{
	d = $11
	split($7, part, "/")
	resource = substr($7, length(part[2]) + 3)
	add(1, part[2]); add(2, part[3]); add(3, resource); add(4, $1)
}
END { for (k in n) groups++; print groups }`

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
