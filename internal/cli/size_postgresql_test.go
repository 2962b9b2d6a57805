package cli

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing/server"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// serverWith is a machine with Debian's layout whose PostgreSQL includes the file.
func serverWith(t *testing.T, version, file string, gib, cpus int) *platform.Subject {
	t.Helper()
	base := "etc/postgresql/" + version + "/main/"
	h := testkitmachine.Mounted(t, map[string]string{
		base + "postgresql.conf":                             "data_directory = '/var/lib/postgresql/" + version + "/main'\ninclude_dir = 'conf.d'\n",
		base + "conf.d/50-fettle.conf":                       file,
		"proc/meminfo":                                       fmt.Sprintf("MemTotal:       %d kB\nCommitLimit: 1 kB\nCommitted_AS: 1 kB\nHugepagesize: 2048 kB\n", gib*(1<<20)*98/100),
		"sys/devices/system/cpu/online":                      fmt.Sprintf("0-%d\n", cpus-1),
		"etc/os-release":                                     "ID=debian\n",
		"var/lib/postgresql/" + version + "/main/PG_VERSION": version + "\n",
	})
	return platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources())
}

// amountOf is an amount as PostgreSQL's file has it.
func amountOf(t *testing.T, text string) float64 {
	t.Helper()
	factor := 1.0
	for unit, f := range map[string]float64{"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, factor = rest, f
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * factor
}

// What size writes for any server is read by check as it was meant, and has
// nothing against it; a server that is too small for its connections is refused.
func TestSizePostgreSQLIsClean(t *testing.T) {
	c := loadCatalogue(t)
	f := sizing.Figures(t)
	rnd := rand.New(rand.NewPCG(5432, 16))
	clean, refused := 0, 0
	for range 60 {
		gib, cpus, connections, version := 1+rnd.IntN(512), 1+rnd.IntN(64), 1+rnd.IntN(4000), strconv.Itoa(10+rnd.IntN(9))
		said := []string{"ram", fmt.Sprintf("%dGiB", gib), "cpus", strconv.Itoa(cpus), "connections", strconv.Itoa(connections), "version", version,
			"workload", []string{"oltp", "dw", "mixed"}[rnd.IntN(3)], "disk", []string{"hdd", "ssd", "nvme", "san"}[rnd.IntN(4)]}
		r, err := sizing.Ask(f, server.NewPostgreSQL(), said...)
		if sizing.BadInput(err) {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", said, err)
		}
		clean++
		s := serverWith(t, version, r.Artefact(server.PostgreSQLFile).Content, gib, cpus)
		for _, name := range []string{"shared_buffers", "work_mem", "effective_cache_size", "maintenance_work_mem", "wal_buffers", "min_wal_size", "max_wal_size", "max_connections", "random_page_cost", "effective_io_concurrency", "checkpoint_completion_target"} {
			if a := s.Answer("postgresql." + name); a.Value != amountOf(t, fmt.Sprint(r.Value("postgresql", name).Value)) {
				t.Errorf("%v: %s is written as %v and read as %v (%s)", said, name, r.Value("postgresql", name).Value, a.Value, a.Unknown)
			}
		}
		passed := 0
		for _, g := range c.Check(t.Context(), s, []string{"postgresql"}, nil) {
			if strings.HasPrefix(g.ID, "G") {
				switch {
				case g.State == rule.Passed:
					passed++
				case g.State == rule.NotApplicable && (g.ID == "G09" || g.ID == "G10"): // it tries huge pages, and does not insist
				default:
					t.Errorf("%v: %s is %s (measured %v, want %v; %s): add what it reads to serverWith, or except it above", said, g.ID, g.State, g.Measured, g.Want, g.Reason)
				}
			}
		}
		if passed < 3 {
			t.Errorf("%v: only %d rules have passed", said, passed)
		}
	}
	if clean < 20 || refused == 0 {
		t.Errorf("%d fit and %d do not: the test sees one side only", clean, refused)
	}
}

// A value that is broken is found.
func TestSizePostgreSQLBroken(t *testing.T) {
	c := loadCatalogue(t)
	r, err := sizing.Ask(sizing.Figures(t), server.NewPostgreSQL(), "ram", "16GiB", "cpus", "8", "connections", "200", "version", "16")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]struct{ value, rule string }{
		"shared_buffers": {"10GB", "G05"}, "work_mem": {"1GB", "G06"}, "max_connections": {"9000", "G06"}, "effective_cache_size": {"64GB", "G07"},
		"max_worker_processes": {"2", "G08"}, "max_parallel_workers": {"99", "G08"}, "max_parallel_workers_per_gather": {"99", "G08"},
	} {
		file := r.Artefact(server.PostgreSQLFile).Content + name + " = " + b.value + "\n" // the last one counts
		found := false
		for _, g := range c.Check(t.Context(), serverWith(t, "16", file, 16, 8), []string{"postgresql"}, nil) {
			found = found || g.ID == b.rule && g.State == rule.Warned
		}
		if !found {
			t.Errorf("%s = %s is not found by %s", name, b.value, b.rule)
		}
	}
}
