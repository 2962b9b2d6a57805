package peers

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/accesslog"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const (
	// formatLines is the number of lines of each log.
	formatLines = 500_000
	// mostOfBefore is the promised CPU time for JSON lines, as a share of that of the program
	// FETTLE_BENCH_BEFORE; mostOfBeforeDistinct that for distinct URLs.
	mostOfBefore, mostOfBeforeDistinct = 0.3, 0.5
	mostOfGrepHAProxy                  = 4
	mostOfGzip, mostOfZstd             = 1.2, 2.5
)

// TestBenchLogFormats measures fettle logs next to grep, gzip, zstd, mawk and DuckDB on a generated
// log of each format, and writes the tables to docs/benchmarks.md. FETTLE_BENCH_BEFORE names an
// earlier fettle to compare with, FETTLE_BENCH_DUCKDB DuckDB's program.
func TestBenchLogFormats(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	program := asInstalled(t, testkitroot.Program(t, "./cmd/fettle"))
	var plain, packed benchTable
	plain.head("log", "MB", "`grep -c`, CPU s", "fettle, CPU s", "of `grep -c`'s", "fettle, s", "two workers, s", "of the CPU before", "peer, CPU s", "of fettle's", "memory, MB")
	packed.head("log", "decoder", "CPU s", "s", "fettle, CPU s", "fettle, s", "of the decoder's CPU")
	for _, format := range accesslog.Formats {
		benchFormat(t, program, format, &plain, &packed)
	}
	seed := fmt.Sprintf("Each log has %d requests of the same web shop (`go run ./test/peers/writelog NAME %d`, seed %d). %d alternating rounds; the tables show medians with ranges. ", formatLines, formatLines, accesslog.Seed, logRounds)
	record(t, "formats", seed+"fettle computes percentiles, by default with one worker. Its groupings are method and path, requestor, and status, for HAProxy back end and server too, and for the log with distinct URLs URL, client, status and method. mawk and DuckDB (one thread) have the same groupings; mawk has no percentiles.\n\n"+plain.text(), plain.unmet)
	record(t, "packed", seed+"gzip and zstd compress with their default levels. fettle computes percentiles with two workers.\n\n"+packed.text(), packed.unmet)
}

// benchFormat measures one format, plain and compressed.
func benchFormat(t *testing.T, program string, format accesslog.Format, plain, packed *benchTable) {
	dir := t.TempDir()
	log := filepath.Join(dir, format.Name+".log")
	size := writeFormat(t, format, log)
	for _, c := range [][]string{{"gzip", "-k", log}, {"zstd", "-q", log}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c, err, out)
		}
	}
	fettle := func(program, workers, file string) *job {
		return &job{name: "fettle logs of " + format.Name, run: func() *exec.Cmd {
			return exec.Command(program, slices.Concat([]string{"logs", "--workers", workers, "--output", "json"}, formatArguments[format.Name], []string{file})...)
		}}
	}
	// Several runs each, because they are short.
	reference := func(name string, repeat int, command, file string) *job {
		return &job{name: name, repeat: repeat, run: func() *exec.Cmd { return exec.Command("sh", "-c", command, "sh", file) }}
	}
	grep := reference("grep", 5, `LC_ALL=C exec grep -c HTTP/ "$1"`, log)
	gzip, zstd := reference("gzip", 1, `exec gzip -dc "$1" >/dev/null`, log+".gz"), reference("zstd", 3, `exec zstd -qdc "$1" >/dev/null`, log+".zst")
	one, two := fettle(program, "1", log), fettle(program, "2", log)
	ofGzip, ofZstd := fettle(program, "2", log+".gz"), fettle(program, "2", log+".zst")
	jobs := []*job{grep, one, two, gzip, ofGzip, zstd, ofZstd}
	before := fettle(os.Getenv("FETTLE_BENCH_BEFORE"), "1", log)
	if os.Getenv("FETTLE_BENCH_BEFORE") != "" {
		jobs = append(jobs, before)
	}
	for range logRounds {
		for _, j := range jobs {
			j.measure(t)
		}
	}
	peer := formatPeer(format.Name, log)
	for range 2 {
		if peer != nil {
			peer.measure(t)
		}
	}

	promise := func(to *benchTable, what string, j, of *job, most float64) string {
		if len(of.cpus) == 0 {
			return "-"
		}
		if got := against(j.cpus, of.cpus); most > 0 && unsteady(of.cpus) == "" && got > most {
			to.unmet = append(to.unmet, fmt.Sprintf("%s: %.2f of the CPU time of %s, promised at most %.1f", format.Name, got, what, most))
		}
		return ratioText("%.2f", j.cpus, of.cpus)
	}
	peerCPU, ofFettle := "-", "-"
	if peer != nil {
		peerCPU, ofFettle = peer.name+": "+peer.seconds(), ratioText("%.1f", peer.cpus, one.cpus)
	}
	grepLimit := map[string]float64{"haproxy": mostOfGrepHAProxy}[format.Name]
	beforeLimit := map[string]float64{"caddy": mostOfBefore, "nginx-json": mostOfBefore, "nginx-json-escapes": mostOfBefore, "traefik-json": mostOfBefore, "envoy-json": mostOfBefore, "distinct": mostOfBeforeDistinct}[format.Name]
	plain.row(against(one.cpus, grep.cpus), format.Doc, fmt.Sprintf("%.0f", float64(size)/1e6), grep.seconds(), one.seconds(), promise(plain, "grep -c", one, grep, grepLimit),
		one.wallSeconds(), two.wallSeconds(), promise(plain, "FETTLE_BENCH_BEFORE", one, before, beforeLimit), peerCPU, ofFettle, fmt.Sprintf("%.0f", peak(t, one.run())))
	for _, p := range []struct {
		decoder, fettle *job
		most            float64
	}{{gzip, ofGzip, mostOfGzip}, {zstd, ofZstd, mostOfZstd}} {
		packed.row(against(p.fettle.cpus, p.decoder.cpus), format.Doc, "`"+p.decoder.name+" -dc`", p.decoder.seconds(), p.decoder.wallSeconds(), p.fettle.seconds(), p.fettle.wallSeconds(),
			promise(packed, p.decoder.name+" -dc", p.fettle, p.decoder, p.most))
	}
}

// benchTable is a Markdown table whose rows are measured on different logs.
type benchTable struct {
	b     strings.Builder
	rows  []ratioRow
	unmet []string
}

// ratioRow is the ratio by which the best and the worst row are found.
type ratioRow struct {
	name  string
	ratio float64
}

func (t *benchTable) head(columns ...string) {
	fmt.Fprintf(&t.b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func (t *benchTable) row(ratio float64, cells ...string) {
	t.rows = append(t.rows, ratioRow{cells[0], ratio})
	fmt.Fprintf(&t.b, "| %s |\n", strings.Join(cells, " | "))
}

// text returns the table, with its best and its worst row.
func (t *benchTable) text() string {
	order := func(a, b ratioRow) int { return cmp.Compare(a.ratio, b.ratio) }
	best, worst := slices.MinFunc(t.rows, order), slices.MaxFunc(t.rows, order)
	return fmt.Sprintf("%s\nBest: %.1f (%s). Worst: %.1f (%s).\n", t.b.String(), best.ratio, best.name, worst.ratio, worst.name)
}

// formatArguments are the arguments for logs whose unit of the duration cannot be detected, and
// the four groupings of the log with distinct URLs. The others are grouped as usual.
var formatArguments = map[string][]string{
	"combined": {"--format", combinedWithDuration},
	"distinct": {"--format", combinedWithDuration, "--by", "url", "--by", "client", "--by", "status", "--by", "method"},
}

const combinedWithDuration = `apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D`

// writeFormat writes a log and returns its size in bytes.
func writeFormat(t *testing.T, format accesslog.Format, path string) int64 {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := format.Write(f, formatLines, accesslog.Seed); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
