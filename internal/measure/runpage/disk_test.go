package runpage

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/requests/load/scenario"
)

// diskRun is the record of a bench of two directories: a sound one, and one measured through the
// page cache. A hostile one has HTML in all of its texts.
func diskRun(t testing.TB, bad bool) *evidence.Run {
	t.Helper()
	share := 0.07
	cell := func(name, unit string, value float64, steady disk.Steady, doubts ...disk.Doubt) disk.Result {
		return disk.Result{Cell: disk.Cell{Name: name, Unit: unit}, Value: value, Spread: 0.04, InFlight: 7.9, MeanS: 0.0021, P99S: 0.0135, SyncsPS: 310, FromStorage: &share, Steady: steady, Doubts: doubts}
	}
	settled := disk.Steady{State: disk.Yes, WindowS: 60, FirstBytesPS: 900e6, LastBytesPS: 120e6, MovedBytes: 41e9}
	moving := disk.Steady{State: disk.No, WindowS: 10, Excursion: 0.34, Slope: -0.001}
	short := disk.Steady{State: disk.NotTested}
	cached := disk.Doubt{Kind: disk.Cached, Text: "only 7 % of what was read came from storage: a cache was measured"}
	e := disk.Evidence{Places: []disk.Measured{
		{Place: disk.Place{Directory: "/var/lib/pgsql", Storage: fact.Storage{Type: "xfs", Source: "/dev/mapper/vg-data", Class: fact.ClassSSD}},
			Results: []disk.Result{cell("stream-read", "MB/s", 530, settled), cell("stream-write", "MB/s", 410, moving), cell("etcd", "ms", 13.5, short), cell("buffered-read", "MB/s", 400, short), cell("buffered-write", "MB/s", 300, short)},
			Verdict: []disk.Judgment{{Name: "stream read", Cell: "stream-read", Value: 505, Unit: "MiB/s", Verdict: disk.Pass, Text: "at least 60 MiB/s is wanted"}, {Name: "fdatasync p99", Cell: "etcd", Value: 13.5, Unit: "ms", Verdict: disk.Fail, Text: "below 10 ms is wanted"}},
			Fit:     &disk.Fit{FixedS: 0.0001, BytesPS: 500e6, Worst: 0.03}},
		{Place: disk.Place{Directory: "/var/lib/pulp", Storage: fact.Storage{Type: "nfs4", Source: "filer.example.com:/export/pulp", Class: fact.ClassNetwork}},
			Results:  []disk.Result{cell("stream-read", "MB/s", 9000, short, cached), cell("buffered-read", "MB/s", 3000, short, cached), cell("buffered-write", "MB/s", 90, short)},
			Verdict:  []disk.Judgment{{Name: "stream read", Cell: "stream-read", Value: 8583, Unit: "MiB/s", Verdict: disk.NoVerdict, Text: cached.Text}},
			Unfitted: []string{"block-4k", "block-16k"},
			Foreman:  &disk.ForemanMaintain{MiBPS: 41, Says: "fail"}},
	}}
	e.Sum("kvm")
	e.Curves, e.Series = nil, nil
	r := &evidence.Run{Kind: disk.Kind, Command: "fettle bench disk /var/lib/pgsql /var/lib/pulp", Version: "1.0", Began: began, Ended: began.Add(4 * time.Minute), Verdict: e.Text(), Machine: evidence.Machine{Name: "db1", Kernel: "6.12.0"}}
	if bad {
		words := strings.Join(hostile, " ")
		r.Verdict, e.Warnings = words, []string{words}
		for i := range e.Places {
			p := &e.Places[i]
			p.Directory, p.Storage.Type, p.Storage.Source, p.Storage.Class, p.Unfitted = words, words, words, fact.Class(words), []string{words}
			if p.Foreman != nil {
				p.Foreman.Says = words
			}
			for j := range p.Results {
				if r := &p.Results[j]; !strings.HasPrefix(r.Name, "buffered-") { // those are for the chart
					r.Name, r.Unit = words, words
				}
				for k := range p.Results[j].Doubts {
					p.Results[j].Doubts[k] = disk.Doubt{Kind: disk.DoubtKind(words), Text: words}
				}
			}
			for j := range p.Verdict {
				p.Verdict[j] = disk.Judgment{Name: words, Unit: words, Verdict: disk.Word(words), Text: words}
			}
		}
	}
	return sealed(t, r, e)
}

// TestDisk tests that the page shows the same as the terminal: the verdicts, whether each figure is
// steady, the doubts with their reasons, and the reference devices with their notes.
func TestDisk(t *testing.T) {
	read := words(t, write(t, diskRun(t, false)))
	for _, want := range []string{
		"/var/lib/pgsql: xfs on /dev/mapper/vg-data, class ssd", "stream-read 530 MB/s",
		"pass stream read 505 MiB/s (530 MB/s) at least 60 MiB/s is wanted", "fail fdatasync p99 13.5 ms", "no verdict stream read",
		"yes, for 60 s; 900 MB/s at first, 120 MB/s after 41 GB", "PERC H710 SAS, 1 TB", "this is a guest (kvm)", "/var/lib/pulp is behind a network",
	} {
		if !strings.Contains(read, want) {
			t.Errorf("the page does not say %q:\n%s", want, read)
		}
	}
	// Of a run without the buffered cells there is nothing to compare with the devices.
	r := diskRun(t, false)
	var e disk.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	for i := range e.Places {
		e.Places[i].Results = e.Places[i].Results[:1]
	}
	if read := words(t, write(t, sealed(t, r, e))); strings.Contains(read, "PERC") {
		t.Error(read)
	}
}

// TestNotes tests that the page of another bench shows what it did not measure, or measured
// instead.
func TestNotes(t *testing.T) {
	for kind, c := range map[string]struct {
		body any
		says string
	}{
		"bench-memory":   {memory.Result{Left: []memory.LeftOut{{Cell: "huge-1g", Why: "no such page could be reserved"}}}, "not measured huge-1g: no such page could be reserved"},
		"bench-postgres": {postgres.Result{Failed: []postgres.Failed{{Clients: 64, Why: "too many connections"}}, InCache: "all of it is in the cache"}, "64 clients: too many connections"},
		load.Kind:        {load.Result{Generator: load.Generator{Texts: []string{"the generator was busy"}}}, "the generator was busy"},
		scenario.Kind:    {scenario.Result{Generator: scenario.Generator{Texts: []string{"the generator was busy"}}}, "the generator was busy"},
		mqtt.Kind:        {mqtt.Result{Generator: mqtt.Generator{Texts: []string{"the generator was busy"}}}, "the generator was busy"},
	} {
		r := sealed(t, &evidence.Run{Kind: kind, Command: "fettle", Began: began, Verdict: "measured"}, c.body)
		if read := words(t, write(t, r)); !strings.Contains(read, c.says) {
			t.Errorf("%s: no %q in %s", kind, c.says, read)
		}
	}
}
