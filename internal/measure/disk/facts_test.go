package disk

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// measuredMachine is a Satellite with its data on sdb and the system on sda.
func measuredMachine(t *testing.T) *host.Host {
	t.Helper()
	return machine.Mounted(t, map[string]string{
		"proc/self/mountinfo":       "1 0 8:1 / / rw - xfs /dev/sda1 rw\n2 1 8:16 / /var/lib/pulp rw - xfs /dev/sdb rw\n3 1 8:2 / /var/lib/pgsql rw - xfs /dev/sda2 rw\n",
		"proc/sys/kernel/osrelease": "5.14.0-1\n",
		"sys/dev/block/8:1":         "-> ../../block/sda", "sys/dev/block/8:2": "-> ../../block/sda", "sys/dev/block/8:16": "-> ../../block/sdb",
		"sys/block/sda/size": "1000\n", "sys/block/sdb/size": "2000\n",
		"sys/block/sda/queue/scheduler": "[none] mq-deadline\n", "sys/block/sdb/queue/scheduler": "[none] mq-deadline\n",
		"sys/block/sdb/queue/rotational": "0\n",
		"var/lib/pulp/x":                 "", "var/lib/pgsql/x": "",
	})
}

// satellite reports that the machine is a Satellite.
func satellite() platform.Source {
	return platform.Source{Prefix: "satellite", Inputs: []fact.Input{{Name: "satellite.version", Type: fact.Text}}, Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		k := &platform.Known{}
		k.Give("satellite.version", "6.16", "")
		return k
	}}
}

// measure stores a run of a directory as fettle bench disk does.
func measure(t *testing.T, h *host.Host, dir string, ago time.Duration, read float64, alter func(*evidence.Run, *Evidence)) {
	t.Helper()
	e := Evidence{Schema: Schema, Places: []Measured{{
		Place:   Place{Directory: dir, Storage: fact.StorageOf(h, dir)},
		Results: []Result{{Cell: Cell{Name: "stream-read", Unit: "MB/s"}, Value: read}},
	}}}
	r := &evidence.Run{Kind: Kind, Began: h.Clock.Now().Add(-ago), Machine: evidence.Fingerprint(h)}
	if alter != nil {
		alter(r, &e)
	}
	var err error
	if r.Body, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	machine.WriteFile(t, h.Name, "var/lib/fettle/x", "")
	if err := (evidence.Store{Dir: filepath.Join(h.Name, "var/lib/fettle/runs")}).Put(r); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, h *host.Host, input string) fact.Answer {
	t.Helper()
	sources := append(platform.Facts(), satellite(), Source())
	return platform.NewSubject(t.Context(), h, nil, sources).Answer(input)
}

const day = 24 * time.Hour

func TestNewestValid(t *testing.T) {
	const pulp = "measured.disk./var/lib/pulp.stream_read"
	doubt := func(_ *evidence.Run, e *Evidence) {
		e.Places[0].Results[0].Doubts = []Doubt{{Kind: Noisy, Text: "the repeats differ"}}
	}
	for name, c := range map[string]struct {
		make func(*host.Host)
		want float64 // MiB/s
		why  string
	}{
		"never": {func(*host.Host) {}, 0, "/var/lib/pulp was not measured; fettle bench disk /var/lib/pulp"},
		"the newest counts": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", 9*day, 200*1.048576, nil)
			measure(t, h, "/var/lib/pulp", 2*day, 300*1.048576, nil)
			measure(t, h, "/var/lib/pulp", 20*day, 400*1.048576, nil)
		}, 300, ""},
		"another directory of the file system": {func(h *host.Host) { measure(t, h, "/var/lib/pulp/media", day, 150*1.048576, nil) }, 150, ""},
		"another file system of the machine":   {func(h *host.Host) { measure(t, h, "/", day, 150*1.048576, nil) }, 0, "was not measured"},
		"noisy":                                {func(h *host.Host) { measure(t, h, "/var/lib/pulp", day, 150*1.048576, doubt) }, 0, "marked noisy"},
		"noisy, and an older one": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, doubt)
			measure(t, h, "/var/lib/pulp", 8*day, 250*1.048576, nil)
		}, 250, ""},
		"too old":   {func(h *host.Host) { measure(t, h, "/var/lib/pulp", 91*day, 150*1.048576, nil) }, 0, "older than 90 days"},
		"of 90":     {func(h *host.Host) { measure(t, h, "/var/lib/pulp", 90*day-time.Hour, 150*1.048576, nil) }, 150, ""},
		"of future": {func(h *host.Host) { measure(t, h, "/var/lib/pulp", -day, 150*1.048576, nil) }, 0, "clocks"},
		"before another kernel": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, func(r *evidence.Run, _ *Evidence) { r.Machine.Kernel = "5.14.0-0" })
		}, 0, "made with kernel 5.14.0-0"},
		"before another scheduler": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, nil)
			machine.WriteFile(t, h.Name, "sys/block/sdb/queue/scheduler", "none [mq-deadline]\n")
		}, 0, "/sys/block/sdb/queue/scheduler was"},
		"another disk's scheduler": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, nil)
			machine.WriteFile(t, h.Name, "sys/block/sda/queue/scheduler", "none [mq-deadline]\n")
		}, 150, ""},
		"before another disk": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, nil)
			machine.WriteFile(t, h.Name, "sys/block/sdb/size", "4000\n")
		}, 0, "sdb had another size"},
		"only another cell": {func(h *host.Host) {
			measure(t, h, "/var/lib/pulp", day, 150*1.048576, func(_ *evidence.Run, e *Evidence) { e.Places[0].Results[0].Name = "classic-read" })
		}, 0, "was not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			h := measuredMachine(t)
			c.make(h)
			a := ask(t, h, pulp)
			if c.want != 0 && a.Value != c.want || c.want == 0 && (a.Value != nil || !strings.Contains(a.Unknown, c.why) || !strings.Contains(a.Unknown, "fettle bench disk /var/lib/pulp")) {
				t.Errorf("%+v, want %g %s", a, c.want, c.why)
			}
		})
	}
}

// TestPlaces tests that each file system is queried once, and that the age is printed.
func TestPlaces(t *testing.T) {
	h := measuredMachine(t)
	machine.WriteFile(t, h.Name, "var/lib/candlepin/x", "")
	machine.WriteFile(t, h.Name, "var/lib/qpidd/x", "")
	measure(t, h, "/var/lib/pulp", 3*day+time.Hour, 150, nil)
	sources := append(platform.Facts(), satellite(), Source())
	s := platform.NewSubject(t.Context(), h, nil, sources)
	items, why := s.Items(set)
	if strings.Join(items, " ") != "/var/lib/pulp /var/lib/pgsql /var/lib/qpidd" || why != "" {
		t.Errorf("%v, %s", items, why)
	}
	if a := s.Answer("measured.disk./var/lib/pulp.stream_read_run"); !strings.HasSuffix(a.Value.(string), ", 3 days ago") {
		t.Errorf("%+v", a)
	}
	if a := s.Answer("measured.disk./var/lib/pulp.fdatasync_p99"); !strings.Contains(a.Unknown, "fettle bench disk --role etcd /var/lib/pulp") {
		t.Errorf("%+v", a)
	}
}

// TestRecords tests that a changed record is not evidence, and that a copy contains only its own
// records.
func TestRecords(t *testing.T) {
	h := measuredMachine(t)
	measure(t, h, "/var/lib/pulp", day, 150, nil)
	files, err := filepath.Glob(filepath.Join(h.Name, "var/lib/fettle/runs/*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, _ := h.Files.ReadFile(strings.TrimPrefix(files[0], h.Name))
	machine.WriteFile(t, h.Name, strings.TrimPrefix(files[0], h.Name+"/"), strings.Replace(string(text), `"value": 150`, `"value": 990`, 1))
	if a := ask(t, h, "measured.disk./var/lib/pulp.stream_read"); a.Value != nil {
		t.Errorf("a record that was changed: %+v", a)
	}
	copied := machine.Copy(t, map[string]string{"proc/self/mountinfo": "1 0 8:1 / / rw - xfs /dev/sda1 rw\n", "var/lib/pulp/x": ""})
	if a := ask(t, copied, "measured.disk./var/lib/pulp.stream_read"); !strings.Contains(a.Unknown, "is not in this copy") {
		t.Errorf("%+v", a)
	}
}
