package cli

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// answering is a server in this process, which counts what it has answered, at the most
// so many, and which requests came to it after that: those wait.
func answering(t *testing.T, most int64) (url string, answered, waiting *atomic.Int64) {
	t.Helper()
	answered, waiting = &atomic.Int64{}, &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if answered.Add(1) > most {
			answered.Add(-1)
			waiting.Add(1)
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/", answered, waiting
}

// afterAnswers sends a process a signal once a server has given some answers.
func afterAnswers(answered *atomic.Int64, signal, pidFile string) <-chan error {
	sent := make(chan error, 1)
	go func() {
		if !testkitroot.Eventually(time.Minute, func() bool { return answered.Load() >= 30 }) {
			sent <- fmt.Errorf("%d requests were answered in a minute", answered.Load())
			return
		}
		sent <- exec.Command("sh", "-c", "kill -s "+signal+" $(cat "+pidFile+")").Run()
	}()
	return sent
}

// TestWorkerIsStopped: what was measured until a worker is stopped where it runs is kept,
// and the load has failed with the worker's name.
func TestWorkerIsStopped(t *testing.T) {
	testkitroot.Real(t, "takes ten seconds")
	t.Parallel()
	state, worker := filepath.Join(t.TempDir(), "state"), filepath.Join(binDir(t), "fettle")+" load worker"
	for name, how := range map[string][]string{
		"load":   {"--rate", "20/s", "--for", "1h", "-o", "json"},
		"search": {"--find-knee", "--rate", "5/s", "--for", "1m", "--expect", "errors < 1%"},
	} {
		url, answered, _ := answering(t, math.MaxInt64)
		pid := filepath.Join(t.TempDir(), "pid")
		stopped := afterAnswers(answered, "TERM", pid)
		out, x := loadHTTP(t, state, 1, append(how, "--client-command", worker, "--client-command", "echo $$ >"+pid+"; exec "+worker, url)...)
		if err := <-stopped; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out, "the load ended early: client command 2 was stopped on its machine") {
			t.Errorf("%s: %s", name, out)
		}
		if name == "load" && (x == nil || x.Cut == nil || x.Whole.Starts < 10 || !x.Generator.Clients[1].EndedEarly || x.Generator.Clients[0].EndedEarly) {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// TestWorkerIsLost: what the others have counted is kept where one is killed, or stands still
// while its connection does not end, and it is said who, since when, and what to do.
func TestWorkerIsLost(t *testing.T) {
	testkitroot.Real(t, "takes some seconds")
	t.Parallel()
	state, worker := filepath.Join(t.TempDir(), "state"), filepath.Join(binDir(t), "fettle")+" load worker"
	lose := func(t *testing.T, signal, how string) (out string) {
		url, answered, _ := answering(t, math.MaxInt64)
		pid := filepath.Join(t.TempDir(), "pid")
		lost := afterAnswers(answered, signal, pid)
		out, x := loadHTTP(t, state, 1, "--rate", "20/s", "--for", "1h", "-o", "json", "--expect", "p99 < 10s", "--client-command", worker, "--client-command", fmt.Sprintf(how, pid), url)
		if err := <-lost; err != nil {
			t.Error(err)
		}
		for _, want := range []string{"the load ended early: client command 2: ", " s into the load", "Check the machine and the network", "client command 2 was lost and its requests are unknown; the other clients: ", "the measurements so far are stored as run "} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in %s", want, out)
			}
		}
		if x == nil || x.Word != load.Partial || x.Cut == nil || x.Whole.Starts < 10 || x.Whole.Errors != 0 || x.Generator.Clients[0].Starts != x.Whole.Starts || x.Generator.Clients[1].Lost == "" || !x.Gates[0].Unknown {
			t.Errorf("%+v", x)
		}
		return out
	}
	lose(t, "KILL", "echo $$ >%s; exec "+worker)
	t.Run("silent", func(t *testing.T) {
		testkitroot.Nightly(t, "takes a minute")
		out := lose(t, "STOP", "exec 3<&0; "+worker+" <&3 & echo $! >%s; wait")
		if !strings.Contains(out, "no report from client command 2 since ") || !strings.Contains(out, "; given up 30 s later") {
			t.Error(out)
		}
	})
}

// TestLoadGivesTheTerminalBack: the view of a load has a screen of its own, and what comes of
// it is on the one that was there.
func TestLoadGivesTheTerminalBack(t *testing.T) {
	var text strings.Builder
	v := loadcli.NewView(&ui.Screen{Out: &text, Err: &text, Format: ui.Table, Width: 80}, "100/s")
	v.Second(time.Second, 3*time.Second, fleet.Now{At: time.Second})
	v.Quiet("b", time.Now())
	v.End()
	const its, back = "\x1b[?1049h", "\x1b[?1049l"
	if got := text.String(); strings.Count(got, its) != 1 || strings.Count(got, back) != 1 || !strings.Contains(got[strings.Index(got, back):], "no report from client b since ") {
		t.Errorf("%q", got)
	}
}

// TestInterruptedLoadHasNoErrors: a request that Ctrl-C has cut says nothing against a
// healthy server.
func TestInterruptedLoadHasNoErrors(t *testing.T) {
	testkitroot.Real(t, "takes some seconds")
	t.Parallel()
	for name, how := range map[string][]string{
		"open":   {"--rate", "50/s"},
		"closed": {"--connections", "10"},
		"worker": {"--rate", "50/s", "--client-command", filepath.Join(binDir(t), "fettle") + " load worker"},
	} {
		url, answered, waiting := answering(t, 50)
		cmd := fettleCommand(t, append([]string{"--state-dir", filepath.Join(t.TempDir(), "state"), "load", "http", "--for", "1h", "--timeout", "10m", url, "-o", "json"}, how...)...)
		var text, talk strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "fifty answers, and requests that wait", func() bool { return answered.Load() == 50 && waiting.Load() > 0 })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		x := loadResult(t, []byte(text.String()))
		if code := cmd.ProcessState.ExitCode(); code != 130 || x == nil || x.Cut == nil || x.Whole.Statuses["200"] < 10 {
			t.Errorf("%s: exit %d: %s", name, code, talk.String())
			continue
		}
		if x.Whole.Errors != 0 || x.Whole.Failures["interrupted"].N == 0 || len(x.Whole.Failures) != 1 || x.Requests[0].Errors != 0 || !strings.HasSuffix(x.Text, "no errors") {
			t.Errorf("%s: %s: %+v", name, x.Text, x.Whole)
		}
	}
}

// TestRateOfClients: what several clients start together is what one would.
func TestRateOfClients(t *testing.T) {
	testkitroot.Real(t, "takes some seconds")
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(s.Close)
	args := []string{"--rate", "1/s", "--for", "2s", s.URL, "-o", "json"}
	for range 3 {
		args = append(args, "--client-command", filepath.Join(binDir(t), "fettle")+" load worker")
	}
	out, x := loadHTTP(t, filepath.Join(t.TempDir(), "state"), 0, args...)
	if n := asked.Load(); n != 2 || x == nil || x.Whole.Starts != 2 || x.Cut != nil || len(x.Generator.Clients) != 3 {
		t.Errorf("the server was asked %d times: %s", n, out)
	}
}
