package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/network"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// servedPeer is the other side of a bench, on the loopback device.
type servedPeer struct {
	network.Served
	cmd  *exec.Cmd
	said watched
}

func servePeer(t *testing.T, more ...string) *servedPeer {
	t.Helper()
	p := &servedPeer{cmd: fettleCommand(t, append([]string{"bench", "network", "--serve", "127.0.0.1:0", "--output", "json"}, more...)...)}
	var out watched
	p.cmd.Stdout, p.cmd.Stderr = &out, &p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	await(t, "the peer waits", func() bool { return json.Unmarshal([]byte(out.String()), &p.Served) == nil })
	return p
}

// TestBenchNetwork: a bench over the loopback device, its record without the key, Ctrl-C on either
// side, and what is refused.
func TestBenchNetwork(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	bench := func(args ...string) *exec.Cmd {
		return fettleCommand(t, append([]string{"--state-dir", state, "bench", "network"}, args...)...)
	}
	t.Run("measured", func(t *testing.T) {
		p := servePeer(t)
		cells := "send-1,udp,request-1"
		if testing.Short() {
			cells = "udp"
		}
		out, err := bench(p.Address, "--key", p.Key, "--cells", cells, "--for", "2s", "--output", "json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var r evidence.Run
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		bodyValid(t, &r)
		if strings.Contains(string(out), p.Key) || r.Kind != network.RecordKind {
			t.Errorf("%s", out)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the peer: %v: %s", err, p.said.String())
		}
		shown, err := fettleCommand(t, "--state-dir", state, "runs", "show", r.ID).CombinedOutput()
		if err != nil || !strings.Contains(string(shown), p.Address) {
			t.Errorf("%v: %s", err, shown)
		}
	})
	t.Run("an overlay", func(t *testing.T) {
		testkitroot.Real(t, "loads the loopback device for four seconds")
		p := servePeer(t, "--overlay", "127.0.0.2:0")
		out, err := bench(p.Address, "--key", p.Key, "--overlay", p.Overlay, "--cells", "send-1,request-1", "--for", "2s", "--output", "json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var r evidence.Run
		var body network.Result
		if err := errors.Join(json.Unmarshal(out, &r), json.Unmarshal(r.Body, &body)); err != nil {
			t.Fatal(err)
		}
		bodyValid(t, &r)
		if body.Overlay == nil || body.Overlay.Peer != p.Overlay || len(body.Overlay.Costs) != 2 || len(body.Series) != 4 || len(body.Overlay.Forecast) != 2 || body.Overlay.Forecast[0].MTU != body.Local.MTU-50 || body.Overlay.Forecast[1].IPsec != body.Local.MTU-146 {
			t.Errorf("%+v", body.Overlay)
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the peer: %v: %s", err, p.said.String())
		}
		shown, err := fettleCommand(t, "--state-dir", state, "runs", "show", r.ID).CombinedOutput()
		if err != nil || !strings.Contains(string(shown), "inside / outside") {
			t.Errorf("%v: %s", err, shown)
		}
	})
	t.Run("an overlay only here", func(t *testing.T) {
		p := servePeer(t)
		cmd := bench(p.Address, "--key", p.Key, "--overlay", "127.0.0.2:1", "--cells", "request-1", "--for", "2s")
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), "no peer inside the overlay at 127.0.0.2:1: ") || !strings.Contains(string(out), "without --overlay") {
			t.Errorf("%v: %s", err, out)
		}
		if testing.Short() {
			return
		}
		// The peer still waits.
		if out, err := bench(p.Address, "--key", p.Key, "--cells", "request-1", "--for", "2s").CombinedOutput(); err != nil || !strings.Contains(string(out), "1 cell to "+p.Address+", 10 runs each") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		p := servePeer(t)
		cmd := bench(p.Address, "--cells", "udp", "--for", "1h", "--every", "10ms")
		cmd.Env = append(os.Environ(), network.KeyVariable+"="+p.Key)
		var said watched
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the bench has begun", func() bool {
			return strings.Contains(said.String(), "about 60 min") || strings.Contains(said.String(), "about 1 h")
		})
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v: %s", err, said.String())
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the peer: %v: %s", err, p.said.String())
		}
	})
	for name, x := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no peer":            {nil, 2, "no peer given"},
		"no key":             {[]string{"192.0.2.7"}, 2, "the key of the peer is missing"},
		"another key":        {[]string{"PEER", "--key", "00"}, 2, "the key is not the peer's"},
		"a cell":             {[]string{"192.0.2.7", "--cells", "fast"}, 2, "unknown cell"},
		"all addresses":      {[]string{"--serve", "0.0.0.0"}, 2, "means all addresses"},
		"a name":             {[]string{"--serve", "somewhere"}, 2, "not an address of this machine"},
		"no address":         {[]string{"--serve"}, 2, "address missing"},
		"an overlay's":       {[]string{"--serve", "127.0.0.1:0", "--overlay", "192.0.2.7"}, 2, "192.0.2.7 is not an address of this machine"},
		"another machine's":  {[]string{"--serve", "192.0.2.7"}, 2, "is not an address of this machine"},
		"serve with a cell":  {[]string{"--serve", "127.0.0.1", "--cells", "udp"}, 2, "--serve"},
		"a host of ssh":      {[]string{"ssh:-oProxyCommand=x"}, 2, "is not a host of ssh"},
		"a port":             {[]string{"192.0.2.7:99999", "--key", "00"}, 2, "the port is not a number"},
		"a port to serve at": {[]string{"--serve", "127.0.0.1:99999"}, 2, "the port is not a number"},
		"no listener":        {[]string{strings.TrimPrefix(testkitroot.Unheard(t), "http://"), "--key", "00"}, 1, "connection refused"},
		"an unknown machine": {[]string{"no.such.host.invalid", "--key", "00"}, 1, "no.such.host.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			args := x.args
			if len(args) > 0 && args[0] == "PEER" {
				args = append([]string{servePeer(t).Address}, args[1:]...)
			}
			cmd := bench(args...)
			var said bytes.Buffer
			cmd.Stderr = &said
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != x.code || !strings.Contains(said.String(), x.says) {
				t.Errorf("exit %d: %s", code, said.String())
			}
		})
	}
}

// TestBenchNetworkBySSH: a real server of ssh starts the other side, which ends with the client.
func TestBenchNetworkBySSH(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true, Files: map[string]string{
		"/root/.ssh/config": placesClient, "/root/ssh/one.conf": fmt.Sprintf(serverConfig, "one", "127.0.0.1:2201"), "/root/ssh/two.conf": fmt.Sprintf(serverConfig, "two", "127.0.0.2:2202"),
	}}) {
		return
	}
	if err := os.Symlink(filepath.Join(binDir(t), "fettle"), "/usr/bin/fettle"); err != nil {
		t.Fatal(err)
	}
	startHosts(t)
	cmd := fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "bench", "network", "ssh:two", "--cells", "request-1,udp", "--for", "2s", "--output", "json")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var r evidence.Run
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	var body network.Result
	if err == nil {
		err = json.Unmarshal(r.Body, &body)
	}
	if err != nil || !strings.HasPrefix(body.Peer, "127.0.0.2:") || len(body.Cells) != 2 {
		t.Errorf("%v: %+v %s", err, body, said.String())
	}
	await(t, "the other side ends", func() bool {
		return exec.Command("pgrep", "-f", "bench network --serve").Run() != nil
	})
	cmd = fettleCommand(t, "bench", "network", "ssh:closed")
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "peer closed: ssh: connect to host 127.0.0.2 port 2204: Connection refused") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}
