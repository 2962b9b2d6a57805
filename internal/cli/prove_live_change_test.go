package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// newSteady is a machine on which requests are served all the time that take half as long
// with vm.swappiness 10, while others take twice as long, and some take anything.
func newSteady(t *testing.T) *proving {
	p := newProving(t)
	dir := filepath.Join(p.machine, "var/log")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(p.machine, "etc/tuned/quick")
	if err := os.MkdirAll(profile, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profile, "tuned.conf"), []byte("[sysctl]\nvm.swappiness=10\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line := func(name string, took float64) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(f, "GET / took %.0f\n", took)
		_ = f.Close()
	}
	r := rand.New(rand.NewPCG(1, 2))
	serve := func() {
		quick := 1.0
		if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err == nil && strings.TrimSpace(string(text)) == "10" {
			quick = 2
		}
		line("quick.log", 10000/quick*math.Exp(0.01*r.NormFloat64()))
		line("slow.log", 10000*quick*math.Exp(0.01*r.NormFloat64()))
		line("wild.log", 10000*math.Exp(r.NormFloat64()))
	}
	serve()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				serve()
			}
		}
	})
	t.Cleanup(func() { close(ended); wg.Wait() })
	return p
}

// TestProveLiveChanges: all that can be the change of a command can be that of running
// work, and be kept; a guard rail that breaks ends the experiment, undone.
func TestProveLiveChanges(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	t.Parallel()
	for name, x := range map[string]struct {
		change func(*testing.T, *proving) []string
		args   []string
		code   int
		says   []string
		kept   bool
	}{
		"a profile, kept": {
			func(*testing.T, *proving) []string { return []string{"--profile", "quick", "--keep"} },
			[]string{"--metric", "logs:/var/log/quick.log:median"}, 0, []string{"faster by ", "vm.swappiness: 60 -> 10", "change kept as transaction "}, true,
		},
		"a plan": {
			func(t *testing.T, p *proving) []string {
				text, err := p.command("diff", "quick", "--output", "json").Output()
				if err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				plan := p.file("plan.json")
				if err := os.WriteFile(plan, text, 0o600); err != nil {
					t.Fatal(err)
				}
				return []string{"--plan", plan}
			},
			[]string{"--metric", "logs:/var/log/quick.log:p90"}, 0, []string{"faster by ", "vm.swappiness: 60 -> 10"}, false,
		},
		"a guard rail": {
			func(*testing.T, *proving) []string { return []string{"--set", "vm.swappiness=10", "--keep"} },
			[]string{"--metric", "logs:/var/log/wild.log:mean", "--guard", "logs:/var/log/slow.log:median:10%", "--alpha", "0.001"}, 3,
			[]string{"guard rail: logs:/var/log/slow.log:median is at least ", "at most 10 % worse is allowed", "broken"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSteady(t)
			args := append([]string{"prove", "--live", "--pattern", "took ([0-9]+)", "--unit", "s", "--window", "200ms", "--settle", "40ms", "--seed", "7", "--force", "--budget", "10m"}, x.args...)
			out, code := p.run(append(args, x.change(t, p)...)...)
			if code != x.code {
				t.Errorf("exit code %d, want %d: %s", code, x.code, out)
			}
			for _, says := range x.says {
				if !strings.Contains(out, says) {
					t.Errorf("not there: %q\n%s", says, out)
				}
			}
			if !x.kept {
				p.restored()
				return
			}
			if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(text)) != "10" {
				t.Errorf("kept is %q (%v)", text, err)
			}
			if out, code := p.run("undo"); code != 0 {
				t.Errorf("exit code %d: %s", code, out)
			}
			p.restored()
		})
	}
}
