package prometheus

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	conftest "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/product"
)

const (
	unitFile = "/lib/systemd/system/prometheus.service"
	unitText = "[Service]\nEnvironmentFile=/etc/default/prometheus\nExecStart=/usr/bin/prometheus --web.enable-lifecycle $ARGS\n"
	sample   = "# x\nglobal:\n  scrape_interval:     15s # Set\n  'evaluation_interval': \"1m\"\n  external_labels:\n      monitor: 'example'\nscrape_configs:\n  - job_name: a\n    scrape_interval: 5s\n"
)

func machine(t testing.TB, args, file string) *host.Host {
	return plugin.Tree(t, map[string]string{unitFile: unitText, "/etc/default/prometheus": args, standard: file})
}

func TestOptions(t *testing.T) {
	h := machine(t, "# x\nARGS=\"--query.timeout=1m --storage.tsdb.retention.time 30d --web.enable-admin-api --no-x\"\n", sample)
	all, err := Product.Find(t.Context(), h)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for name, want := range map[string]string{
		"scrape_interval": "15s " + standard + ":3", "evaluation_interval": "1m " + standard + ":4", "scrape_timeout": "",
		"query.timeout": "1m /etc/default/prometheus:2", "storage.tsdb.retention.time": "30d /etc/default/prometheus:2", "web.enable-lifecycle": "true " + unitFile + ":3",
	} {
		f := all[0].Option(name).File
		v, ok := f.Get()
		if got := v + " " + f.Source(); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// The file that a flag names; a broken one.
	h = plugin.Tree(t, map[string]string{unitFile: strings.Replace(unitText, "$ARGS", "--config.file=/etc/p.yml", 1), "/etc/p.yml": "global: [\n"})
	if all, err := Product.Find(t.Context(), h); err != nil || !strings.HasPrefix(all[0].Option("scrape_interval").File.Unknown(), "/etc/p.yml: ") {
		t.Errorf("%v, %v", all, err)
	}
	if _, _, err := winner(h, "/etc/p.yml", "query.timeout"); err == nil || !strings.Contains(err.Error(), "the unit has no environment file for flags") {
		t.Error(err)
	}
	if all, err := Product.Find(t.Context(), plugin.Tree(t, map[string]string{standard: sample})); err != nil || len(all) != 0 {
		t.Errorf("a file is no server: %v, %v", all, err)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`ARGS=""`, ""}, {"ARGS=", ""}, {"OTHER=--a.b=1", ""},
		{"ARGS=\"--a.b=1\t--c.d  x --e --f.g=\"\n", "a.b=1|c.d=x"},
		{"ARGS=--a.b=1\nARGS='--a.b=2 --a.b=3'\n", "a.b=2|a.b=3"},
		{"ARGS=\"--a.b=\\\"1\\\"\"", "!1: ARGS has quotes"}, {"ARGS=\"--a.b=1 \\\n--c=2\"", "!1: ARGS has quotes"}, {"#\nARGS=\"--a=1", "!2: ARGS"},
	} {
		all, err := flags{"ARGS"}.Assignments(c.text)
		if want, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		var got []string
		for _, a := range all {
			if c.text[a.From:a.To] != a.Literal {
				t.Errorf("%q: %+v is elsewhere", c.text, a)
			}
			got = append(got, a.Key+"="+a.Literal)
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%q: %q, %v", c.text, got, err)
		}
	}
	for text, want := range map[string]string{
		`ARGS=""`: `ARGS="--x.y=1"`, "ARGS=": "ARGS=--x.y=1", "ARGS='--a=b' # c": "", "ARGS=\"--a\"\nB=1\n": "ARGS=\"--a --x.y=1\"\nB=1\n", "B=1\n": "", `ARGS="  "`: `ARGS="   --x.y=1"`,
	} {
		f := flags{"ARGS"}
		got, err := f.Insert(text, "x.y", "1")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
			continue
		}
		if err != nil {
			continue
		}
		all, err := f.Assignments(got)
		if err != nil || len(all) != 1 || f.Remove(got, all[0]) != text {
			t.Errorf("%q does not come back: %+v, %v", got, all, err)
		}
	}
}

func TestGlobal(t *testing.T) {
	got, err := global{}.Insert(sample, "scrape_timeout", "5s")
	if err != nil || !strings.Contains(got, "global:\n  scrape_timeout: 5s\n  scrape_interval:") {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "global:\n", "global: {scrape_interval: 15s}\n", "scrape_configs: []\n"} {
		if got, err := (global{}).Insert(text, "scrape_timeout", "5s"); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
	h := machine(t, "ARGS=\n", "global: {scrape_interval: 15s}\n")
	if _, _, err := winner(h, standard, "scrape_interval"); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Error(err)
	}
}

func TestValues(t *testing.T) {
	conftest.Reads(t, readTime, map[string]float64{"15d": 1296000, "1h30m": 5400, "500ms": 0.5, "0": 0, "1y": 31536000})
	conftest.Reads(t, readSize, map[string]float64{"512MB": 512 << 20, "512MiB": 512 << 20, "1GiB512MiB": 1536 << 20, "0B": 0, "0": 0, "2GB": 2 << 30})
	conftest.Checks(t, check, [][3]string{
		{"scrape_interval", "15s", ""}, {"scrape_interval", "15", "not a time"}, {"scrape_interval", "", "not a time"}, {"scrape_interval", "30m1h", "not a time"},
		{"storage.tsdb.retention.size", "1.5GB", "not a size"}, {"query.max-samples", "many", "not a number"}, {"config.file", "/x", "tuning"}, {"web.enable-lifecycle", "true", "tuning"},
	})
	for _, c := range []struct {
		flags map[string]string
		want  string
	}{
		{nil, "http://127.0.0.1:9090"}, {map[string]string{"web.listen-address": ":9091"}, "http://127.0.0.1:9091"}, {map[string]string{"web.listen-address": "[::1]:1", "web.external-url": "https://x.example/p/"}, "http://[::1]:1/p"},
		{map[string]string{"web.listen-address": "10.0.0.1:1", "web.external-url": "https://x.example/p/", "web.route-prefix": "/"}, "http://10.0.0.1:1"},
	} {
		if got := address(c.flags); got != c.want {
			t.Errorf("%v: %s, want %s", c.flags, got, c.want)
		}
	}
	// Where nothing runs, what the file says counts: less is refused.
	h := machine(t, "ARGS=--storage.tsdb.retention.time=30d\n", sample)
	for value, bad := range map[string]bool{"30d": false, "60d": false, "15d": true, "0": true} {
		if err := keepsSamples(h, "storage.tsdb.retention.time", value); (err != nil) != bad {
			t.Errorf("%s: %v", value, err)
		}
	}
	if err := keepsSamples(h, "storage.tsdb.retention.size", "1GB"); err == nil {
		t.Error("a limit where none was")
	}
}

// What it says of itself.
func TestAsked(t *testing.T) {
	a := &answer{
		Ready: "200 OK", Flags: map[string]string{"storage.tsdb.retention.time": "0s", "query.timeout": "2m"}, Global: map[string]string{"scrape_interval": "15s"},
		Runtime: runtime{ReloadOK: true, Retention: "10d or 512MiB"},
		Values:  map[string]float64{"process_start_time_seconds": 1000, "prometheus_tsdb_head_samples_appended_total": 36000, "prometheus_tsdb_compaction_chunk_size_bytes_sum": 150, "prometheus_tsdb_compaction_chunk_samples_sum": 100, "prometheus_tsdb_storage_blocks_bytes": 5, "prometheus_tsdb_wal_storage_size_bytes": 6},
	}
	h := machine(t, "ARGS=--query.timeout=3m\n", sample)
	all, err := instances(h)
	if err != nil {
		t.Fatal(err)
	}
	i := daemon.New(h, all[0].Instance, all[0], a, nil)
	a.now = 4600
	for input, want := range map[string]any{"samples_per_second": 10.0, "need_bytes": 10 * 864000 * 1.5, "disk_bytes": 11.0, "ready": true} {
		if got := i.Answer(input); got.Value != want {
			t.Errorf("%s: %+v, want %v", input, got, want)
		}
	}
	if got := i.Pending().Value.([]string); strings.Join(got, " ") != "query.timeout" {
		t.Errorf("pending %q", got)
	}
	a.Runtime.Retention = "512MiB"
	if got := i.Answer("need_bytes"); got.Value != nil || got.Unknown != "" {
		t.Errorf("%+v", got)
	}
}

func FuzzArgs(f *testing.F) {
	f.Add("ARGS=\"--query.timeout=1m\"\n", "query.timeout", "2m")
	f.Add("# x\nARGS=\"\"", "storage.tsdb.retention.time", "30d")
	f.Add("ARGS=--a \\\n", "query.timeout", "\"")
	f.Add("ARGS=' '\nARGS=--x=1 ", "x.y", "-1")
	f.Fuzz(func(t *testing.T, args, key, value string) {
		product.Bytes(t, Product, map[string]string{unitFile: unitText, "/etc/default/prometheus": args, standard: sample}, "/etc/default/prometheus#"+key, value)
	})
}

func FuzzFile(f *testing.F) {
	f.Add(sample, "scrape_interval", "30s")
	f.Add("global:\n\n  a: 1", "scrape_timeout", "5s")
	f.Add("{global: {a: 1}}", "a", "it's")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		product.Bytes(t, Product, map[string]string{unitFile: unitText, "/etc/default/prometheus": "", standard: text}, standard+"#"+key, value)
	})
}

var _ conf.Inserter = flags{}

// Prometheus takes merges and aliases, and the first document.
func TestGlobalMerges(t *testing.T) {
	got, err := readGlobal("c", "x: &x {scrape_timeout: 7s, scrape_interval: 9s}\ni: &i 30s\nglobal:\n  <<: *x\n  scrape_interval: *i\n---\nglobal: {scrape_timeout: 1s}\n")
	if err != nil || got["scrape_timeout"].text != "7s" || got["scrape_interval"].text != "30s" {
		t.Errorf("%+v %v", got, err)
	}
}

// TestRetention: since Prometheus 3 the configuration file has the retention, and where it
// does, flags have no effect, also on what it leaves out.
func TestRetention(t *testing.T) {
	const section = sample + "storage:\n  tsdb:\n    retention:\n"
	for name, c := range map[string]struct {
		args, file, said       string
		time, size, percentage string // by the files
		runs                   [3]string
	}{
		"flags":                   {"ARGS=--storage.tsdb.retention.time=30d\n", sample, "30d", "30d", "", "", [3]string{"30d", "0B", "0"}},
		"a flag for the size":     {"ARGS=--storage.tsdb.retention.size=1GB\n", sample, "1GiB", "0", "1GB", "", [3]string{"0", "1GiB", "0"}},
		"the file before flags":   {"ARGS=--storage.tsdb.retention.time=30d --storage.tsdb.retention.size=1GB\n", section + "      time: 7d\n", "7d", "7d", "0B", "0", [3]string{"7d", "0B", "0"}},
		"a share of the disk":     {"ARGS=--storage.tsdb.retention.time=30d\n", section + "      percentage: 80\n", "80%", "0", "0B", "80", [3]string{"0", "0B", "80"}},
		"all":                     {"ARGS=\n", section + "      time: 7d\n      size: 1GB\n      percentage: 12.5\n", "1w or 1GiB or 12.5%", "7d", "1GB", "12.5", [3]string{"1w", "1GiB", "12.5"}},
		"a section of other keys": {"ARGS=--storage.tsdb.retention.time=30d\n", sample + "storage: {tsdb: {out_of_order_time_window: 1h}}\n", "30d", "30d", "", "", [3]string{"30d", "0B", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t, c.args, c.file)
			all, err := instances(h)
			if err != nil {
				t.Fatal(err)
			}
			i := daemon.New(h, all[0].Instance, all[0], &answer{Flags: map[string]string{}, Runtime: runtime{Retention: c.said}}, nil)
			for n, name := range []string{retentionTime, retentionSize, retentionPercentage} {
				o := i.Option(name)
				file, _ := o.File.Get()
				running, _ := o.Running.Get()
				if want := []string{c.time, c.size, c.percentage}[n]; file != want || running != c.runs[n] {
					t.Errorf("%s: %q in the files and %q running, want %q and %q", name, file, running, want, c.runs[n])
				}
			}
			_, _, err = winner(h, "/etc/default/prometheus", retentionTime)
			if byFile := strings.Contains(c.file, "retention:"); (err != nil) != byFile || byFile && !strings.Contains(err.Error(), "overrides the flag") {
				t.Errorf("a flag next to the file: %v", err)
			}
		})
	}
	// Where samples are kept without a limit of time, each limit deletes some.
	if err := keepsSamples(machine(t, "ARGS=\n", section+"      size: 1GB\n"), retentionTime, "365d"); err == nil {
		t.Error("a limit of time where there was none")
	}
}
