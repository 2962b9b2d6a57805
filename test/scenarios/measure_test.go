package scenarios

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// proofs is the directory of records and pages, as the inside sees it: docs/proofs.
const proofs = "/proofs"

const (
	recordFile = "stand-in/stand-in.json"
	pageFile   = "stand-in.md"
)

// rounds is how often each configuration is measured.
const rounds = 3

// record is what was measured.
type record struct {
	Day    string  `json:"day"`
	Cores  int     `json:"cores"`
	Load   string  `json:"load"` // average of 15 minutes before
	Tables []table `json:"tables"`
	// Ladder is the search of TestLadder, if it was made.
	Ladder *climbed `json:"ladder,omitempty"`
}

type table struct {
	Title   string   `json:"title"`
	Note    string   `json:"note"`
	Columns []string `json:"columns"`
	Rows    []row    `json:"rows"`
}

// row has the names of a configuration, and the rounds of each of its figures.
type row struct {
	Names   []string `json:"names"`
	Figures []cell   `json:"figures"`
}

type cell []float64

// text returns the median, and lowest and highest round if there are several.
func (c cell) text() string {
	number := func(x float64) string {
		digits := 3 - len(fmt.Sprint(int(x)))
		if x == math.Trunc(x) {
			digits = 0
		}
		return fmt.Sprintf("%.*f", max(0, digits), x)
	}
	s := slices.Sorted(slices.Values(c))
	text := number(s[len(s)/2])
	if len(s) > 1 {
		text += " (" + number(s[0]) + " to " + number(s[len(s)-1]) + ")"
	}
	return text
}

// page is the page of the record.
func (r *record) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Stand-in: scenarios on a small machine

The scenarios of [fettle load scenario](../load-scenario-shipped.md), on %d cores that also ran fettle (%s). **Tables titled "stand-in" were measured on a program of our own in the place of Foreman (test/scenarios/foreman.ru), on real Puma and PostgreSQL. They show that the experiments of the Satellite 6.12 Tuning Guide can be repeated with the scenarios; they say nothing about a Satellite**, whose Foreman and Candlepin do far more work for each host. No rule, size or evidence of fettle uses a figure of this page.

A cell has the median of %d rounds, and the lowest and the highest in parentheses; configurations took turns in each round. Before, the load average of 15 minutes was %s: the more it is above 0, the less the figures are worth. Memory is that of all Puma processes after the run (PSS). [The record](%s) has every round.
`, r.Cores, r.Day, rounds, r.Load, recordFile)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| %s |\n|%s\n", t.Title, t.Note, strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			words := slices.Clone(row.Names)
			for _, c := range row.Figures {
				words = append(words, c.text())
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(words, " | "))
		}
	}
	if l := r.Ladder; l != nil {
		fmt.Fprintf(&b, "\n## Stand-in: the highest number of hosts\n\nPuma with 2 threads, no workers (%s; load average of 15 minutes before: %s). The limit is that of the stand-in on this machine.\n\n```\n$ %s\n%s\n```\n", l.Day, l.Load, l.Command, l.Output)
	}
	return b.String()
}

// TestPage compares the page with its record.
func TestPage(t *testing.T) {
	const proofs = "../../docs/proofs/"
	var r record
	if err := json.Unmarshal([]byte(product.Read(t, proofs+recordFile)), &r); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(proofs+pageFile, []byte(r.page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if product.Read(t, proofs+pageFile) != r.page() {
		t.Errorf("docs/proofs/%s is not that of its record; run make golden", pageFile)
	}
}

// registrations are the figures of a configuration.
type registrations struct{ rate, p95, memory, failed cell }

// withProofs binds docs/proofs if records are wanted, for a measurement of up to an hour.
func withProofs(t *testing.T) func(*root.Options) {
	return func(o *root.Options) {
		o.Within = time.Hour
		if os.Getenv("FETTLE_PROOFS") != "1" {
			return
		}
		docs, err := filepath.Abs("../../docs/proofs")
		if err != nil {
			t.Fatal(err)
		}
		o.Binds = append(o.Binds, root.Bind{Source: docs, Target: proofs})
	}
}

// TestMeasure repeats the experiments behind the Satellite 6.12 Tuning Guide, 5.2.1, 5.2.4 to 5.2.6
// and 5.9.1, and with FETTLE_PROOFS=1 writes the record of docs/proofs (make experiments).
func TestMeasure(t *testing.T) {
	root.Nightly(t, "measures for ten minutes")
	root.Undisturbed(t)
	if !inside(t, func(o *root.Options) {
		withRepository(t)(o)
		withProofs(t)(o)
	}) {
		return
	}
	database(t)
	r := record{Day: time.Now().UTC().Format(time.DateOnly), Cores: runtime.NumCPU(), Load: strings.Fields(product.Read(t, "/proc/loadavg"))[2]}
	for _, x := range []struct {
		title string
		all   []puma
	}{
		{"Stand-in: threads_min and memory (5.2.1)", []puma{{2, 0, 16}, {2, 16, 16}}},
		{"Stand-in: threads of 4 workers (5.2.4)", []puma{{4, 4, 4}, {4, 8, 8}, {4, 16, 16}, {4, 32, 32}}},
		{"Stand-in: workers of 16 threads (5.2.4, 5.2.5)", []puma{{2, 16, 16}, {4, 16, 16}, {6, 16, 16}, {8, 16, 16}}},
		{"Stand-in: the same number of threads (5.2.6)", []puma{{2, 16, 16}, {4, 8, 8}}},
	} {
		one := table{Title: x.title, Note: "100 hosts register at a time, each once.", Columns: []string{"workers", "threads", "hosts/s", "p95 of a host, s", "memory, MiB", "failed hosts"}}
		for i, f := range measureRegistrations(t, x.all) {
			p := x.all[i]
			one.Rows = append(one.Rows, row{[]string{fmt.Sprint(p.workers), fmt.Sprintf("%d to %d", p.least, p.most)}, []cell{f.rate, f.p95, f.memory, f.failed}})
		}
		r.add(t, one)
	}
	one := table{Title: "Stand-in: registration through a Capsule (5.9.1)", Note: "Puma with 2 workers of 16 threads; 100 hosts register at a time, each once.", Columns: []string{"way", "hosts/s", "p95 of a host, s", "failed hosts"}}
	for i, f := range measureCapsule(t) {
		one.Rows = append(one.Rows, row{[]string{[]string{"directly", "through httpd"}[i]}, []cell{f.rate, f.p95, f.failed}})
	}
	r.add(t, one)
	one = table{Title: "httpd: download of 2,000 packages (5.9.1)", Note: "Real httpd without TLS (event, MaxRequestWorkers 400) with the files themselves, without Pulp; one round. Each host downloads one package after the other.", Columns: []string{"hosts at a time", "duration of a host, mean, s", "duration of a package, mean, ms", "packages/s", "failed hosts"}}
	content(t)
	for _, hosts := range []int{100, 300, 1000} {
		x := fettle[scenario.Result](t, 0, "download", "--server", "content="+contentURL, "--hosts", fmt.Sprint(hosts))
		last := x.Steps[len(x.Steps)-1]
		one.Rows = append(one.Rows, row{[]string{fmt.Sprint(hosts)}, []cell{{x.Whole.Latency.MeanS}, {1000 * last.Latency.MeanS}, {last.Rate}, {float64(x.Whole.Errors)}}})
	}
	r.add(t, one)
	t.Log(r.page())
}

// add adds a table, and writes the record and its page if they are wanted.
func (r *record) add(t *testing.T, one table) {
	t.Helper()
	r.Tables = append(r.Tables, one)
	if _, err := os.Stat(proofs); err == nil {
		r.write(t)
	}
}

// write writes the record and its page.
func (r *record) write(t *testing.T) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	machine.Write(t, "/", map[string]string{filepath.Join(proofs, recordFile): string(text) + "\n", filepath.Join(proofs, pageFile): r.page()})
}

// measureRegistrations measures each configuration in each round.
func measureRegistrations(t *testing.T, all []puma) []registrations {
	t.Helper()
	out := make([]registrations, len(all))
	for range rounds {
		for i, p := range all {
			t.Run(fmt.Sprintf("%d workers, %d to %d threads", p.workers, p.least, p.most), func(t *testing.T) {
				server := foreman(t, p)
				out[i].add(t, "registration")
				out[i].memory = append(out[i].memory, float64(memory(t, server.Process.Pid))/(1<<20))
			})
		}
	}
	return out
}

// measureCapsule measures registration directly and through a Capsule.
func measureCapsule(t *testing.T) []registrations {
	t.Helper()
	out := make([]registrations, 2)
	t.Run("capsule", func(t *testing.T) {
		foreman(t, puma{2, 16, 16})
		capsule(t)
		for range rounds {
			out[0].add(t, "registration")
			out[1].add(t, "registration-capsule", "--server", "capsule="+capsuleURL, "--server", "proxy="+capsuleURL)
		}
	})
	return out
}

// add registers 100 hosts, and empties the database afterwards.
func (r *registrations) add(t *testing.T, args ...string) {
	t.Helper()
	x := fettle[scenario.Result](t, 0, append(args, "--server", "foreman="+foremanURL, "--organization", "Default", "--prefix", "t-", "--hosts", "100")...)
	if x.StandIn != "foreman" || x.Whole.Runs != 100 {
		t.Errorf("%q %+v", x.StandIn, x.Whole)
	}
	r.rate, r.p95, r.failed = append(r.rate, x.Whole.Rate), append(r.p95, x.Whole.Latency.P95S), append(r.failed, float64(x.Whole.Errors))
	product.SQL(t, "foreman", "TRUNCATE hosts CASCADE")
	product.SQL(t, "foreman", "VACUUM")
}
