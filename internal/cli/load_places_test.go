package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fettle.dev/fettle/internal/requests/load"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// limitedConf is nginx with a place that takes 100 requests a second and no more.
const limitedConf = `
pid /run/nginx.pid;
error_log /dev/null;
events { worker_connections 4096; }
http {
  log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time';
  access_log /var/log/nginx/access.log timed;
  limit_req_zone $binary_remote_addr zone=all:1m rate=100r/s;
  limit_req_status 503;
  server {
    listen 127.0.0.1:18080;
    location /limited { limit_req zone=all burst=20 nodelay; root /srv; }
    location /down { return 503; }
    location / { return 200 "hello\n"; }
  }
}
`

const timedFormat = `nginx:$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time`

// placesClient are the hosts of the client of ssh.
const placesClient = `Host one
  HostName 127.0.0.1
  Port 2201
Host two
  HostName 127.0.0.2
  Port 2202
Host closed
  HostName 127.0.0.2
  Port 2204
Host *
  IdentityFile ~/.ssh/login
  IdentitiesOnly yes
  UserKnownHostsFile ~/.ssh/known_hosts
  GlobalKnownHostsFile none
`

// TestLoadPlaces: two real servers of ssh generate the load of a real nginx, are looked at,
// and what both have counted is what nginx has logged.
func TestLoadPlaces(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{
		Servers: true,
		Files: map[string]string{
			"/root/.ssh/config":    placesClient,
			"/root/ssh/one.conf":   fmt.Sprintf(serverConfig, "one", "127.0.0.1:2201"),
			"/root/ssh/two.conf":   fmt.Sprintf(serverConfig, "two", "127.0.0.2:2202"),
			"/root/ssh/nginx.conf": limitedConf,
			"/srv/limited":         "hello\n",
		},
	}) {
		return
	}
	// The other side's shell finds the program where a package puts it.
	if err := os.Symlink(filepath.Join(binDir(t), "fettle"), "/usr/bin/fettle"); err != nil {
		t.Fatal(err)
	}
	startHosts(t)
	if out, err := exec.Command("/usr/sbin/nginx", "-c", "/root/ssh/nginx.conf").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("/usr/sbin/nginx", "-c", "/root/ssh/nginx.conf", "-s", "stop").Run() })
	const base = "http://127.0.0.1:18080"
	state := filepath.Join(t.TempDir(), "state")
	logged := func(path string) int64 {
		text, err := os.ReadFile("/var/log/nginx/access.log")
		if err != nil {
			t.Fatal(err)
		}
		return int64(strings.Count(string(text), " "+path+" HTTP/"))
	}
	// allLogged waits until the server has logged so many: nginx writes the line of a request
	// when its answer has been sent.
	allLogged := func(t *testing.T, path string, want int64) {
		t.Helper()
		await(t, fmt.Sprintf("%d requests of %s are logged", want, path), func() bool { return logged(path) >= want })
	}
	// union holds a result against what the server has logged.
	union := func(t *testing.T, x *load.Result, path string, clients int) {
		t.Helper()
		if x == nil {
			t.Fatal("no result")
		}
		all := int64(0)
		for _, c := range x.Generator.Clients {
			all += c.Starts
			if c.Starts == 0 || c.ClockErrorS <= 0 {
				t.Errorf("%+v", c)
			}
		}
		h, err := hdrhistogram.Decode([]byte(x.Histogram))
		if err != nil {
			t.Fatal(err)
		}
		allLogged(t, path, x.Whole.Starts)
		if n := logged(path); len(x.Generator.Clients) != clients || all != n || x.Whole.Starts != n || x.Whole.Statuses["200"] != n || h.TotalCount() != n {
			t.Errorf("nginx has seen %d, the clients have started %d of %d, and %d are in the histogram: %+v", n, all, x.Whole.Starts, h.TotalCount(), x.Generator.Clients)
		}
	}

	t.Run("rate", func(t *testing.T) {
		out, x := loadHTTP(t, state, 0, "--rate", "101/s", "--for", "5s", "--clients", "ssh:one,ssh:root@two", "--observe", "local,ssh:two", "--expect", "errors < 1%", "--expect", "cpu <= 100%", "--expect", "runqueue < 10000", base+"/rate", "-o", "json")
		union(t, x, "/rate", 2)
		if x.Generator.Clients[0].Name != "one" || x.Generator.Clients[1].Name != "root@two" || len(x.Observed) != 2 || len(x.Gates) != 3 {
			t.Errorf("%s", out)
		}
		for i, o := range x.Observed {
			f := x.Whole.Observed[i]
			if o.Machine != []string{"local", "two"}[i] || o.Ended != "" || len(o.Samples) == 0 || f.CPUShare <= 0 || f.CPUShare > 1 || f.MemoryShare <= 0 || f.CPUs < 1 {
				t.Errorf("%+v %+v", o, f)
			}
		}
	})
	t.Run("connections", func(t *testing.T) {
		_, x := loadHTTP(t, state, 0, "--connections", "5", "--for", "2s", "--clients", "ssh:one,ssh:two", base+"/connections", "-o", "json")
		// Those that were under way at the end are in the log and not in the slices.
		if x == nil || x.Connections != 5 || x.Generator.Clients[0].Connections != 3 || x.Whole.Starts < 10 {
			t.Fatalf("%+v", x)
		}
		allLogged(t, "/connections", x.Whole.Starts)
	})
	t.Run("any transport", func(t *testing.T) {
		out, x := loadHTTP(t, state, 0, "--rate", "50/s", "--for", "2s", "--client-command", "fettle load worker", "--client-command", "exec /usr/bin/fettle load worker", base+"/command", "-o", "json")
		union(t, x, "/command", 2)
		if !strings.Contains(out, "is a loopback address: each client loads its own machine") {
			t.Error(out)
		}
	})
	t.Run("not reached", func(t *testing.T) {
		for want, args := range map[string][]string{
			"client closed: ssh: connect to host 127.0.0.2 port 2204: Connection refused": {"--clients", "ssh:one,ssh:closed"},
			"cannot observe closed: ssh: connect to host 127.0.0.2":                       {"--observe", "ssh:closed"},
			"client command 1: the program is not installed":                              {"--client-command", "exec /no/such/fettle"},
		} {
			if out, _ := loadHTTP(t, state, 1, append(args, "--rate", "50/s", "--for", "1s", base+"/nobody")...); !strings.Contains(out, want) {
				t.Errorf("%q is not in %s", want, out)
			}
		}
		if out, _ := loadHTTP(t, state, 1, "--rate", "50/s", "--for", "1s", "--clients", "ssh:one", "http://127.0.0.1:9/"); !strings.Contains(out, "client one: cannot connect to 127.0.0.1:9") {
			t.Error(out)
		}
		if n := logged("/nobody"); n != 0 {
			t.Errorf("nginx has seen %d requests", n)
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		cmd := fettleCommand(t, "--state-dir", state, "load", "http", "--rate", "50/s", "--for", "1h", "--clients", "ssh:one,ssh:two", "-o", "json", base+"/cut")
		var text, talk strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "two hundred requests", func() bool { return logged("/cut") > 200 })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		x := loadResult(t, []byte(text.String()))
		if cmd.ProcessState.ExitCode() != 130 || x == nil || x.Cut == nil || x.Whole.Statuses["200"] < 90 {
			t.Errorf("exit %d: %s%s", cmd.ProcessState.ExitCode(), talk.String(), text.String())
		}
		await(t, "no worker is left", func() bool { return exec.Command("pgrep", "-f", "fettle load worker").Run() != nil })
	})
	t.Run("killed", func(t *testing.T) {
		cmd := fettleCommand(t, "--state-dir", state, "load", "http", "--rate", "50/s", "--for", "1h", "--clients", "ssh:one", base+"/killed")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "fifty requests", func() bool { return logged("/killed") > 50 })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		// The connection is gone, so the load is too.
		await(t, "no worker is left", func() bool { return exec.Command("pgrep", "-f", "fettle load worker").Run() != nil })
	})
	t.Run("replay", func(t *testing.T) {
		before := logged("/rate") + logged("/command")
		_, x := loadHTTP(t, state, 0, "--replay", "/var/log/nginx/access.log", "--replay-format", timedFormat, "--speed", "20", base, "-o", "json")
		if x == nil || x.Replay == nil || x.Replay.Requests != x.Whole.Starts || x.Replay.Requests < before || x.Whole.Errors != 0 {
			t.Fatalf("%+v", x)
		}
		all := func() int64 { return logged("/rate") + logged("/command") }
		await(t, "the requests of the replay are logged", func() bool { return all() >= 2*before })
		if after := all(); after != 2*before {
			t.Errorf("of %d requests %d are there now", before, after)
		}
	})
	t.Run("knee", func(t *testing.T) {
		testkitroot.Nightly(t, "takes two minutes")
		// nginx refuses what is above 100 a second, but for 20 in all. On a busy machine
		// the search may have no answer, because what is sent late comes in bursts; but it
		// has no false one.
		cmd := fettleCommand(t, "--state-dir", state, "load", "http", "--find-knee", "--rate", "30/s", "--for", "5s", "--observe", "local", "--expect", "errors < 1%", base+"/limited", "-o", "json")
		text, _ := cmd.Output()
		x := loadResult(t, text)
		if x == nil || x.Knee == nil || x.Knee.Rate > 110 || x.Knee.Answer == load.Found && x.Knee.Rate < 92 {
			t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), text)
		}
		t.Log(x.Text)
	})
	t.Run("no knee", func(t *testing.T) {
		out, _ := loadHTTP(t, state, 3, "--find-knee", "--rate", "20/s", "--for", "1s", "--expect", "errors < 1%", base+"/down")
		if !strings.Contains(out, "fails even at the lowest rate, 20/s: no request succeeded: status 503 ") {
			t.Error(out)
		}
		_, x := loadHTTP(t, state, 0, "--find-knee", "--rate", "2/s..2/s", "--for", "2s", "--expect", "errors < 50%", base+"/knee", "-o", "json")
		if x == nil || x.Knee == nil || x.Knee.Answer != load.HoldsAtHighest || x.Knee.Rate != 2 || len(x.Knee.Stages) != 2 {
			t.Errorf("%+v", x)
		}
	})
}

// startHosts starts the servers of ssh, each with a key of its own.
func startHosts(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("sh", "-euc", `umask 077
mkdir -p /run/sshd
chmod 700 /root/.ssh
ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/login
for name in one two; do ssh-keygen -q -t ed25519 -N "" -f /root/ssh/$name; done
{ echo "[127.0.0.1]:2201 $(cat /root/ssh/one.pub)"
  echo "[127.0.0.2]:2202 $(cat /root/ssh/two.pub)"; } >/root/.ssh/known_hosts`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"one", "two"} {
		cmd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", "/root/ssh/"+name+".conf")
		var talk strings.Builder
		cmd.Stderr = &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("sshd %s:\n%s", name, talk.String())
			}
		})
		// sshd(8) writes the file once it listens.
		if !testkitroot.Eventually(time.Minute, func() bool {
			_, err := os.Stat("/run/sshd/" + name + ".pid")
			return err == nil
		}) {
			t.Fatalf("sshd %s does not listen", name)
		}
	}
}
