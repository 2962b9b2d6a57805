package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

const debianArgs = "/etc/default/prometheus"

// serve starts Debian's Prometheus as its unit does.
func serve(t *testing.T) {
	t.Helper()
	h := host.Live()
	s, err := daemon.NewControl().Start(h, standard, product.Process{})
	if err == nil {
		err = product.Run(t.Context(), h, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		all, _ := instances(h)
		p, err := product.OfService(t.Context(), h, "prometheus", all[0].unit.Name)
		if err == nil {
			testkitproduct.Command(t, "kill", fmt.Sprint(p.PID))
		}
	})
	testkitproduct.Eventually(t, "Prometheus is ready", func() bool { return ready(t.Context(), h, standard) == nil })
}

// Debian's Prometheus: what is read is what its API says, keys of the file are
// taken by a reload and flags by a restart, both are given back, and what it does
// not take is never told or rolled back.
func TestServer(t *testing.T) {
	if root.Inside(t, root.Options{Servers: true}) {
		server(t)
	}
}

// TestServer3: the same with a Prometheus 3, which Debian's release has not:
// FETTLE_TEST_PROMETHEUS names the program.
func TestServer3(t *testing.T) {
	o := root.Options{Servers: true, Within: 5 * time.Minute}
	if program := os.Getenv("FETTLE_TEST_PROMETHEUS"); program != "" {
		o.Binds = []root.Bind{{Source: program, Target: "/usr/bin/prometheus", ReadOnly: true}}
	} else if !root.IsInside(t) {
		t.Skip("FETTLE_TEST_PROMETHEUS names a Prometheus 3")
	}
	if !root.Inside(t, o) {
		return
	}
	if out := testkitproduct.Command(t, "prometheus", "--version"); !strings.Contains(out, "version 3.") {
		t.Fatal(out)
	}
	server(t)
	// The sum of samples is there from the first scrape of itself on, and evaluations that are
	// left out only where there are rules.
	testkitproduct.Eventually(t, "all metrics are there", func() bool {
		page := testkitproduct.Command(t, "curl", "-s", "http://127.0.0.1:9090/metrics")
		return !slices.ContainsFunc(kept, func(name string) bool {
			return name != "prometheus_rule_group_iterations_missed_total" && !strings.Contains(page, "\n"+name)
		})
	})
}

func server(t *testing.T) {
	serve(t)
	file, args := testkitproduct.Read(t, standard), testkitproduct.Read(t, debianArgs)
	b := testkitproduct.New(t, Product)
	asked(t, b)
	pid := b.Installed().(*installed).Report.Process.PID

	b.Set([]string{"reload of prometheus " + standard}, "scrape_interval", "20s", "scrape_timeout", "5s", "prometheus/evaluation_interval", "1m")
	b.Running("scrape_interval", "20s")
	b.Running("scrape_timeout", "5s")
	b.Running("evaluation_interval", "1m")
	if now := b.Installed().(*installed).Report.Process.PID; now != pid {
		t.Errorf("it was restarted: %d, was %d", now, pid)
	}
	b.Set([]string{"restart of prometheus " + standard}, "storage.tsdb.retention.time", "30d", "query.max-concurrency", "10")
	b.Running("storage.tsdb.retention.time", "30d")
	b.Running("query.max-concurrency", "10")
	b.Running("scrape_interval", "20s")
	if got := testkitproduct.Read(t, debianArgs); !strings.Contains(got, `ARGS="--storage.tsdb.retention.time=30d --query.max-concurrency=10"`) && !strings.Contains(got, `ARGS="--query.max-concurrency=10 --storage.tsdb.retention.time=30d"`) {
		t.Errorf("the flags are\n%s", got)
	}
	b.Undo()
	testkitproduct.Same(t, standard, file)
	testkitproduct.Same(t, debianArgs, args)
	b.Running("storage.tsdb.retention.time", "15d")
	b.Running("query.max-concurrency", "20")
	b.Running("scrape_interval", "15s")
	b.Running("scrape_timeout", "10s")

	b.Refused("scrape timeout greater than scrape interval", "scrape_timeout", "1m")
	b.Refused("Prometheus would delete the oldest samples for good", "storage.tsdb.retention.time", "1d")
	b.Refused("not a tuning option", "storage.tsdb.path", "/tmp")
	// With it, it does not start: so many years are more than it counts.
	b.Refused("has ended again", "storage.tsdb.retention.time", "99999y")
	testkitproduct.Same(t, standard, file)
	testkitproduct.Same(t, debianArgs, args)
	b.Running("storage.tsdb.retention.time", "15d")
}

// asked holds what is read against what Prometheus says.
func asked(t *testing.T, b *testkitproduct.Bench) {
	i := b.Installed()
	for _, in := range inputs {
		name := in.Name
		if a := i.Answer(name); a.Value == nil && name != "samples_per_second" && name != "need_bytes" {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	for name, want := range map[string]any{"ready": true, "reload_ok": true, "corruptions": 0.0, "failed_compactions": 0.0} {
		if a := i.Answer(name); a.Value != want {
			t.Errorf("%s: %+v, want %v", name, a, want)
		}
	}
	if a := i.Answer("need_bytes"); !strings.Contains(a.Unknown, "ten minutes") {
		t.Errorf("need: %+v", a)
	}
	var flags struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal([]byte(testkitproduct.Command(t, "curl", "-s", "http://127.0.0.1:9090/api/v1/status/flags")), &flags); err != nil {
		t.Fatal(err)
	}
	for _, p := range parameters {
		o := i.Option(p.Name)
		got, _ := o.Running.Get()
		want := flags.Data[p.Name]
		switch {
		case isRetention(p.Name):
			want = p.Default // which its flags do not say
		case !isFlag(p.Name):
			want, _ = o.File.Get()
			if want == "" {
				want = p.Default
			}
		}
		if !parameters.Same(p.Name, got, want) {
			t.Errorf("%s runs with %q, Prometheus says %q", p.Name, got, want)
		}
		if p.Default != "" && isFlag(p.Name) && !parameters.Same(p.Name, p.Default, want) {
			t.Errorf("%s is by default %q, and runs with %q", p.Name, p.Default, want)
		}
	}
	if got := i.Answer("pending_changes").Value.([]string); len(got) > 0 {
		t.Errorf("pending: %v", got)
	}
	if v := i.Answer("version").Value; !strings.Contains(testkitproduct.Command(t, "prometheus", "--version"), fmt.Sprintf("version %v", v)) {
		t.Errorf("version %v", v)
	}
	archive := b.Archived()
	if v, ok := archive.Option("scrape_interval").Running.Get(); !ok || v != "15s" {
		t.Errorf("the archive says %q, %s", v, archive.Option("scrape_interval").Running.Unknown())
	}
}
