package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/rules"
)

// What the machines of testdata/hosts are told: the healthy ones nothing but what
// an archive cannot know, the overloaded one all that its comment says.
func TestSatelliteMachines(t *testing.T) {
	c := loadCatalogue(t)
	space := func(dirs ...string) map[string]rule.State {
		out := map[string]rule.State{}
		for _, d := range dirs { // an archive has no free space
			out["S65 "+d] = rule.Unknown
		}
		out["S71 /"], out["S71 /var"] = rule.Unknown, rule.Unknown
		return with(out, "unknown D05", "unknown D08", "unknown D09", // nor have these asked a database and a Redis
			"unknown S04 /var/lib/pulp", "unknown D01 /var/lib/pulp", "unknown D04 /var/lib/pulp") // nor has fettle measured their disks
	}
	for name, want := range map[string]map[string]rule.State{
		"satellite-6.12": with(space("/var/lib/pulp", "/var/lib/pgsql", "/var/lib/qpidd", "/var/lib/candlepin", "/"), "unknown S28"),
		"satellite-6.16": space("/var/lib/pulp", "/var/lib/pgsql", "/var/lib/candlepin", "/"),
		"satellite-6.12-overloaded": with(space("/var/lib/pulp", "/var/lib/pgsql", "/var/lib/qpidd", "/var/lib/candlepin", "/"),
			"unknown S28",
			"fail S12", "fail S19", "fail S20", "fail S24", "fail S25", "fail S26", "fail S34", "fail S37", "fail S46", "fail S62",
			"fail S44 postgresql::server::config_entries/max_connections",
			"warn S07", "warn S09", "warn S22", "warn S27", "warn S49", "warn S50 worker-4", "warn S52", "warn S58", "warn S67"),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := host.OpenRoot("../../testdata/hosts/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
			got := map[string]rule.State{}
			passed := 0
			for _, f := range c.Check(t.Context(), s, []string{"satellite"}, nil) {
				switch f.State {
				case rule.Passed:
					passed++
				case rule.Failed, rule.Warned, rule.Unknown:
					got[strings.TrimSpace(f.ID+" "+f.Instance)] = f.State
				}
				if f.State == rule.Failed && len(f.At) == 0 {
					t.Errorf("%s: nobody can see where it was read", f.ID)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if passed < 25 {
				t.Errorf("only %d findings have passed", passed)
			}
		})
	}
}

func with(all map[string]rule.State, more ...string) map[string]rule.State {
	for _, m := range more {
		state, id, _ := strings.Cut(m, " ")
		all[id] = rule.State(state)
	}
	return all
}

// A failure is explained by what caused it, and points at the line.
func TestSatelliteCauses(t *testing.T) {
	c := loadCatalogue(t)
	h, err := host.OpenRoot("../../testdata/hosts/satellite-6.12-overloaded.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
	because, at := map[string]string{}, map[string]string{}
	for _, f := range c.Check(t.Context(), s, []string{"satellite"}, nil) {
		if f.State == rule.Failed || f.State == rule.Warned {
			because[f.ID] = f.Because
			at[f.ID+" "+f.Instance] = f.At[0]
		}
	}
	for id, want := range map[string]string{"S12": "", "S34": "S12", "S20": "S19", "S24": "S12", "S52": "S44", "S67": "S44"} {
		if because[id] != want {
			t.Errorf("%s is because of %q, want %q", id, because[id], want)
		}
	}
	for id, want := range map[string]string{
		"S12 ": "/etc/systemd/system/foreman.service.d/installer.conf:7",
		"S19 ": "/etc/foreman/database.yml:8",
		"S20 ": "/var/log/foreman/production.log:6",
		"S24 ": "/var/log/httpd/foreman-ssl_access_ssl.log:7",
		"S44 postgresql::server::config_entries/max_connections": "/etc/foreman-installer/custom-hiera.yaml:7",
		"S50 worker-4": "/etc/foreman/dynflow/worker-4.yml:2",
	} {
		if at[id] != want {
			t.Errorf("%s was read at %q, want %q", id, at[id], want)
		}
	}
}

// values is a machine of a few answers.
type values map[string]any

func (v values) Answer(input string) fact.Answer           { return fact.Answer{Value: v[input]} }
func (v values) Read(name string, _ fact.Type) fact.Answer { return fact.Answer{Value: v[name]} }
func (v values) Items(string) ([]string, string)           { return nil, "" }

// ask is the finding of one rule.
func ask(t *testing.T, c *rule.Catalogue, id string, m fact.MachineTree) rule.Finding {
	t.Helper()
	for _, f := range c.Check(t.Context(), m, c.Rule(id).Platforms, nil) {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("no finding of %s", id)
	return rule.Finding{}
}

// alone is a catalogue of one rule: to ask it a hundred thousand times.
func alone(t *testing.T, file, id string) *rule.Catalogue {
	t.Helper()
	text, err := rules.FS.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all, one []yaml.Node
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.Content[0].Value == "id" && n.Content[1].Value == id {
			one = append(one, n)
		}
	}
	if text, err = yaml.Marshal(one); err != nil {
		t.Fatal(err)
	}
	inputs, sets := platform.Inputs(audit.Sources())
	c, err := rule.Load(inputs, sets, []rule.File{{Name: file, Text: text}})
	if err != nil || len(c.Rules()) != 1 {
		t.Fatalf("%s of %s: %v", id, file, err)
	}
	return c
}

// The number of Puma workers that the rule wants is the installer's, for every
// machine from 1 to 128 CPUs and 1 to 512 GiB, before and after its limit, worked
// out here in whole numbers.
func TestPumaWorkers(t *testing.T) {
	only := alone(t, "satellite.yaml", "S10")
	step := 128 / testkitroot.Sample(128)
	for cpus := 1; cpus <= 128; cpus += step {
		for gib := 1; gib <= 512; gib++ {
			// floor(min(1.5 x CPUs, GiB - 1.5)) in halves.
			halves := min(3*cpus, 2*gib-3)
			want := halves / 2
			if halves < 0 {
				want = -1 // floor of -0.5
			}
			for _, foreman := range []string{"3.3", "3.14"} {
				if foreman == "3.14" {
					want = min(want, 100)
				}
				// A crash kernel took some of the last GiB.
				ram := float64(gib)*(1<<30) + float64(cpus)*1e6
				f := only.Check(t.Context(), values{
					"satellite.version": "6.12", "satellite.foreman_version": foreman, "cpu.count": float64(cpus), "memory.total_bytes": ram, "satellite.puma_workers": float64(want),
				}, []string{"satellite"}, nil)[0]
				if f.State != rule.Passed || f.Want != float64(want) {
					t.Fatalf("%d CPUs, %d GiB, Foreman %s: %s, wants %v, and the installer takes %d (%s)", cpus, gib, foreman, f.State, f.Want, want, f.Reason)
				}
			}
		}
	}
}

// What the formula gives the five sizes, and which of it the measurements bear:
// up to medium all of it, from large up not.
func TestPumaWorkersOfTheSizes(t *testing.T) {
	c := loadCatalogue(t)
	for _, size := range []struct {
		name                   string
		cpus, gib, auto, least float64
		most                   float64
	}{
		{"default", 4, 20, 6, 4, 6}, {"medium", 8, 32, 12, 8, 12}, {"large", 16, 64, 24, 12, 18}, {"extra-large", 32, 128, 48, 16, 24}, {"extra-extra-large", 48, 256, 72, 20, 26},
	} {
		m := values{"satellite.version": "6.12", "satellite.foreman_version": "3.3", "cpu.count": size.cpus, "memory.total_bytes": size.gib * (1 << 30), "satellite.puma_workers": size.auto}
		if f := ask(t, c, "S10", m); f.State != rule.Passed {
			t.Errorf("%s: the formula wants %v, want %g", size.name, f.Want, size.auto)
		}
		for workers, want := range map[float64]rule.State{size.least: rule.Passed, size.most: rule.Passed, size.most + 1: rule.Failed, size.least - 1: rule.Warned} {
			m["satellite.puma_workers"] = workers
			if f := ask(t, c, "S12", m); f.State != want {
				t.Errorf("%s: %g workers are %s, want %s", size.name, workers, f.State, want)
			}
		}
	}
}

// What the source's worked examples and measurements come to.
func TestSatelliteWorkedExamples(t *testing.T) {
	c := loadCatalogue(t)
	for _, e := range []struct {
		id    string
		given values
		want  any
		state rule.State
	}{
		// 5.4.1: 10,000 hosts need 30,100 files of the router, the default 150,100 is for 50,000.
		{"S25", values{"satellite.version": "6.12", "satellite.hosts": 10000.0, "satellite.qdrouterd_open_files": 30100.0}, 30100.0, rule.Passed},
		{"S25", values{"satellite.version": "6.12", "satellite.hosts": 50000.0, "satellite.qdrouterd_open_files": 150100.0}, 150100.0, rule.Passed},
		// 5.4.2: the default of qpidd is for 16,259 hosts.
		{"S26", values{"satellite.version": "6.12", "satellite.hosts": 16259.0, "satellite.qpidd_open_files": 65536.0}, 65536.0, rule.Passed},
		{"S26", values{"satellite.version": "6.12", "satellite.hosts": 16260.0, "satellite.qpidd_open_files": 65536.0}, 65540.0, rule.Failed},
		// 5.4.3: more than 33 for each host.
		{"S27", values{"satellite.version": "6.12", "satellite.hosts": 1000.0, "satellite.qpidd_open_files": 65536.0, "sysctl:fs.aio-max-nr": 33000.0}, 33001.0, rule.Warned},
		// 5.4.4: 2 MiB for each host.
		{"S28", values{"satellite.version": "6.12", "satellite.hosts": 10000.0, "satellite.qpidd_size_bytes": 20000.0 * (1 << 20)}, 20000.0 * (1 << 20), rule.Passed},
		// 5.2.7: the pool follows the threads.
		{"S19", values{"satellite.db_pool": 5.0, "satellite.puma_threads_max": 5.0, "satellite.foreman_version": "3.3"}, 5.0, rule.Passed},
		{"S19", values{"satellite.db_pool": 16.0, "satellite.puma_threads_max": 16.0, "satellite.foreman_version": "3.3"}, 16.0, rule.Passed},
		{"S19", values{"satellite.db_pool": 20.0, "satellite.puma_threads_max": 16.0, "satellite.foreman_version": "3.12"}, 20.0, rule.Passed},
		// 5.3.3: 64 servers of 16 threads.
		{"S23", values{"satellite.httpd_mpm": "event", "satellite.httpd_server_limit": 64.0, "satellite.httpd_threads_per_child": 16.0, "satellite.httpd_max_request_workers": 1024.0}, 1024.0, rule.Passed},
		// 5.3.1: 582 for 150 registrations at once.
		{"S21", values{"satellite.httpd_mpm": "prefork", "satellite.httpd_server_limit": 582.0, "satellite.httpd_max_request_workers": 582.0}, "582 with ServerLimit 582", rule.Passed},
		// 5.5, 5.6.1: three workers; 5000 hosts.
		{"S30", values{"satellite.dynflow_workers": 3.0}, 3.0, rule.Passed},
		{"S31", values{"satellite.mosquitto_open_files": 5050.0, "satellite.mqtt_hosts": 5000.0}, 5050.0, rule.Passed},
	} {
		f := ask(t, c, e.id, e.given)
		if f.State != e.state || fmt.Sprint(f.Want) != fmt.Sprint(e.want) {
			t.Errorf("%s %v: %s, wants %v: want %s, %v (%s)", e.id, e.given, f.State, f.Want, e.state, e.want, f.Reason)
		}
	}
}

// The budget of connections, as the products' numbers make it: the largest sizes
// as the installer works them out, with 16 threads, ask for more than there is.
func TestConnectionBudget(t *testing.T) {
	c := loadCatalogue(t)
	for _, e := range []struct {
		workers, pool float64
		want          rule.State
	}{{72, 20, rule.Failed}, {48, 20, rule.Failed}, {24, 20, rule.Passed}, {26, 20, rule.Passed}, {72, 9, rule.Passed}} {
		f := ask(t, c, "S34", values{
			"satellite.puma_workers": e.workers, "satellite.db_pool": e.pool, "satellite.dynflow_units": 5.0, "satellite.dynflow_threads": 21.0, "satellite.pulp_workers": 8.0, "satellite.max_connections": 1000.0,
		})
		if f.State != e.want {
			t.Errorf("%g workers with %g connections: %s (%v of %v), want %s", e.workers, e.pool, f.State, f.Measured, f.Want, e.want)
		}
	}
}

// The table of the sizes is what foreman-installer publishes, put together here
// as Hiera does it: the file of the size over the common one.
func TestInstallerTuning(t *testing.T) {
	const pg = "postgresql::server::config_entries/"
	const mib, gib = float64(1 << 20), float64(1 << 30)
	event := map[string]any{"apache::mod::event::startservers": 2.0, "apache::mod::event::minsparethreads": 16.0, "apache::mod::event::maxsparethreads": 32.0, "apache::mod::event::threadsperchild": 16.0}
	common := map[string]any{
		pg + "checkpoint_completion_target": 0.9, pg + "max_connections": 500.0, pg + "shared_buffers": 512 * mib, pg + "work_mem": 4 * mib,
		pg + "log_line_prefix": "%t ", pg + "log_min_duration_statement": 1000.0, pg + "log_rotation_size": 200000.0,
	}
	maps.Copy(common, event)
	qpid := map[string]any{"qpid::open_file_limit": 65536.0, "qpid::router::open_file_limit": 150100.0}
	sizes := map[string]map[string]any{
		"development": {}, "default": {},
		"medium": {pg + "shared_buffers": 4 * gib, pg + "effective_cache_size": 16 * gib},
		"large":  {pg + "shared_buffers": 8 * gib, pg + "effective_cache_size": 16 * gib},
		"extra-large": {pg + "shared_buffers": 16 * gib, pg + "effective_cache_size": 32 * gib, pg + "work_mem": 8 * mib,
			"candlepin::java_opts": "-Xms1024m -Xmx8192m"},
		"extra-extra-large": {pg + "shared_buffers": 32 * gib, pg + "effective_cache_size": 32 * gib, pg + "work_mem": 8 * mib,
			"candlepin::java_opts": "-Xms1024m -Xmx8192m"},
	}
	table := loadCatalogue(t).Table("installer_tuning")
	for version, perChild := range map[string]bool{"6.12": true, "6.14.3": true, "6.15": false, "6.18": false} {
		e, err := table.Edition(version)
		if err != nil {
			t.Fatal(err)
		}
		for name, own := range sizes {
			want := maps.Clone(common)
			if perChild {
				maps.Copy(want, qpid)
			}
			if len(own) > 0 {
				want["apache::mod::event::serverlimit"], want["apache::mod::event::maxrequestworkers"] = 64.0, 1024.0
				want[pg+"max_connections"], want[pg+"autovacuum_vacuum_cost_limit"] = 1000.0, 2000.0
				if perChild {
					want["apache::mod::event::maxrequestsperchild"] = 4000.0
				}
			}
			maps.Copy(want, own)
			r, err := e.Row(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, r.Cells); diff != "" {
				t.Errorf("%s, %s:\n%s", version, name, diff)
			}
		}
	}
	// The sizes that the installer knows are those of the other tables.
	for _, other := range []string{"installer_requirements", "satellite_sizes"} {
		e, err := loadCatalogue(t).Table(other).Edition("")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range e.Rows {
			if !slices.Contains(slices.Collect(maps.Keys(sizes)), r.Key) {
				t.Errorf("%s has a size %q that the installer has not", other, r.Key)
			}
		}
	}
}
