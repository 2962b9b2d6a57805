package puppetrun

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// store writes a report to its node's directory, as the store processor does.
func store(t *testing.T, dir, node string, stored time.Time, text string) {
	t.Helper()
	name := filepath.Join(dir, node, stored.UTC().Format("200601021504")+".yaml")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report returns the text of a report.
func report(node, status string, began time.Time, retrieval, packages, total float64, more string) string {
	return fmt.Sprintf(`--- !ruby/object:Puppet::Transaction::Report
host: %s
time: '%s'
status: %s
metrics:
  time:
    name: time
    label: Time
    values:
    - - config_retrieval
      - Config retrieval
      - %g
    - - package
      - Package
      - %g
    - - catalog_application
      - Catalog application
      - %g
    - - total
      - Total
      - %g
resource_statuses:
  Package[nginx]:
    evaluation_time: %g
    failed: %t
    changed: %t
%s`, node, began.Format(time.RFC3339Nano), status, retrieval, packages, packages, total, packages, status == "failed", status == "changed", more)
}

// line returns a line of Puppet Server's access log, written at the end of a request.
func line(ended time.Time, method, path string, status int, took time.Duration) string {
	return fmt.Sprintf("127.0.0.1 - - [%s] \"%s %s?environment=production HTTP/1.1\" %d 5 \"-\" \"Puppet/7.23.0\" %d - -\n", ended.Format("02/Jan/2006:15:04:05 -0700"), method, path, status, took.Milliseconds())
}

func readAll(t *testing.T, dir string, o Options) *Collected {
	t.Helper()
	files, err := Find(host.Live(), dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Workers = 3
	c, err := Read(context.Background(), host.Live(), files, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readServed(t *testing.T, text, as string, nodes map[string]bool) (*Served, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := source.Find(host.Live(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	f, err := logformat.Parse(as)
	if err != nil {
		t.Fatal(err)
	}
	return ReadServed(context.Background(), source.NewSet(found), []*logformat.Format{f}, nodes, 2)
}

// TestRuns tests that the result equals the written runs, on the nodes and on the server.
func TestRuns(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, 11, 22, 10, 0, 20, 0, time.UTC)
	var log strings.Builder
	log.WriteString("no request\n")
	// Every half hour two nodes run; the clock of b is two hours fast. What it waits for a
	// catalog is by half a second more than the server takes.
	for i := range 10 {
		for k, node := range []string{"a.test", "b.test"} {
			began := start.Add(time.Duration(i)*30*time.Minute + time.Duration(k)*time.Minute)
			took := time.Duration(2+k+i%2) * time.Second
			ended := began.Add(30 * time.Second)
			catalog := began.Add(5 * time.Second)
			if i == 4 { // the first try fails
				log.WriteString(line(catalog.Add(-time.Second), "POST", "/puppet/v3/catalog/"+node, 500, 100*time.Millisecond))
			}
			if i != 7 {
				log.WriteString(line(catalog.Add(took), "POST", "/puppet/v3/catalog/"+node, 200, took))
			}
			log.WriteString(line(catalog, "GET", "/puppet/v3/file_metadata/modules/x/y", 200, time.Second))
			log.WriteString(line(ended, "PUT", "/puppet/v3/report/"+node, 200, 200*time.Millisecond))
			by := began
			if k == 1 {
				by = by.Add(2 * time.Hour)
			}
			status := "unchanged"
			if i == 3 {
				status = "failed"
			} else if i == 5 {
				status = "changed"
			}
			more := ""
			if i == 9 {
				more = "cached_catalog_status: explicitly_requested\n"
			}
			store(t, dir, node, ended, report(node, status, by, took.Seconds()+0.5, float64(1+k), 30, more))
		}
	}
	// A run that ended before its report: its catalog is of no other.
	log.WriteString(line(start.Add(10*time.Hour), "POST", "/puppet/v3/catalog/a.test", 200, time.Minute))
	log.WriteString(line(start.Add(10*time.Hour), "POST", "/puppet/v3/catalog/other.test", 200, time.Minute))
	store(t, dir, "a.test", start.Add(20*time.Hour), "version: 1\n")
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no report"), 0o600); err != nil {
		t.Fatal(err)
	}

	c := readAll(t, dir, Options{})
	served, err := readServed(t, log.String(), "puppetserver", c.Nodes())
	if err != nil {
		t.Fatal(err)
	}
	r := c.Report(dir, served, nil, 0)
	if r.Runs != 20 || r.Nodes != 2 || r.Failed != 2 || r.Changed != 2 || r.Unchanged != 16 || r.Cached != 2 || r.Unread.Files != 1 || !strings.Contains(r.Unread.Examples[0].Why, "not a report") {
		t.Errorf("%+v", r)
	}
	if !r.First.Equal(start) || !r.Last.Equal(start.Add(9*30*time.Minute+time.Minute+2*time.Hour)) {
		t.Errorf("from %v to %v", r.First, r.Last)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-6 {
			t.Errorf("%s is %v, want %g", what, deref(got), want)
		}
	}
	near("the mean of runs", r.Total.MeanS, 30)
	if len(r.Types) != 1 || r.Types[0].Name != "package" || r.Types[0].SlowestOn != "b.test" {
		t.Fatalf("types %+v", r.Types)
	}
	near("package", r.Types[0].MeanS, 1.5)
	near("its share", r.Types[0].Share, 30.0/600)
	// Runs with a catalog of their own waited for none: 18 of 20 did.
	var names []string
	for _, s := range r.Stages {
		names = append(names, fmt.Sprint(s.Name, s.Count))
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[catalog_application20 config_retrieval18]" || r.WentTo.Name != "config_retrieval" {
		t.Errorf("stages %v, most %+v", names, r.WentTo)
	}
	if len(r.Resources) != 1 || r.Resources[0].Name != "Package[nginx]" || r.Resources[0].Count != 20 || r.Resources[0].Failed != 2 || r.Resources[0].Changed != 2 {
		t.Errorf("resources %+v", r.Resources)
	}
	x := r.Server
	if x.Joined != 16 || x.Unjoined != 2 || x.Repeated != 2 || x.Unread != 1 {
		t.Fatalf("%+v", x)
	}
	near("the rest", x.RestMeanS, 0.5)
	near("its p99", x.RestP99S, 0.5)
	catalogs := 0.0
	for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 8} {
		catalogs += float64(2+i%2) + float64(3+i%2)
	}
	near("the server's mean", x.Catalog.MeanS, catalogs/16)
	near("its share", x.Share, catalogs/(catalogs+8))
	if n := r.ByNode[0]; len(r.ByNode) != 2 || n.Name != "a.test" || n.Runs != 10 || n.Failed != 1 {
		t.Errorf("%+v", r.ByNode)
	}
	near("b's wait", r.ByNode[1].MeanRetrievalS, 3+4.0/9+0.5)

	// The same without some of it.
	if r := readAll(t, dir, Options{Since: start.Add(4 * time.Hour)}).Report(dir, nil, nil, 1); r.Runs != 4 || r.LeftOut != 16 || r.Server != nil || len(r.ByNode) != 1 {
		t.Errorf("%d runs, %d left out, %+v", r.Runs, r.LeftOut, r.ByNode)
	}
	if r := readAll(t, filepath.Join(dir, "b.test"), Options{Until: start.Add(time.Hour)}).Report(dir, nil, nil, 1); r.Runs != 2 || r.LeftOut != 8 {
		t.Errorf("%d runs, %d left out", r.Runs, r.LeftOut)
	}
	for as, want := range map[string]string{"combined": "has no durations", "apache:%h %D": "has no times", "foreman": "no requests of Puppet agents"} {
		if _, err := readServed(t, log.String(), as, c.Nodes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", as, err, want)
		}
	}
	for _, empty := range []string{t.TempDir(), filepath.Join(dir, "nothing")} {
		if _, err := Find(host.Live(), empty); err == nil {
			t.Errorf("%s has reports", empty)
		}
	}
}

func deref(v *float64) any {
	if v == nil {
		return "nothing"
	}
	return *v
}

// TestRead tests that concurrent reads of a directory give the same result each time.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for i := range 300 {
		node := fmt.Sprintf("n%d.test", i%17)
		store(t, dir, node, start.Add(time.Duration(i)*time.Minute), report(node, "changed", start.Add(time.Duration(i)*time.Minute), 1, float64(i%5), 10, ""))
	}
	want := fmt.Sprintf("%+v", deep(readAll(t, dir, Options{}).Report(dir, nil, nil, 0)))
	for range 5 {
		if got := fmt.Sprintf("%+v", deep(readAll(t, dir, Options{}).Report(dir, nil, nil, 0))); got != want {
			t.Fatalf("%s\nthen\n%s", want, got)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	files, err := Find(host.Live(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(ctx, host.Live(), files, Options{Workers: 2}); err == nil {
		t.Error("an end that was asked for is none")
	}
}

// deep returns the values of a document, with its pointers dereferenced.
func deep(r *Runs) []any {
	out := []any{r.Runs, r.Nodes, *r.First, *r.Last}
	for _, list := range [][]Measured{r.Stages, r.Types, r.Resources} {
		for _, m := range list {
			out = append(out, m.Name, m.Count, m.TotalS, *m.MeanS, *m.P50S, *m.MaxS, m.SlowestOn, m.Changed)
		}
	}
	for _, n := range r.ByNode {
		out = append(out, n.Name, n.Runs, *n.MeanS)
	}
	return out
}
