package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/network"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// offloadLab has a peer in a network namespace at the other end of a pair of veth devices.
type offloadLab struct {
	t      *testing.T
	state  string
	before []host.NetParam
}

func newOffloadLab(t *testing.T) *offloadLab {
	out, err := exec.Command("sh", "-ec", `ip link set lo up; ip netns add peer; ip link add v type veth peer name p netns peer
ip addr add 10.9.4.1/24 dev v; ip -n peer addr add 10.9.4.2/24 dev p; ip link set v up; ip -n peer link set p up`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l := &offloadLab{t: t, state: filepath.Join(t.TempDir(), "state")}
	l.before = l.features()
	return l
}

func (l *offloadLab) features() []host.NetParam {
	l.t.Helper()
	f, err := host.Live().Net.Params("v", host.NetFeatures)
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

// bench starts a peer, and returns a bench with it.
func (l *offloadLab) bench(args ...string) *exec.Cmd {
	l.t.Helper()
	peer := fettleCommand(l.t, "bench", "network", "--serve", "10.9.4.2:0", "--until-input-ends", "--output", "json")
	peer.Args = append([]string{"ip", "netns", "exec", "peer", peer.Path}, peer.Args[1:]...)
	peer.Path, _ = exec.LookPath("ip")
	in, err := peer.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	var out watched
	peer.Stdout = &out
	if err := peer.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { in.Close(); _ = peer.Wait() })
	var s network.Served
	await(l.t, "the peer waits", func() bool { return json.Unmarshal([]byte(out.String()), &s) == nil })
	return fettleCommand(l.t, append([]string{"--state-dir", l.state, "bench", "network", s.Address, "--key", s.Key, "--change-offloads", "--for", "2s"}, args...)...)
}

// restored waits until the features are as they were, the journal has nothing live, and no watchdog
// is at work.
func (l *offloadLab) restored(within time.Duration) {
	l.t.Helper()
	ok := testkitroot.Eventually(within, func() bool {
		s, err := journal.Read(l.state, "")
		return tune.Holder(l.state) == nil && slices.Equal(l.features(), l.before) && (os.IsNotExist(err) || err == nil && len(s.Live()) == 0 && len(s.Interrupted()) == 0)
	})
	if !ok {
		s, err := journal.Read(l.state, "")
		l.t.Fatalf("features as before: %v; %+v, %v", slices.Equal(l.features(), l.before), s, err)
	}
}

// TestBenchNetworkOffloads: offloads are switched for a measurement, and are as before after it and
// after kill -9 at any point of it.
func TestBenchNetworkOffloads(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	l := newOffloadLab(t)
	t.Run("measured", func(t *testing.T) {
		l.t = t
		cmd := l.bench("--cells", "send-1", "--output", "json")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		l.restored(0)
		// What is switched is said before, and by --dry-run, which changes nothing.
		const planned = "switched on v, each on trial, 60 s: tso off (tx-tcp"
		if !strings.Contains(strings.Join(strings.Fields(said.String()), " "), planned) {
			t.Errorf("%s", said.String())
		}
		for peer, want := range map[string]string{"10.9.4.2": planned, "ssh:no-such-host.invalid": "switched on the device that reaches the peer"} {
			dry, err := fettleCommand(t, "--state-dir", l.state, "bench", "network", peer, "--change-offloads", "--dry-run", "--for", "2s").CombinedOutput()
			// Two cells, as it was and with each of four changes.
			if got := strings.Join(strings.Fields(string(dry)), " "); err != nil || !strings.Contains(got, want) || !strings.Contains(got, "about 20 s") {
				t.Errorf("%s: %v: %s", peer, err, dry)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		var r evidence.Run
		var body network.Result
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodyValid(t, &r)
		var names []string
		for _, c := range body.Changed {
			names = append(names, c.Change)
			if len(c.Costs) != 1 || c.Costs[0].Figures[0].Interval == nil {
				t.Errorf("%+v", c)
			}
		}
		if got := strings.Join(names, ", "); got != "tso off, gso off, gro on, checksums off" && got != "tso off, gso off, gro off, checksums off" {
			t.Error(got)
		}
		history, err := fettleCommand(t, "--state-dir", l.state, "history", "--output", "json").Output()
		key := cmd.Args[slices.Index(cmd.Args, "--key")+1]
		if err != nil || !strings.Contains(string(history), "--key '[redacted]'") || bytes.Contains(history, []byte(key)) {
			t.Errorf("%v: %s", err, history)
		}
	})
	t.Run("killed", func(t *testing.T) {
		l.t = t
		step := 1
		if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
			step = 7
		}
		killed := 0
		const points = 60 // of the first changes
		for at := 1; at <= points; at += step {
			cmd := l.bench("--cells", "send-1")
			cmd.Env = append(os.Environ(), "FETTLE_TEST_KILL_AT="+strconv.Itoa(at))
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("not killed at point %d: %v: %s", at, err, out)
			}
			l.restored(30 * time.Second) // by the watchdog
			killed++
		}
		t.Logf("restored after each of %d kills", killed)
	})
	t.Run("too long for a trial", func(t *testing.T) {
		l.t = t
		cmd := l.bench("--for", "20m")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "too long for a trial") {
			t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
		}
		l.restored(0)
	})
	t.Run("the ssh session's device", func(t *testing.T) {
		l.t = t
		// systemd, and no unit that ends a trial at boot.
		if err := os.MkdirAll("/run/systemd/system", 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove("/run/systemd/system")
		cmd := l.bench()
		cmd.Env = append(os.Environ(), "SSH_CONNECTION=10.9.4.2 40000 10.9.4.1 22")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 4 || !strings.Contains(string(out), "your ssh session uses v") {
			t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
		}
		l.restored(0)
	})
	if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		return // waits for the end of a trial
	}
	t.Run("watchdog killed too", func(t *testing.T) {
		l.t = t
		cmd := l.bench("--for", "1m")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "an offload is switched", func() bool { return !slices.Equal(l.features(), l.before) })
		out, err := exec.Command("sh", "-c", fmt.Sprintf("kill -9 %d; pkill -9 -f '[w]atch-experiment'", cmd.Process.Pid)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_ = cmd.Wait()
		if slices.Equal(l.features(), l.before) {
			t.Fatal("restored already")
		}
		time.Sleep(network.TrialTime)
		out, err = fettleCommand(t, "--state-dir", l.state, "tune", "--set", "net:v/txqueuelen=500").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := fettleCommand(t, "--state-dir", l.state, "undo").CombinedOutput(); err != nil {
			t.Fatal(err)
		}
		l.restored(0)
	})
}
