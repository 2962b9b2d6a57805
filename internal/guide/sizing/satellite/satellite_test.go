package satellite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/internal/unit"
)

func ask(t testing.TB, said string) *sizing.Result {
	t.Helper()
	return testkitsizing.Sized(t, testkitsizing.Figures(t), New(), testkitsizing.Words(said)...)
}

const gib = 1 << 30

// The five sizes with what the installer publishes for each, and the workers of
// the Tuning Guide's table instead of those of its formula.
func TestSizes(t *testing.T) {
	for hosts, want := range map[string]struct {
		size                string
		cpus, ram           int
		connections         int
		buffers, work, heap int
		workers, auto       int
	}{
		// 2 GiB of buffers, where the Tuning Guide's optimum begins whatever the size (5.7), take
		// the place of the sixth worker.
		"1":      {"default", 4, 20, 500, 2 * gib, 4 << 20, 4 * gib, 5, 6},
		"5000":   {"default", 4, 20, 500, 2 * gib, 4 << 20, 4 * gib, 5, 6},
		"5001":   {"medium", 8, 32, 1000, 4 * gib, 4 << 20, 4 * gib, 12, 12},
		"10000":  {"medium", 8, 32, 1000, 4 * gib, 4 << 20, 4 * gib, 12, 12},
		"12000":  {"large", 16, 64, 1000, 8 * gib, 4 << 20, 4 * gib, 18, 24},
		"20001":  {"extra-large", 32, 128, 1000, 16 * gib, 8 << 20, 8 * gib, 24, 48},
		"60001":  {"extra-extra-large", 48, 256, 1000, 32 * gib, 8 << 20, 8 * gib, 26, 72},
		"200000": {"extra-extra-large", 48, 256, 1000, 32 * gib, 8 << 20, 8 * gib, 26, 72},
	} {
		for _, version := range []string{"6.12", "6.16", "6.18"} {
			r := ask(t, "hosts="+hosts+" product-version="+version)
			pool := 20 // threads + 4 since Foreman 3.11
			if version == "6.12" {
				pool = 16
			}
			testkitsizing.Want(t, r, map[string]string{
				"size/tuning": want.size, "hardware/cpus": fmt.Sprint(want.cpus), "hardware/memory": fmt.Sprint(want.ram * gib),
				"postgresql/max_connections": fmt.Sprint(want.connections), "postgresql/shared_buffers": fmt.Sprint(want.buffers), "postgresql/work_mem": fmt.Sprint(want.work),
				"candlepin/heap": fmt.Sprint(want.heap), "puma/workers": fmt.Sprint(want.workers), "puma/db_pool": fmt.Sprint(pool),
				"installer/--foreman-foreman-service-puma-threads-max": "16", "installer/--foreman-dynflow-worker-instances": "3",
			})
			if also := r.Value("puma", "workers").Also; fmt.Sprint(also[0].Value) != fmt.Sprint(want.auto) {
				t.Errorf("%s hosts: the formula gives %v, want %d", hosts, also[0].Value, want.auto)
			}
			for _, b := range r.Budgets {
				if b.Left < 0 {
					t.Errorf("%s hosts, %s: %s has %g left", hosts, version, b.Name, b.Left)
				}
			}
			if want.size != "default" && r.Artefact(HieraFile) != nil && !strings.Contains(r.Artefact(HieraFile).Content, "qpid") {
				t.Errorf("%s hosts: custom-hiera.yaml has what the size has:\n%s", hosts, r.Artefact(HieraFile).Content)
			}
		}
	}
}

// The worked examples of the Tuning Guide, and what else it gives figures for.
func TestExamples(t *testing.T) {
	for _, tt := range []struct {
		said    string
		want    map[string]string
		missing []string // values
		notes   string
	}{
		// 5.4.1 and 5.4.2: 150100 is for 50,000 hosts, 65536 for 16,259.
		{"hosts=10000 product-version=6.12", map[string]string{"qpid/qdrouterd_open_files": "150100", "qpid/qpidd_open_files": "65536", "sysctl/fs.aio-max-nr": "330001", "disk//var/lib/qpidd": "20.972"}, []string{"hiera/qpid::open_file_limit", "hiera/qpid::router::open_file_limit"}, ""},
		{"hosts=16259 product-version=6.14", nil, []string{"hiera/qpid::open_file_limit"}, ""},
		{"hosts=16260 product-version=6.14", map[string]string{"hiera/qpid::open_file_limit": "65540"}, nil, ""},
		{"hosts=50000 product-version=6.12", nil, []string{"hiera/qpid::router::open_file_limit"}, ""},
		{"hosts=50001 product-version=6.12", map[string]string{"hiera/qpid::router::open_file_limit": "150103"}, nil, ""},
		// 5.4.3: the kernel's own 65536 are for 1985 hosts.
		{"hosts=1985 product-version=6.12", nil, []string{"sysctl/fs.aio-max-nr"}, ""},
		{"hosts=1986 product-version=6.12", map[string]string{"sysctl/fs.aio-max-nr": "65539"}, nil, ""},
		{"hosts=50001 product-version=6.15", nil, []string{"hiera/qpid::router::open_file_limit", "sysctl/fs.aio-max-nr", "disk//var/lib/qpidd", "qpid/qpidd_open_files"}, "no sysctls are needed"},
		// 5.3.1: 582 for 150 registrations, with prefork up to 6.11.
		{"hosts=3000 product-version=6.11 registrations=150", map[string]string{"hiera/apache::mod::prefork::serverlimit": "582", "hiera/apache::mod::prefork::maxclients": "582"}, []string{"hiera/apache::mod::event::serverlimit"}, ""},
		{"hosts=3000 product-version=6.11", map[string]string{"hiera/apache::mod::prefork::startservers": "10"}, []string{"hiera/apache::mod::event::startservers"}, ""},
		{"hosts=9000 disk=500GB", map[string]string{"disk//var/lib/pulp": "300"}, nil, ""},
		{"hosts=8000 product-version=6.11", map[string]string{"httpd/MaxClients": "1024"}, []string{"hiera/apache::mod::prefork::serverlimit"}, ""},
		// 5.3.3: 64 x 16 = 1024; the size has it from medium up.
		{"hosts=3000 registrations=150", map[string]string{"hiera/apache::mod::event::serverlimit": "64", "hiera/apache::mod::event::maxrequestworkers": "1024"}, nil, ""},
		{"hosts=3000 registrations=150 product-version=6.12", map[string]string{"hiera/apache::mod::event::maxrequestworkers": "1024", "hiera/apache::mod::event::maxrequestsperchild": "4000"}, nil, ""},
		{"hosts=3000 registrations=150 product-version=6.15", nil, []string{"hiera/apache::mod::event::maxrequestsperchild"}, ""},
		{"hosts=3000 registrations=64", nil, []string{"hiera/apache::mod::event::serverlimit"}, ""},
		{"hosts=8000 registrations=150", map[string]string{"httpd/MaxRequestWorkers": "1024"}, []string{"hiera/apache::mod::event::serverlimit"}, ""},
		{"hosts=8000 registrations=300", nil, []string{"hiera/apache::mod::event::serverlimit"}, "override --tuning"},
		// 5.5 and 5.6.1.
		{"hosts=5000 mqtt-hosts=5000", map[string]string{"mosquitto/LimitNOFILE": "5050", "installer/--foreman-proxy-plugin-remote-execution-script-mode": "pull-mqtt"}, nil, "Bug 2244811"},
		// 5.6.2: the options are written; without a number the Tuning Guide gives none.
		{"hosts=5000 mqtt-hosts=5000 mqtt-rate-limit=200 mqtt-resend-interval=600 mqtt-ttl=30", map[string]string{
			"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-rate-limit":      "200",
			"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-resend-interval": "600",
			"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-ttl":             "30",
		}, nil, ""},
		{"hosts=5000 mqtt-hosts=5000 mqtt-rate-limit=200", map[string]string{
			"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-resend-interval": "900",
			"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-ttl":             "5",
		}, nil, ""},
		{"hosts=5000 mqtt-hosts=5000", nil, []string{"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-rate-limit"}, "fettle load mqtt --pull"},
		{"hosts=500 mqtt-hosts=500", map[string]string{"mosquitto/LimitNOFILE": "1024"}, nil, ""},
		{"hosts=500", nil, []string{"mosquitto/LimitNOFILE"}, ""},
		// 5.7: 2000 where the size does not have it.
		{"hosts=5000", map[string]string{"hiera/postgresql::server::config_entries/autovacuum_vacuum_cost_limit": "2000", "hiera/postgresql::server::config_entries/shared_buffers": "2GB"}, nil, ""},
		{"hosts=5000 content=heavy", map[string]string{"hiera/postgresql::server::config_entries/shared_buffers": "2GB", "puma/workers": "4"}, nil, ""},
		{"hosts=9000", nil, []string{"hiera/postgresql::server::config_entries/shared_buffers"}, ""},
		// 5.2.4: heavy on content takes the fewest workers of the table.
		{"hosts=12000 content=heavy", map[string]string{"puma/workers": "12", "installer/--foreman-foreman-service-puma-threads-max": "5"}, []string{"hiera/postgresql::server::config_entries/autovacuum_vacuum_cost_limit"}, "stays empty"},
		// More CPUs than the size asks for: its 500 connections hold fewer threads.
		{"hosts=3000 cpus=48 ram=256GiB", map[string]string{"size/tuning": "default", "puma/workers": "26", "installer/--foreman-foreman-service-puma-threads-max": "8"}, nil, "suffices for size extra-extra-large"},
		{"hosts=3000 cpus=48 ram=20GiB", map[string]string{"puma/workers": "5"}, []string{"hiera/postgresql::server::config_entries/shared_buffers"}, ""},
		// 5.9.1.
		{"hosts=9000 capsule=a,rex=2000 capsule=b,rex=2001 capsule=c,rex=4000,hosts=4000", map[string]string{"capsule a/size": "minimal", "capsule b/size": "large", "capsule c/size": "large", "capsule c/cpus": "8", "capsule c/memory": fmt.Sprint(24 * gib)}, nil, "never justify"},
		{"hosts=9000 capsule=a,downloads=500 capsule=b,downloads=501 capsule=c,downloads=2000", map[string]string{"capsule a/size": "minimal", "capsule b/size": "minimal", "capsule c/size": "large"}, nil, "several Capsules share the load"},
		{"hosts=9000 registrations=400 capsule=a,hosts=500", map[string]string{"capsule a/size": "minimal", "hiera/apache::mod::proxy::proxy_timeout": "600"}, nil, ""},
		{"hosts=3000 cpus=8 ram=24GiB downloads=501", nil, nil, "need a Capsule"},
		// Nothing is known of a larger one.
		{"hosts=30000 downloads=600", nil, nil, "from a Satellite of 32 CPUs and 128GiB"},
		{"hosts=9000 bare-metal=true", map[string]string{"system/tuned_profile": "throughput-performance"}, nil, ""},
	} {
		r := ask(t, tt.said)
		testkitsizing.Want(t, r, tt.want)
		for _, key := range tt.missing {
			group, name, _ := strings.Cut(key, "/")
			if v := r.Value(group, name); v != nil {
				t.Errorf("%s: there is %s = %v", tt.said, key, v.Value)
			}
		}
		if !strings.Contains(strings.Join(r.Notes, "\n"), tt.notes) {
			t.Errorf("%s: no note has %q: %q", tt.said, tt.notes, r.Notes)
		}
	}
	for said, limited := range map[string]bool{"hosts=30000 downloads=600": false, "hosts=3000 cpus=8 ram=24GiB downloads=600": true, "hosts=3000 downloads=600": true} {
		over := slices.ContainsFunc(ask(t, said).Limits, func(l sizing.Limit) bool {
			return l.Name == "downloads at once from the Satellite" && l.Over && l.Maximum == 500
		})
		if over != limited {
			t.Errorf("%s: over a limit of downloads: %v", said, over)
		}
	}
	for _, bad := range []string{"hosts=5000 mqtt-rate-limit=200", "hosts=5000 mqtt-hosts=5000 mqtt-resend-interval=5 mqtt-ttl=30"} {
		if _, err := testkitsizing.Ask(testkitsizing.Figures(t), New(), testkitsizing.Words(bad)...); !testkitsizing.BadInput(err) {
			t.Errorf("%s is taken", bad)
		}
	}
	if r := ask(t, "hosts=9000 downloads=500"); strings.Contains(strings.Join(r.Notes, " "), "need a Capsule") {
		t.Error("500 downloads ask for a Capsule")
	}
}

// The reasons are those of this plan, and the Tuning Guide's.
func TestReasons(t *testing.T) {
	for _, tt := range []struct{ said, value, want string }{
		{"hosts=70000", "size/tuning", "70,000 hosts; this size is for more hosts than the others"},
		{"hosts=1", "size/tuning", "1 host; this size is for hosts up to 5,000"},
		{"hosts=3000 product-version=6.11 registrations=151", "httpd/MaxClients", "151 registrations at once"},
		{"hosts=3000", "system/tuned_profile", "for a guest; use --bare-metal if this is not a guest"},
		{"hosts=3000 bare-metal=true", "system/tuned_profile", "for bare metal"},
		{"hosts=3000", "installer/--foreman-foreman-service-puma-threads-min", "starting all 16 took 12 % less memory than starting none"},
		{"hosts=3000", "postgresql/shared_buffers", "custom-hiera.yaml sets it, size default has 512MiB"},
		{"hosts=12000", "postgresql/shared_buffers", "the Tuning Guide calls 2 GiB to a quarter of the memory optimal"},
		{"hosts=3000", "hardware/storage", "reads need at least 60 to 80 MB/s; a local SSD gives 600"},
		{"hosts=3000 product-version=6.11", "httpd/MaxClients", "the Tuning Guide's figure for 150 registrations at once"},
		{"hosts=3000 product-version=6.11 registrations=300", "httpd/MaxClients", "300 registrations at once cause 1,164 requests (Tuning Guide: 150 cause 582)"},
		{"hosts=3000", "redis/memory", "the Tuning Guide has no figure, and expects it to be stable"},
	} {
		group, name, _ := strings.Cut(tt.value, "/")
		if v := ask(t, tt.said).Value(group, name); v == nil || !strings.Contains(v.Why, tt.want) {
			t.Errorf("%s: %s: %+v, want %q", tt.said, tt.value, v, tt.want)
		}
	}
	// Disks are measured, firmware is set where there is any, and each Capsule is looked at.
	for said, want := range map[string][]string{
		"hosts=3000":                 {"fettle bench disk", "ping -q -c 100 -i 0.2 HOST"},
		"hosts=3000 bare-metal=true": {"fettle bench disk", "performance mode"},
		"hosts=3000 capsule=a.example capsule=b.example": {"for c in a.example b.example; do ping -q", "latency, jitter and loss"},
	} {
		text := fmt.Sprint(ask(t, said).Steps)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no step has %q", said, w)
			}
		}
		if strings.Contains(text, "performance mode") != strings.Contains(said, "bare-metal") {
			t.Errorf("%s: the step of the firmware", said)
		}
	}
	if notes := strings.Join(ask(t, "hosts=12000").Notes, " "); !strings.Contains(notes, "on 16 CPUs 16 were 55 % faster than 2") {
		t.Error(notes)
	}
}

// The newest version is the default, and is said; the order of the steps is the
// guide's.
func TestAnswer(t *testing.T) {
	r := ask(t, "hosts=12000")
	if r.Version != "6.18" {
		t.Errorf("the newest is %s", r.Version)
	}
	var order []string
	for _, s := range r.Steps {
		for _, word := range []string{"backup", "fettle tune", "grubby", "daemon-reload", "satellite-installer", "fettle check"} {
			if strings.Contains(s.Command, word) {
				order = append(order, word)
			}
		}
		if strings.HasPrefix(s.Command, "satellite-installer") || strings.Contains(s.Command, "service restart") {
			if s.Check != "satellite-maintain health check" || s.Restarts == "" {
				t.Errorf("%s: restarts %q, checked by %q", s.Do, s.Restarts, s.Check)
			}
		}
	}
	if want := []string{"backup", "fettle tune", "grubby", "daemon-reload", "satellite-installer", "fettle check"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	for _, v := range r.Values {
		if len(v.Sources) == 0 {
			t.Errorf("%s/%s has no source", v.Group, v.Name)
		}
	}
}

// The formula over every machine, worked out here in whole halves.
func TestAutoWorkers(t *testing.T) {
	for version, most := range map[string]int{"6.12": 1 << 30, "6.16": 1 << 30, "6.17": 100, "6.18": 100} {
		puma, err := sizing.Of(testkitsizing.Figures(t), "satellite-puma", version)
		if err != nil {
			t.Fatal(err)
		}
		for cpus := 1; cpus <= 128; cpus++ {
			for g := 1; g <= 512; g++ {
				want := max(0, min(most, min(3*cpus, 2*g-3)/2))
				if got := AutoWorkers(puma, cpus, unit.Size(g)*unit.GiB+unit.Size(cpus)); got != want {
					t.Fatalf("%s, %d CPUs, %d GiB: %d, want %d", version, cpus, g, got, want)
				}
			}
		}
	}
}

// More hosts are never answered by less, and what is written can be read.
func TestMoreIsMore(t *testing.T) {
	f := testkitsizing.Figures(t)
	for _, version := range []string{"6.9", "6.12", "6.18"} {
		last := map[string]float64{}
		for hosts := 1; hosts < 220_000; hosts += 1 + hosts/7 {
			r, err := testkitsizing.Ask(f, New(), "hosts", fmt.Sprint(hosts), "mqtt-hosts", fmt.Sprint(hosts), "product-version", version)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"hardware/cpus", "puma/workers", "postgresql/max_connections", "mosquitto/LimitNOFILE", "qpid/qpidd_open_files"} {
				group, name, _ := strings.Cut(key, "/")
				v := r.Value(group, name)
				if v == nil {
					continue
				}
				n := float64(v.Value.(int))
				if n < last[key] {
					t.Fatalf("%s, %d hosts: %s falls from %g to %g", version, hosts, key, last[key], n)
				}
				last[key] = n
			}
			readable(t, r)
		}
	}
}

// readable reads the files strictly.
func readable(t *testing.T, r *sizing.Result) {
	t.Helper()
	for _, a := range r.Files {
		switch a.Name {
		case HieraFile:
			var h hiera
			if err := testkitsizing.ReadYAML(a.Content, &h); err != nil || h == (hiera{}) {
				t.Fatalf("%s: %v\n%s", a.Name, err, a.Content)
			}
		case SysctlFile, HTTPDFile, MosquittoFile:
			if !strings.Contains(a.Content, "=") || !strings.HasSuffix(a.Content, "\n") {
				t.Fatalf("%s: %q", a.Name, a.Content)
			}
		default:
			t.Fatal(a.Name)
		}
	}
}

func TestBadInput(t *testing.T) {
	testkitsizing.Refused(t, New, testkitsizing.Words, map[string]string{
		"":                                         "--hosts: not given",
		"hosts=-1":                                 "less than 1",
		"hosts=0":                                  "less than 1",
		"hosts=many":                               "not a whole number",
		"hosts=250001":                             "want 1 to 250,000 (the Tuning Guide's largest size",
		"hosts=99999999999999999999":               "want 1 to 250,000",
		"hosts=-99999999999999999999":              "less than 1",
		"hosts=":                                   "empty value",
		"hosts=100 product-version=":               "empty value",
		"hosts=100 cpus=4097":                      "want 1 to 4,096 (RHEL",
		"hosts=9000 disk=340GB":                    "340 GB is less than the 341 GB that Satellite's directories need, of which /var/lib/pulp has 300",
		"hosts=9000 disk=100GiB":                   "107 GB is less than the 341 GB",
		"hosts=9000 registrations=5001":            "want 0 to 5,000 (about ten times the 480",
		"hosts=100 registrations=101":              "more than the 100 hosts",
		"hosts=100 downloads=101":                  "more than the 100 hosts",
		"hosts=100 capsule=a,rex=101":              "rex=101 of Capsule a is more than the 100 hosts of the Satellite",
		"hosts=100 capsule=a,hosts=9,downloads=10": "downloads=10 of Capsule a is more than the 9 hosts that it serves",
		"hosts=12000 ram=57GiB":                    "needs 64GiB, not 57GiB",
		"hosts=12000 cpus=15":                      "needs 16 CPUs, not 15",
		"hosts=100 ram=1EiB":                       "more than",
		"hosts=100 product-version=5.9":            `--product-version "5.9": want a version from 6.9 to 6.18`,
		"hosts=100 product-version=7":              "want a version from 6.9 to 6.18",
		"hosts=100 mqtt-hosts=101":                 "more than the 100 hosts",
		"hosts=100 content=light":                  "want balanced, heavy",
		"hosts=100 capsule=":                       "empty value",
		"hosts=100 capsule=,hosts=1":               "does not begin with a name",
		"hosts=100 capsule=a,hots=5":               `want hosts=, downloads= or rex=`,
		"hosts=100 capsule=a,rex=-1":               "whole number",
		"hosts=100 capsule=a,rex":                  "whole number",
		"hosts=100 capsule=a,rex=1,rex=2":          "twice",
		"hosts=100 capsule=a capsule=a":            "twice",
		"hosts=100 capsule=a,hosts=101":            "more than the 100 of the Satellite",
		"hosts=100 capsule=a/../b":                 "does not begin with a name",
		"hosts=3000 cpus=4096 ram=18GiB":           "would swap",
		"hosts=100 registrations=-1":               "less than 0",
		"hosts=100 registrations=100000000000":     "more than",
	})
}

func FuzzRequest(f *testing.F) {
	testkitsizing.Fuzz(f, New, []string{
		"hosts=12000", "hosts=16260 product-version=6.12 mqtt-hosts=16260 registrations=400 content=heavy",
		"hosts=9 cpus=4096 ram=64TiB capsule=a,hosts=9,downloads=9,rex=9 capsule=b", "hosts=250000 registrations=5000 downloads=250000 disk=1GiB",
		"hosts=3000 cpus=48 ram=18GiB product-version=6.11", "hosts=5 capsule=,,,=",
	}, readable)
}

// Any capsule that is understood comes back as it is printed.
func TestCapsuleSpec(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		want := Capsule{Name: fmt.Sprintf("c%d.example.com", rnd.IntN(1000)), Hosts: rnd.IntN(mostHosts), Downloads: rnd.IntN(5000), REX: rnd.IntN(9000)}
		w := Request{Capsules: []Capsule{want}}
		got, err := ParseCapsule(w.printCapsules())
		if err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
}

// What was measured is no maximum: 1000 downloads at once from a Capsule of any size and a
// job on 4000 hosts went well, so that more is unknown, and over nothing. A job on 4000
// hosts failed on the smallest size (5.9.1).
func TestCapsulesBeyondWhatWasMeasured(t *testing.T) {
	for said, want := range map[string]struct {
		size string
		note bool // that it is not known
	}{
		"downloads=999": {"minimal", false}, "downloads=1000": {"minimal", false}, "downloads=1001": {"large", true},
		"hosts=2000,downloads=1001": {"large", true}, "downloads=5000": {"large", true},
		"rex=2000": {"minimal", false}, "rex=2001": {"large", false}, "rex=4000": {"large", false}, "rex=4001": {"large", true},
		"hosts=2000": {"minimal", false}, "hosts=2001": {"large", false},
	} {
		r := ask(t, "hosts=12000 capsule=c,"+said)
		if v := r.Value("capsule c", "size"); v == nil || v.Value != want.size {
			t.Errorf("%s: size %v, want %s", said, v, want.size)
		}
		for _, l := range r.Limits {
			if l.Over {
				t.Errorf("%s: %s is over", said, l.Name)
			}
		}
		if note := strings.Contains(strings.Join(r.Notes, "\n"), "Capsule c are more than"); note != want.note {
			t.Errorf("%s: noted as unknown: %v", said, note)
		}
	}
}
