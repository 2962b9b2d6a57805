package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// page is the manual page with the tables, as the inside sees its directory.
const page = "/docs/load-scenario-stand-ins.md"

// pageHead is its text.
const pageHead = `# Scenarios on stand-ins

Each shipped scenario of [fettle load scenario](load-scenario.md) was run on a machine with two cores, which also ran fettle. **What is titled "stand-in" below was measured on a program of our own instead of Foreman: it shows that a scenario and its servers work, and says nothing about a Satellite.** No rule, size or evidence of fettle uses a figure of this page.

| scenario | run against | what only a real Satellite can show |
|---|---|---|
| registration | stand-in for Foreman (%[1]s/foreman.ru) on real Puma and PostgreSQL | every figure: Foreman and Candlepin do far more work for a host; roles and permissions; certificates of hosts |
| registration-capsule | the same behind real httpd | the smart proxy, and the network to the Satellite |
| download | real httpd with 2,000 real packages (40 MB), and real Pulp | content behind entitlement certificates |
| content-sync | real pulpcore and pulp_rpm (%[1]s/pulp.txt) on PostgreSQL, Redis and httpd | synchronization by Katello and to a Capsule; the size of real repositories |
| remote-execution-pull | stand-in for Foreman and the smart proxy, real mosquitto | Dynflow, TLS and the access list of the broker |
| remote-execution-ssh, remote-execution-ansible | real OpenSSH, real Ansible | the smart proxy and ansible-runner |

The tables repeat the kind of experiment of the Satellite 6.12 Tuning Guide in the section that is named, on the smallest machine. The figures of the guide are of other machines and of real software, so they do not stand next to these. Each cell was measured in %[2]d rounds; the configurations took turns within a round, so that slow minutes of the machine affect all of them. A cell has the median, and the lowest and the highest round in parentheses. Memory is that of all Puma processes (PSS) after the run.

`

// rounds is how often each configuration is measured.
const rounds = 3

// cell holds the rounds of a figure.
type cell []float64

func (c cell) text(format string) string {
	s := slices.Sorted(slices.Values(c))
	return fmt.Sprintf(format+" ("+format+" to "+format+")", s[len(s)/2], s[0], s[len(s)-1])
}

// registrations are the figures of a configuration of Puma.
type registrations struct{ rate, p95, memory, failed cell }

// TestMeasure measures what the tables of the manual page show: FETTLE_PROOFS=1 writes them there.
func TestMeasure(t *testing.T) {
	root.Nightly(t, "measures for ten minutes")
	root.Undisturbed(t)
	if !inside(t, func(o *root.Options) {
		withRepository(t)(o)
		if os.Getenv("FETTLE_PROOFS") == "1" {
			docs, err := filepath.Abs("../../docs")
			if err != nil {
				t.Fatal(err)
			}
			o.Binds = append(o.Binds, root.Bind{Source: docs, Target: filepath.Dir(page)})
		}
		o.Within = time.Hour
	}) {
		return
	}
	database(t)
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, "test/scenarios", rounds)
	fmt.Fprintf(&b, "Measured %s, fettle and servers together on %d cores.\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU())
	for _, table := range []struct {
		title string
		all   []puma
	}{
		{"stand-in: threads_min and memory (5.2.1)", []puma{{2, 0, 16}, {2, 16, 16}}},
		{"stand-in: threads of 4 workers (5.2.4)", []puma{{4, 4, 4}, {4, 8, 8}, {4, 16, 16}, {4, 32, 32}}},
		{"stand-in: workers of 16 threads (5.2.4, 5.2.5)", []puma{{2, 16, 16}, {4, 16, 16}, {6, 16, 16}, {8, 16, 16}}},
		{"stand-in: the same number of threads (5.2.6)", []puma{{2, 16, 16}, {4, 8, 8}}},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n100 hosts register at a time, each once.\n\n| workers | threads | hosts/s | p95 of a host, s | memory, MiB | failed hosts |\n|---|---|---|---|---|---|\n", table.title)
		for i, r := range measureRegistrations(t, table.all) {
			p := table.all[i]
			fmt.Fprintf(&b, "| %d | %d to %d | %s | %s | %s | %s |\n", p.workers, p.least, p.most, r.rate.text("%.1f"), r.p95.text("%.2f"), r.memory.text("%.0f"), r.failed.text("%.0f"))
		}
	}
	fmt.Fprintf(&b, "\n## stand-in: registration through a Capsule (5.9.1)\n\nPuma with 2 workers of 16 threads. 100 hosts register at a time, each once.\n\n| way | hosts/s | p95 of a host, s |\n|---|---|---|\n")
	for i, r := range measureCapsule(t) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", []string{"directly", "through httpd"}[i], r.rate.text("%.1f"), r.p95.text("%.2f"))
	}
	fmt.Fprintf(&b, "\n## httpd: download of 2,000 packages (5.9.1)\n\nOne round each; real httpd without TLS (event, MaxRequestWorkers 400) with the files themselves, without Pulp.\n\n| hosts at a time | duration of a host, mean, s | a package, mean, ms | packages/s | failed |\n|---|---|---|---|---|\n")
	content(t)
	for _, hosts := range []int{100, 300, 1000} {
		x := fettle[scenario.Result](t, 0, "download", "--server", "content="+contentURL, "--hosts", fmt.Sprint(hosts))
		last := x.Steps[len(x.Steps)-1]
		fmt.Fprintf(&b, "| %d | %.1f | %.1f | %.0f | %d |\n", hosts, x.Whole.Latency.MeanS, 1000*last.Latency.MeanS, last.Rate, x.Whole.Errors)
	}
	t.Log(b.String())
	if _, err := os.Stat(page); err == nil {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// measureRegistrations measures each configuration in each round.
func measureRegistrations(t *testing.T, all []puma) []registrations {
	t.Helper()
	out := make([]registrations, len(all))
	for range rounds {
		for i, p := range all {
			t.Run(fmt.Sprintf("%d workers, %d to %d threads", p.workers, p.least, p.most), func(t *testing.T) {
				server := foreman(t, p)
				out[i].add(t, "registration")
				out[i].memory = append(out[i].memory, float64(memory(t, server.Process.Pid))/(1<<20))
			})
		}
	}
	return out
}

// measureCapsule measures registration directly and through a Capsule.
func measureCapsule(t *testing.T) []registrations {
	t.Helper()
	out := make([]registrations, 2)
	t.Run("capsule", func(t *testing.T) {
		foreman(t, puma{2, 16, 16})
		capsule(t)
		for range rounds {
			out[0].add(t, "registration")
			out[1].add(t, "registration-capsule", "--server", "capsule="+capsuleURL, "--server", "proxy="+capsuleURL)
		}
	})
	return out
}

// add registers 100 hosts, and empties the database afterwards.
func (r *registrations) add(t *testing.T, args ...string) {
	t.Helper()
	x := fettle[scenario.Result](t, 0, append(args, "--server", "foreman="+foremanURL, "--organization", "Default", "--prefix", "t-", "--hosts", "100")...)
	if x.StandIn != "foreman" || x.Whole.Runs != 100 {
		t.Errorf("%q %+v", x.StandIn, x.Whole)
	}
	r.rate, r.p95, r.failed = append(r.rate, x.Whole.Rate), append(r.p95, x.Whole.Latency.P95S), append(r.failed, float64(x.Whole.Errors))
	product.SQL(t, "foreman", "TRUNCATE hosts CASCADE")
	product.SQL(t, "foreman", "VACUUM")
}
