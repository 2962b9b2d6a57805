package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/accesslog"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const (
	logRounds = 9
	// few is how many requests the short log has, for those who take minutes for it.
	few = 2_000_000
)

// dimensions are what the log is grouped by, by all programs: the article's four.
const dimensions = "environment,indirector,resource,requestor"

// alpLines is of how many lines alp makes groups: of all of them it would for hours.
const alpLines = 100_000

// TestBenchLogs measures fettle logs next to grep, mawk, GoAccess, DuckDB and alp on one log,
// in turn, and writes what it found to docs/benchmarks.md.
func TestBenchLogs(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	lines, resources := writeLog(t, log)
	root := testkitroot.New(t, testkitroot.Options{Servers: true, Binds: []testkitroot.Bind{
		{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}, {Source: dir, Target: "/srv"}},
		Env: []string{"LC_ALL=C"}})
	root.Must("sh", "-c", fmt.Sprintf("gzip -k /srv/access.log && head -n %d /srv/access.log >/srv/few.log && head -n %d /srv/access.log >/srv/some.log", few, alpLines))
	fettle := func(workers, file string, more ...string) []string {
		words := []string{"fettle", "logs", "--workers", workers, "--output", "json"}
		for by := range strings.SplitSeq(dimensions, ",") {
			words = append(words, "--by", by)
		}
		return append(append(words, more...), file)
	}
	inRoot := func(name string, words ...string) *job {
		return &job{name: name, run: func() *exec.Cmd { return root.Command(words...) }}
	}
	var (
		grep    = inRoot("`grep -c`", "grep", "-c", "file_metadata", "/srv/access.log")
		plain   = inRoot("fettle logs, four groupings", fettle("1", "/srv/access.log", "--no-percentiles")...)
		all     = inRoot("the same with percentiles", fettle("1", "/srv/access.log")...)
		gzip    = inRoot("`gzip -dc`", "sh", "-c", "exec gzip -dc /srv/access.log.gz >/dev/null")
		packed  = inRoot("fettle logs of the compressed log, with percentiles, two workers", fettle("2", "/srv/access.log.gz")...)
		mawk    = inRoot("mawk, the same groupings without percentiles", "mawk", mawkProgram, "/srv/access.log")
		grepFew = inRoot("`grep -c` of the short log", "grep", "-c", "file_metadata", "/srv/few.log")
		someFew = inRoot("fettle logs of the short log, four groupings", fettle("1", "/srv/few.log", "--no-percentiles")...)
		allFew  = inRoot("the same with percentiles", fettle("1", "/srv/few.log")...)
		theirs  = inRoot("GoAccess of the short log, its own panels", "goaccess", "/srv/few.log", "--no-global-config",
			`--log-format=%h %^ %^ [%d:%t %^] "%r" %s %b %D "%R" "%u"`, "--date-format=%d/%b/%Y", "--time-format=%H:%M:%S", "-o", "/tmp/out.json")
		someAlp = inRoot("fettle logs, the same", "fettle", "logs", "--workers", "1", "--output", "json", "--by", "method,url", "/srv/some.log")
		duckdb  = &job{name: "DuckDB, the same without percentiles, one thread"}
		alp     = &job{name: fmt.Sprintf("alp of %d lines, its usual columns of method and URL", alpLines)}
	)
	quick, slow := []*job{grep, plain, all, gzip, packed, grepFew, someFew, allFew}, []*job{mawk, theirs}
	if program := os.Getenv("FETTLE_BENCH_DUCKDB"); program != "" {
		duckdb.run = func() *exec.Cmd {
			c := exec.Command(program, "-c", fmt.Sprintf(duckdbProgram, log))
			c.Dir = dir
			return c
		}
		slow = append(slow, duckdb)
	}
	if program := os.Getenv("FETTLE_BENCH_ALP"); program != "" {
		alp.run = func() *exec.Cmd {
			return exec.Command(program, "regexp", "--file", filepath.Join(dir, "some.log"), "--limit", "1000000", "--pattern", alpPattern, "-o", "count,method,uri,min,max,sum,avg,p99")
		}
		slow = append(slow, alp, someAlp)
	}
	for range logRounds {
		for _, j := range quick {
			j.measure(t)
		}
	}
	for range 2 { // ten times as long as the others, and more
		for _, j := range slow {
			j.measure(t)
		}
	}

	var b strings.Builder
	var unmet []string
	fmt.Fprintf(&b, "One log has %d requests for %d resources, with the shares of the log in Hookins's article on Puppet (2012). The short log has its first %d lines. The programs ran alternately for %d rounds (mawk, GoAccess, DuckDB and alp: 2), with the log in the page cache (`go run ./test/peers/writelog puppet`, seed 1). The table shows medians of the processor time and of the elapsed time. Ratios are taken from the least disturbed round of each program.\n\n| job | CPU, s | s | of `grep -c`'s CPU | promised |\n|---|---|---|---|---|\n", lines, resources, few, logRounds)
	promise := func(name, got, promised string, met bool) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, got, promised)
		if !met {
			unmet = append(unmet, name+": "+strings.TrimSpace(got)+", promised "+promised)
		}
	}
	row := func(j, of *job, promised string, met bool) {
		if len(j.cpus) > 0 {
			promise(j.name, j.seconds()+" | "+j.wallSeconds()+" | "+ratioText("%.1f", j.cpus, of.cpus), promised, met)
		}
	}
	most := func(j *job, limit float64) {
		row(j, grep, fmt.Sprintf("at most %.0f", limit), unsteady(grep.cpus) != "" || against(j.cpus, grep.cpus) <= limit)
	}
	slower := func(j, of, than *job, whose string, least float64) {
		if len(j.cpus) > 0 {
			met := unsteady(than.cpus) != "" || against(j.cpus, than.cpus) >= least
			row(j, of, fmt.Sprintf("%s, %.0f at least", ratioText("%.1f times "+whose, j.cpus, than.cpus), least), met)
		}
	}
	row(grep, grep, "-", true)
	most(plain, 5)
	most(all, 7)
	row(gzip, grep, "-", true)
	row(packed, grep, ratioText("done in %.2f of the time of `gzip -dc`", packed.walls, gzip.walls)+", 1 at most", unsteady(gzip.walls) != "" || against(packed.walls, gzip.walls) <= 1)
	slower(mawk, grep, plain, "fettle's", 6)
	slower(duckdb, grep, plain, "fettle's", 4)
	row(grepFew, grepFew, "-", true)
	row(someFew, grepFew, "-", true)
	row(allFew, grepFew, "-", true)
	slower(theirs, grepFew, allFew, "fettle's with percentiles", 30)
	if len(alp.cpus) > 0 {
		promise(alp.name, fmt.Sprintf("%.3f |  | ", alp.cpu().Seconds()), ratioText("%.0f times fettle's", alp.cpus, someAlp.cpus), true)
		promise(someAlp.name, fmt.Sprintf("%.3f |  | ", someAlp.cpu().Seconds()), "-", true)
	}
	for _, m := range []struct {
		name, workers string
		most          float64
	}{{"memory at the most with percentiles, one worker, MB", "1", 250}, {"and with two workers, MB", "2", 450}} {
		got := peak(t, exec.Command(program, fettle(m.workers, log)[1:]...))
		promise(m.name, fmt.Sprintf("%.0f |  | ", got), fmt.Sprintf("at most %.0f", m.most), got <= m.most)
	}
	record(t, "logs", b.String(), unmet)
}

// writeLog writes Puppet's log and returns its number of lines and resources.
func writeLog(t *testing.T, path string) (lines, resources int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines, resources, err = accesslog.WritePuppet(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return lines, resources
}
