package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// serving is a machine on which requests are served all the time, a millisecond or so
// apart: the more of them the slower, and 40 % faster with vm.swappiness 10.
type serving struct {
	*proving
	log  string // outside of the machine's root
	stop func()
	same atomic.Bool // the change makes nothing faster
}

func newServing(t *testing.T) *serving {
	s := &serving{proving: newProving(t)}
	s.log = filepath.Join(s.machine, "var/log/app.log")
	if err := os.MkdirAll(filepath.Dir(s.log), 0o755); err != nil {
		t.Fatal(err)
	}
	line := func(text string) error {
		f, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		_ = f.Close()
		return err
	}
	if err := line("GET / took 100\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		load := 0.0
		for i := 0; ; i++ {
			load = 0.99*load + 0.02*r.NormFloat64()
			n := 1 + int(3*math.Exp(load))
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			took := 10000 * math.Exp(0.5*load+0.02*r.NormFloat64())
			if text, err := os.ReadFile(filepath.Join(s.machine, "proc/sys/vm/swappiness")); err == nil && strings.TrimSpace(string(text)) == "10" && !s.same.Load() {
				took *= 0.6
			}
			_ = line(strings.Repeat(fmt.Sprintf("GET / took %.0f\n", took), n))
			if i%500 == 499 { // logrotate
				_ = os.Rename(s.log, s.log+".1")
			}
		}
	})
	var once sync.Once
	s.stop = func() { once.Do(func() { close(ended); wg.Wait() }) }
	t.Cleanup(s.stop)
	return s
}

// live is the command line of an experiment on what is served.
func (s *serving) live(more ...string) *exec.Cmd {
	args := []string{"prove", "--live", "--set", "vm.swappiness=10", "--metric", "logs:/var/log/app.log:median", "--pattern", "took ([0-9]+)", "--unit", "s", "--window", "40ms", "--settle", "5ms", "--seed", "7"}
	return s.command(append(args, more...)...)
}

// TestProveLive: work in progress whose rate wanders, is found to be
// faster; the evidence has its windows; the machine is as it was.
func TestProveLive(t *testing.T) {
	s := newServing(t)
	out, err := s.live("--covariate", "rate", "--guard", "logs:/var/log/app.log:p99:50%", "--stop-above", "pressure:memory:101", "--force", "--budget", "3m", "--output", "json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.restored()
	var r evidence.Run
	var e prove.Evidence
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	bodyValid(t, &r)
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	t.Log(e.Text, e.Covariate)
	// The windows of a busy machine are late, and hold few lines: so large an effect has its
	// sign on any machine.
	if e.Word == prove.Worse || e.Word == prove.NoEffect || e.Effect == nil || *e.Effect <= 0 {
		t.Errorf("%+v", e.Verdict)
	}
	if e.Design.Live == nil || e.Design.Live.WindowS != 0.04 || len(e.Work) != 0 || e.Covariate == nil || e.Second.Between == nil || len(e.Samples) < 14 {
		t.Errorf("%+v, covariate %v, %d windows", e.Design.Live, e.Covariate, len(e.Samples))
	}
	show, err := s.command("runs", "show", r.ID).CombinedOutput()
	if err != nil || !strings.Contains(string(show), "running work, measured in windows of 40ms; the first 5ms after each switch do not count") || !strings.Contains(string(show), "covariate") {
		t.Errorf("%v: %s", err, show)
	}
}

// TestProveLiveKilled: after kill -9 in a window with the change the machine is
// restored, and the experiment goes on later.
func TestProveLiveKilled(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	s := newServing(t)
	// Without an effect it does not end before it is killed.
	s.same.Store(true)
	cmd := s.live("--force", "--margin", "0.1%", "--blocks", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a window with the change", func() bool {
		if begun, err := s.runs().Unfinished(); err != nil || len(begun) == 0 {
			return false // it is rehearsed, and nothing is recorded yet
		}
		text, err := os.ReadFile(filepath.Join(s.machine, "proc/sys/vm/swappiness"))
		return err == nil && strings.TrimSpace(string(text)) == "10"
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.restored()
	s.same.Store(false)
	out, err := s.command("prove", "--resume", "last", "--force").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "logs:/var/log/app.log:median") {
		t.Errorf("%v: %s", err, out)
	}
	s.restored()
}

// TestProveLiveStops: where the work stops, the experiment does too.
func TestProveLiveStops(t *testing.T) {
	testkitroot.Real(t, "waits half a minute for what does not happen")
	t.Parallel()
	s := newServing(t)
	s.stop()
	out, _ := s.live("--force").CombinedOutput()
	if !strings.Contains(string(out), "nothing happened: no request in /var/log/app.log") {
		t.Errorf("%s", out)
	}
	s.restored()
}

// TestProveLiveFaults: what cannot be measured is said before anything is changed, and
// a cap ends the experiment.
func TestProveLiveFaults(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	for name, x := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a command too":          {[]string{"--", "true"}, 2, "--live measures work that already runs"},
		"an option of commands":  {[]string{"--percentile", "99"}, 2, "--percentile works with a command, not with --live"},
		"no such log":            {[]string{"--metric", "logs:/var/log/none.log:p99"}, 2, "/var/log/none.log"},
		"no duration in it":      {[]string{"--pattern", "lasted ([0-9]+)"}, 2, "no line in the last 256 KiB of the log matches"},
		"a bad pattern":          {[]string{"--pattern", "("}, 2, "--pattern (: "},
		"a pattern and a format": {[]string{"--log-format", "combined"}, 2, "want only one of --pattern, --log-format and --log-config"},
		"a bad metric":           {[]string{"--metric", "logs:/var/log/app.log:best"}, 2, "want mean, median"},
		"no number in a cap":     {[]string{"--stop-above", "pressure:io:much"}, 2, "--stop-above pressure:io:much"},
		"a rate of no log":       {[]string{"--metric", "pressure:io", "--covariate", "rate", "--pattern", "x", "--unit", ""}, 2, "--unit is empty"},
		"no Prometheus there":    {[]string{"--metric", "prometheus:http://127.0.0.1:1:up"}, 2, "connection to 127.0.0.1:1 refused"},
		"a cap":                  {[]string{"--stop-above", "logs:/var/log/app.log:max:10"}, 3, "exceeds the limit of --stop-above: "},
		// A verdict needs 14 windows: no machine has one before.
		"time for little":  {[]string{"--window", "200ms", "--budget", "1s"}, 0, "ended by budget"},
		"time for nothing": {[]string{"--budget", "1ms"}, 2, "want 1s to 168h"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := s.live(append([]string{"--force"}, x.args...)...).CombinedOutput()
			code := 0
			if err != nil {
				code = err.(*exec.ExitError).ExitCode()
			}
			if code != x.code || !strings.Contains(string(out), x.says) {
				t.Errorf("exit code %d, want %d:\n%s", code, x.code, out)
			}
			s.restored()
		})
	}
	for name, x := range map[string]struct {
		args []string
		says string
	}{
		"no metric":           {[]string{"--live"}, "--live needs --metric: pressure:io, logs:FILE:p99 or prometheus:URL:EXPRESSION"},
		"a window of a run":   {[]string{"--window", "1s", "--", "true"}, "--window needs --live"},
		"no format":           {[]string{"--live", "--metric", "logs:/var/log/app.log:p99", "--log-format", "nonsense"}, "--log-format: \"nonsense\" is not a format"},
		"no configuration":    {[]string{"--live", "--metric", "logs:/var/log/app.log:p99", "--log-config", "/etc/nothing"}, "--log-config: "},
		"no format in it":     {[]string{"--log-format", "combined", "--", "true"}, "--log-format needs --live"},
		"the unit of a clock": {[]string{"--live", "--metric", "pressure:io", "--unit", "s"}, "--unit works with --pattern or a Prometheus metric only; other metrics have fixed units"},
	} {
		out, err := s.command(append([]string{"prove", "--set", "vm.swappiness=10"}, x.args...)...).CombinedOutput()
		if err == nil || err.(*exec.ExitError).ExitCode() != 2 || !strings.Contains(string(out), x.says) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
