package size

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/guide/sizing/server"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/internal/ui"
)

// sizeCalls has the usual arguments of each platform.
var sizeCalls = map[string][]string{
	"satellite": {
		"hosts=12000", "hosts=1000", "hosts=70000", "hosts=20000 product-version=6.12 mqtt-hosts=5000", "hosts=30000 downloads=600 bare-metal=true",
		"hosts=12000 capsule=berlin,hosts=4000,rex=4000 capsule=paris,downloads=300 registrations=200 mqtt-hosts=5000",
	},
	"openshift": {
		"pods=2200", "nodes=20", "pods=2200 pods-per-node=500 version=4.4", "pods=2200 cpu-manager=static topology=restricted max-unavailable=2", "nodes=2600",
		"nodes=3 request-rate=100000 route=none rate=10 ipsec=true", "nodes=30 huge-pages=4GiB huge-page=1G", "pods=1 nodes=1",
	},
	"postgresql": {"connections=200 ram=16GiB cpus=8 workload=oltp disk=nvme", "connections=1 ram=256MiB cpus=1"},
	"hugepages":  {"size=16GiB", "size=16GiB nodes-numa=2 for=postgresql group=26 ram=64GiB", "size=2GiB for=pod page=1G", "size=20GiB nodes-numa=3 page=1G"},
	"network":    {"mtu=1500", "overlay=geneve ipsec=true rate=25", "overlay=vxlan mtu=9000"},
	"puppet":     {"cpus=4 ram=16GiB", "cpus=1 ram=4GiB"},
	"httpd":      {"mpm=event", "mpm=prefork for=satellite", "for=debian threads=400"},
	"router":     {"cpus=4 ram=16GiB", "cpus=2 ram=4GiB for=haproxy"},
}

// withTraffic adds a log's figures to a request that needs them.
func withTraffic(wish sizing.Request) {
	front := &server.Traffic{Logs: "a.log", SpanSeconds: 300, Count: 6000, Timed: true, Most: 200, StepSeconds: 1, MostAt: time.Unix(1.8e9, 0), Rate: 20, RateSeconds: 60, Longest: 10, Slow: 10, Connections: 6119}
	switch w := wish.(type) {
	case *server.HTTPD:
		w.Traffic, w.Workers = front, 210
	case *server.Router:
		w.Traffic = front
	case *puppet.Request:
		w.Traffic = &puppet.Traffic{
			Logs: []string{"a.log"}, SpanSeconds: 9980, Count: 16500, Seconds: 3310, Longest: 5, Nodes: 40, Busiest: 0.331, BusiestRest: 0.27,
			Of: map[string]puppet.Share{"catalog": {Count: 500, Seconds: 2500}, "file_metadatas": {Count: 500, Seconds: 400}, "file_metadata": {Count: 15000, Seconds: 210}, "report": {Count: 500, Seconds: 200}},
		}
	}
}

// The default output of every size fits 40 lines of 80 columns, and its first lines have the
// figures of the JSON document.
func TestSizeOutput(t *testing.T) {
	t.Parallel()
	f := testkitsizing.Figures(t)
	for _, s := range sizes {
		if len(sizeCalls[s.name]) == 0 {
			t.Errorf("no call of %s", s.name)
		}
		for _, said := range sizeCalls[s.name] {
			t.Run(s.name+" "+said, func(t *testing.T) {
				wish := s.wish()
				withTraffic(wish)
				r, err := testkitsizing.Ask(f, wish, testkitsizing.Words(said)...)
				if err != nil {
					t.Fatal(err)
				}
				for _, show := range []sizing.Show{{}, {Sources: true}, {Details: true}, {Details: true, Sources: true}} {
					checkSizeOutput(t, r, show)
				}
				checkSizeFigures(t, r)
			})
		}
	}
}

func checkSizeOutput(t *testing.T, r *sizing.Result, show sizing.Show) {
	t.Helper()
	var out strings.Builder
	sizing.Print(&ui.Screen{Out: &out, Format: ui.Table, Width: 80}, r, show)
	text := out.String()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > 40 && show == (sizing.Show{}) {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	for _, l := range lines {
		// Commands and single words, such as paths, are not broken.
		command := slices.ContainsFunc(r.Steps, func(st sizing.Step) bool { return strings.TrimSpace(l) == st.Command })
		if utf8.RuneCountInString(l) > 80 && !command && len(strings.Fields(l)) > 1 {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(l), l)
		}
		if strings.Contains(l, " GB") && !show.Sources || strings.Contains(l, "1 limits") || strings.Contains(l, "e+0") {
			t.Errorf("%q", l)
		}
	}
	words := strings.Join(strings.Fields(text), " ")
	if head := strings.Join(strings.Fields(strings.Join(r.Headline.Lines, " ")), " "); !strings.HasPrefix(words, head) || head == "" {
		t.Errorf("the output does not begin with %q:\n%s", head, text)
	}
}

// checkSizeFigures compares the figures of the headline with the rest of the document.
func checkSizeFigures(t *testing.T, r *sizing.Result) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Headline struct {
			Lines   []string           `json:"lines"`
			Figures map[string]float64 `json:"figures"`
		} `json:"headline"`
		Values []struct {
			Group, Name string
			Value       any
		} `json:"values"`
		Limits []struct {
			UsedPercent float64 `json:"used_percent"`
		} `json:"limits"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	if n := len(doc.Headline.Lines); n < 1 || n > 3 || len(doc.Headline.Figures) < 2 {
		t.Errorf("headline %+v", doc.Headline)
	}
	compared := 0
	for name, figure := range doc.Headline.Figures {
		for _, v := range doc.Values {
			key := strings.ToLower(strings.NewReplacer(" ", "_", "-", "_", ".", "_").Replace(v.Group + "_" + v.Name))
			value, number := v.Value.(float64)
			if number && (name == key || strings.HasPrefix(name, key+"_") && slices.Contains([]string{"bytes", "gib", "gb", "s", "per_s"}, strings.TrimPrefix(name, key+"_"))) {
				compared++
				if value != figure {
					t.Errorf("headline %s is %g, and the value %s/%s %g", name, figure, v.Group, v.Name, value)
				}
			}
		}
	}
	if compared == 0 && r.Platform != "postgresql" { // whose sizes are texts
		t.Errorf("no figure of %v is a value", doc.Headline.Figures)
	}
	for _, l := range doc.Limits {
		if used := doc.Headline.Figures["tightest_limit_used_percent"]; l.UsedPercent > used {
			t.Errorf("a limit is used by %g %%, and the tightest one by %g %%", l.UsedPercent, used)
		}
	}
}
