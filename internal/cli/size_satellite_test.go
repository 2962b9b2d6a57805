package cli

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	sized "fettle.dev/fettle/internal/guide/sizing/satellite"
	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// satelliteWish is what a Satellite is sized for, and the machine below it.
type satelliteWish struct {
	version string
	hosts   int
	cpus    int
	gib     int
	metal   bool
	more    []string // name and value in turn
}

func (w satelliteWish) said() []string {
	return append([]string{"hosts", strconv.Itoa(w.hosts), "product-version", w.version, "cpus", strconv.Itoa(w.cpus), "ram", fmt.Sprintf("%dGiB", w.gib), "bare-metal", strconv.FormatBool(w.metal)}, w.more...)
}

// randomWish is any Satellite with the hardware for its hosts.
func randomWish(rnd *rand.Rand) satelliteWish {
	versions := []string{"6.9", "6.10", "6.11", "6.12", "6.13", "6.14", "6.15", "6.16", "6.17", "6.18"}
	w := satelliteWish{version: versions[rnd.IntN(len(versions))], hosts: 1 + rnd.IntN([]int{5000, 10000, 20000, 60000, 200000}[rnd.IntN(5)])}
	for i, most := range []int{5000, 10000, 20000, 60000, 1 << 30} {
		if w.hosts <= most {
			w.cpus, w.gib = []int{4, 8, 16, 32, 48}[i], []int{20, 32, 64, 128, 256}[i]
			break
		}
	}
	w.metal = rnd.IntN(4) == 0
	if rnd.IntN(6) == 0 { // the tenth that the installer forgives
		w.gib = (w.gib*935 + 999) / 1000
	}
	if rnd.IntN(2) == 0 { // more than it needs, not always in proportion
		w.cpus += rnd.IntN(w.cpus * 3)
	}
	if rnd.IntN(2) == 0 {
		w.gib += rnd.IntN(w.gib * 3)
	}
	w.more = []string{"registrations", strconv.Itoa(rnd.IntN(min(600, w.hosts))), "content", []string{"balanced", "heavy"}[rnd.IntN(2)]}
	if rnd.IntN(2) == 0 {
		w.more = append(w.more, "mqtt-hosts", strconv.Itoa(1+rnd.IntN(w.hosts)))
	}
	if rnd.IntN(2) == 0 {
		behind := 1 + rnd.IntN(w.hosts)
		w.more = append(w.more, "capsule", fmt.Sprintf("berlin,hosts=%d,downloads=%d,rex=%d", behind, rnd.IntN(min(2000, behind)), rnd.IntN(min(6000, behind))))
	}
	return w
}

// What size writes for any Satellite is a machine that check has nothing against.
func TestSizeSatelliteIsClean(t *testing.T) {
	c := loadCatalogue(t)
	f := sizing.Figures(t)
	rnd := rand.New(rand.NewPCG(12000, 612))
	for i := range testkitroot.Sample(60) {
		w := randomWish(rnd)
		r, err := sizing.Ask(f, sized.New(), w.said()...)
		if err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
		audited := auditOf(t, c, layOut(t, w, written(t, r)))
		passed := map[string]bool{}
		for id, all := range audited {
			for _, g := range all {
				switch g.State {
				case rule.Failed, rule.Warned:
					if id == "S32" && slices.Contains(w.more, "mqtt-hosts") {
						continue // the rate limit is for the administrator to choose: 5.6.2 has no figure
					}
					t.Errorf("%d, %+v: %s %s is %s: %v, want %v (%v)", i, w, id, g.Instance, g.State, g.Measured, g.Want, g.At)
				case rule.Passed:
					passed[id] = true
				}
			}
		}
		// The budgets of the answer are what check sums up on the machine.
		for _, b := range r.Budgets {
			switch b.Name {
			case "connections of PostgreSQL (S34)":
				if got := audited["S34"][0].Measured; got != b.Used {
					t.Errorf("%d, %+v: check counts %v connections, size %g", i, w, got, b.Used)
				}
			case "memory (S35)":
				used := b.Used - b.Parts[len(b.Parts)-1].Amount // the kernel's, which check sees no more
				if got, _ := audited["S35"][0].Measured.(float64); math.Abs(got/(1<<20)-used) > 1 {
					t.Errorf("%d, %+v: check counts %g MiB, size %g", i, w, got/(1<<20), used)
				}
			}
		}
		// These have an answer on every such machine: a test that sees nothing passes
		// as well.
		for _, id := range []string{"S01", "S02", "S06", "S07", "S09", "S12", "S19", "S22", "S24", "S30", "S33", "S34", "S35", "S45", "S50", "S52", "S53", "S55", "S58", "S67", "S71"} {
			if !passed[id] {
				t.Errorf("%d, %+v: %s has not passed: %+v", i, w, id, audited[id])
			}
		}
		if t.Failed() {
			return
		}
	}
}

// broken is what each value that size writes is broken to, and the rule that finds
// it.
var broken = map[string]struct{ value, rule string }{
	"installer/--tuning": {"development", "S01"},
	"installer/--foreman-foreman-service-puma-workers":                              {"99", "S12"},
	"installer/--foreman-foreman-service-puma-threads-min":                          {"1", "S09"},
	"installer/--foreman-foreman-service-puma-threads-max":                          {"32", "S45"},
	"installer/--foreman-dynflow-worker-instances":                                  {"1", "S30"},
	"installer/--foreman-dynflow-worker-concurrency":                                {"15", "S50"},
	"hiera/apache::mod::event::serverlimit":                                         {"16", "S23"},
	"hiera/apache::mod::event::maxrequestworkers":                                   {"9999", "S23"},
	"hiera/apache::mod::event::maxrequestsperchild":                                 {"0", "S72"},
	"hiera/apache::mod::prefork::serverlimit":                                       {"256", "S21"},
	"hiera/apache::mod::prefork::maxclients":                                        {"256", "S21"},
	"hiera/apache::mod::prefork::startservers":                                      {"8", "S70"},
	"hiera/apache::mod::proxy::proxy_timeout":                                       {"60", "S41"},
	"hiera/qpid::router::open_file_limit":                                           {"150100", "S25"},
	"hiera/qpid::open_file_limit":                                                   {"65536", "S26"},
	"hiera/" + pgKey + "autovacuum_vacuum_cost_limit":                               {"200", "S55"},
	"sysctl/fs.aio-max-nr":                                                          {"65536", "S27"},
	"httpd/LimitNOFILE":                                                             {"1024", "S22"},
	"mosquitto/LimitNOFILE":                                                         {"1024", "S31"},
	"system/tuned_profile":                                                          {"powersave", "S06"},
	"system/transparent_hugepage":                                                   {"always", "S07"},
	"hiera/" + pgKey + "shared_buffers":                                             {"128MB", "S33"},
	"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-resend-interval": {"5", "S75"},
	"installer/--foreman-proxy-plugin-remote-execution-script-mqtt-ttl":             {"600", "S75"},
	"installer/--foreman-proxy-plugin-remote-execution-script-mode":                 {}, // a Satellite over ssh is not wrong
}

// Every value that size writes is held by a rule: a machine with that one value
// broken has a finding.
func TestSizeSatelliteBroken(t *testing.T) {
	testkitroot.Real(t, "audits a hundred machines")
	c := loadCatalogue(t)
	f := sizing.Figures(t)
	seen := map[string]bool{}
	for _, w := range []satelliteWish{
		{"6.11", 3000, 4, 20, false, nil},
		{"6.12", 70000, 48, 256, true, []string{"mqtt-hosts", "70000"}},
		{"6.13", 3000, 4, 20, false, []string{"registrations", "150"}},
		{"6.16", 3000, 4, 20, false, []string{"registrations", "150", "capsule", "a,hosts=10", "mqtt-hosts", "2000"}},
		{"6.18", 12000, 16, 64, false, nil},
	} {
		r, err := sizing.Ask(f, sized.New(), w.said()...)
		if err != nil {
			t.Fatal(err)
		}
		values := written(t, r)
		for key, good := range values {
			b, known := broken[key]
			switch {
			case !known:
				t.Errorf("%s = %s: no rule is named that holds it", key, good)
			case b.rule == "":
				seen[key] = true
			default:
				seen[key] = true
				with := maps.Clone(values)
				with[key] = b.value
				found := slices.ContainsFunc(auditOf(t, c, layOut(t, w, with))[b.rule], func(g rule.Finding) bool { return g.State == rule.Failed || g.State == rule.Warned })
				if !found {
					t.Errorf("%s, %d hosts: %s = %s instead of %s is not found by %s", w.version, w.hosts, key, b.value, good, b.rule)
				}
			}
		}
	}
	for key := range broken {
		if !seen[key] {
			t.Errorf("%s was never written", key)
		}
	}
}

// A Capsule that size takes for its load does not fail the rule of its load.
func TestSizeSatelliteCapsules(t *testing.T) {
	c := loadCatalogue(t)
	for hosts, want := range map[string]string{"2000": "minimal", "2001": "large", "4000": "large"} {
		r, err := sizing.Ask(sizing.Figures(t), sized.New(), "hosts", "9000", "capsule", "a,hosts="+hosts+",rex="+hosts)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.ParseFloat(hosts, 64)
		m := values{"satellite.capsule_hosts": n, "cpu.count": float64(r.Value("capsule a", "cpus").Value.(int)), "memory.total_bytes": float64(r.Value("capsule a", "memory").Value.(uint64))}
		if g := ask(t, c, "S42", m); g.State != rule.Passed || r.Value("capsule a", "size").Value != want {
			t.Errorf("%s hosts: %v, %s", hosts, r.Value("capsule a", "size").Value, g.State)
		}
	}
}

// The figures that size and check have apart are the same: what Foreman a
// Satellite is made from.
func TestSatelliteReleases(t *testing.T) {
	e, err := loadCatalogue(t).Table("satellite-releases").Edition("")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range e.Rows {
		root := layOut(t, satelliteWish{row.Key, 100, 4, 20, false, nil}, map[string]string{"installer/--tuning": "default", "system/transparent_hugepage": "never"})
		// Only the package of Satellite itself: check works the other out.
		list := filepath.Join(root, "installed-rpms")
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(string(text), "foreman-")
		if err := os.WriteFile(list, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := host.Copy(root)
		if err != nil {
			t.Fatal(err)
		}
		s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
		if a := s.Answer("satellite.foreman_version"); a.Value != row.Cells["foreman"] {
			t.Errorf("%s: Foreman %v, and the table has %v", row.Key, a.Value, row.Cells["foreman"])
		}
	}
}
