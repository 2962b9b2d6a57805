package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/mqtt"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// loadMQTT runs the verb and wants an exit code. It may have as many files open as 5,000
// hosts want that fetch.
func loadMQTT(t *testing.T, state string, code int, args ...string) (out string, x *mqtt.Result) {
	t.Helper()
	words := append([]string{"-c", `ulimit -n 12000 && exec "$@"`, "sh", filepath.Join(binDir(t), "fettle"), "--state-dir", state, "load", "mqtt", "--timeout", "1m"}, args...)
	cmd := exec.Command("/bin/sh", words...)
	var talk strings.Builder
	cmd.Stderr = &talk
	text, _ := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		t.Errorf("%v: exit %d, want %d: %s%s", args, cmd.ProcessState.ExitCode(), code, text, talk.String())
	}
	return string(text) + talk.String(), mqttResult(t, text)
}

// mqttResult reads the data of a load, if it is that.
func mqttResult(t *testing.T, text []byte) *mqtt.Result {
	t.Helper()
	return resultOf(t, text, mqtt.Kind, func(x *mqtt.Result) string { return x.Text })
}

// TestLoadMQTTLimits: 5,000 hosts at Debian's mosquitto before and after its limits are
// raised: max_connections of the listener, and the open files of its unit, which are 1024
// unless another number is set. Both are seen only as connections that are closed, and
// both keep the proxy out too: no host is notified.
func TestLoadMQTTLimits(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	state := filepath.Join(t.TempDir(), "state")
	const open = "listener 18830 127.0.0.1\nallow_anonymous true\n"
	all := []string{"--hosts", "5000", "--connect-rate", "1000/s", "--job-rate", "1000/s", "-o", "json", "mqtt://127.0.0.1:18830"}
	for _, c := range []struct {
		name, conf string
		files      int
		least      int
		most       int
		log        []string
	}{
		// mosquitto 2.0.11 lets in one more for each connection that has ended.
		{"max_connections", open + "max_connections 1000\n", 12000, 1000, 1050, []string{"denied: max_connections exceeded"}},
		// Debian's asks tcpd's files of each client, which takes another open file.
		{"open files", open, 1024, 900, 1024, []string{"system socket count has been exceeded", "denied access by tcpd"}},
		{"raised", open, 12000, 5000, 5000, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := startMosquitto(t, c.files, "18830", c.conf)
			defer m.stop()
			if c.most == 5000 {
				_, x := loadMQTT(t, state, 0, append(all, "--wait", "1m", "--expect", "errors <= 0%")...)
				if x == nil {
					return
				}
				o := x.Rounds[0]
				if x.Connect.Connected != 5000 || x.Connect.Refused != 0 || o.Notified != 5000 || o.Undelivered != 0 || x.Connect.Lost != 0 {
					t.Errorf("%s: %+v %+v", x.Text, x.Connect, o)
				}
				// What is kept of a host may not grow unseen: it was 6 KiB, and 15 KiB with TLS.
				if n := x.Generator.MemoryPerHostBytes; n <= 0 || n > 40<<10 {
					t.Errorf("%d bytes of memory a host", n)
				}
				t.Logf("%s; %d bytes a host", x.Text, x.Generator.MemoryPerHostBytes)
				return
			}
			_, x := loadMQTT(t, state, 3, append(all, "--wait", "3s", "--expect", "errors < 1%")...)
			if x == nil {
				return
			}
			n, o := x.Connect.Connected, x.Rounds[0]
			if n < c.least || n > c.most || x.Connect.Refused != 5000-n || x.Connect.Failures["closed-early"].N != int64(5000-n) || x.Connect.FirstRefused == nil || *x.Connect.FirstRefused > n {
				t.Errorf("%s: %+v", x.Text, x.Connect)
			}
			if o.Notified != 0 || o.Undelivered != 5000 || o.NotPublished == 0 || x.Word != mqtt.NotSustained && x.Word != mqtt.Limited {
				t.Errorf("%s: %+v", x.Text, o)
			}
			log := m.logged()
			if !slices.ContainsFunc(c.log, func(says string) bool { return strings.Contains(log, says) }) {
				t.Errorf("mosquitto does not say %q", c.log)
			}
			t.Log(x.Text)
		})
	}
}

// TestLoadMQTT: Debian's mosquitto with TLS and an access list as Foreman's installer
// writes it, jobs that are fetched, records and Ctrl-C.
func TestLoadMQTT(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	dir, certs, state := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "state")
	ca := newAuthority(t)
	server, proxy := ca.issue(dir, "localhost"), ca.issue(dir, "capsule")
	for i := range 20 {
		ca.issue(certs, fmt.Sprintf("host%02d", i))
	}
	acl := filepath.Join(dir, "acl")
	if err := os.WriteFile(acl, []byte("user capsule\ntopic write yggdrasil/+/data/in\n\npattern read yggdrasil/%u/data/in\npattern read yggdrasil/%u/control/in\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := startMosquitto(t, 12000, "18832", fmt.Sprintf("per_listener_settings true\nlistener 18831 127.0.0.1\nallow_anonymous true\nlistener 18832 127.0.0.1\ncafile %s\ncertfile %s\nkeyfile %[2]s\nrequire_certificate true\nuse_identity_as_username true\nacl_file %s\nlistener 18833 127.0.0.1\ncafile %[1]s\ncertfile %[2]s\nkeyfile %[2]s\nrequire_certificate true\nallow_anonymous true\n", ca.file, server, acl))
	tls := []string{"--cacert", ca.file, "--cert", proxy, "--key", proxy, "--wait", "1m", "-o", "json"}

	t.Run("TLS", func(t *testing.T) {
		_, x := loadMQTT(t, state, 0, append(tls, "--hosts", "300", "--expect", "errors <= 0%", "mqtts://127.0.0.1:18833")...)
		if x == nil || x.Connect.Connected != 300 || x.Rounds[0].Notified != 300 || x.Connect.Lost != 0 || !x.Broker.ClientCertificate || x.Broker.TLS != "TLS 1.3" {
			t.Fatalf("%+v", x)
		}
		if n := x.Generator.MemoryPerHostBytes; n <= 0 || n > 128<<10 {
			t.Errorf("%d bytes of memory a host", n)
		}
		t.Logf("%s; %d bytes a host", x.Text, x.Generator.MemoryPerHostBytes)
		if out, _ := loadMQTT(t, state, 1, "--cacert", ca.file, "--hosts", "3", "mqtts://127.0.0.1:18833"); !strings.Contains(out, "does not accept the publishing proxy:") || !strings.Contains(out, "certificate required") && !strings.Contains(out, "before CONNACK") {
			t.Error(out)
		}
		if out, _ := loadMQTT(t, state, 1, "--hosts", "3", "mqtts://127.0.0.1:18833"); !strings.Contains(out, "unknown authority") {
			t.Error(out)
		}
	})
	t.Run("each its certificate", func(t *testing.T) {
		_, x := loadMQTT(t, state, 0, append(tls, "--host-certs", certs, "--expect", "errors <= 0%", "mqtts://127.0.0.1:18832")...)
		if x == nil || x.Connect.Connected != 20 || x.Rounds[0].Notified != 20 {
			t.Errorf("%+v", x)
		}
		// Who is not the host that the topic names does not hear of its job.
		_, x = loadMQTT(t, state, 0, append(tls, "--hosts", "5", "--wait", "2s", "mqtts://127.0.0.1:18832")...)
		if x == nil || x.Connect.Connected != 5 || x.Rounds[0].Notified != 0 || x.Rounds[0].Undelivered != 5 || x.Rounds[0].Published != 5 || x.Word != mqtt.NotSustained {
			t.Errorf("%+v", x)
		}
		// And whoever is not the proxy may not publish, which the broker does not say.
		host := filepath.Join(certs, "host00.pem")
		_, x = loadMQTT(t, state, 3, "--cacert", ca.file, "--cert", host, "--key", host, "--host-certs", certs, "--wait", "2s", "--expect", "errors < 1%", "-o", "json", "mqtts://127.0.0.1:18832")
		if x == nil || x.Rounds[0].Notified != 0 {
			t.Errorf("%+v", x)
		}
	})
	t.Run("pull", func(t *testing.T) {
		var mu sync.Mutex
		requests := map[string]int{}
		failing := false
		jobs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			defer mu.Unlock()
			requests[r.Method]++
			if failing && r.Method == http.MethodPost {
				http.Error(w, "too much", http.StatusServiceUnavailable)
			}
		}))
		defer jobs.Close()
		pull := []string{"--hosts", "100", "--connect-rate", "500/s", "--job-rate", "500/s", "--pull", jobs.URL + "/ssh/jobs", "--output-every", "500ms", "--job-time", "1s", "--wait", "1m", "mqtt://127.0.0.1:18831"}
		_, x := loadMQTT(t, state, 0, append(pull, "--setting", "limit=50", "--setting", "ttl=60,resend=60,limit=none", "--expect", "errors <= 0%", "-o", "json")...)
		if x == nil || len(x.Rounds) != 2 || len(x.Gates) != 2 {
			t.Fatalf("%+v", x)
		}
		for _, o := range x.Rounds {
			if o.Pull.Finished != 100 || o.Pull.Reports != 200 || o.Undelivered != 0 || o.Pull.Failed != 0 {
				t.Errorf("%s: %+v %+v", o.Settings, o, o.Pull)
			}
		}
		if x.Rounds[0].Pull.MostUnderWay > 50 || requests["GET"] < 200 || requests["POST"] < 400 {
			t.Errorf("%+v %v", x.Rounds[0].Pull, requests)
		}
		mu.Lock()
		failing = true
		mu.Unlock()
		out, _ := loadMQTT(t, state, 3, append(pull, "--wait", "10s", "--expect", "errors < 1%")...)
		for _, want := range []string{"100 jobs hung: the final report failed: status-503", "threshold errors < 1% not met: 100 %", "not met", "report not taken", "ttl=5s,resend=15m,limit=none"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in %s", want, out)
			}
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		cmd := fettleCommand(t, "--state-dir", state, "load", "mqtt", "--hosts", "60", "--job-rate", "6/s", "-o", "json", "mqtt://127.0.0.1:18831")
		var text, talk strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &talk
		before := strings.Count(m.logged(), "as fettle-proxy-")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "ten notifications", func() bool { return strings.Count(m.logged(), "as fettle-proxy-") > before+10 })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
		if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(talk.String(), "interrupted: the hosts are disconnected; the measurements so far are stored as run ") {
			t.Errorf("exit %d: %s", code, talk.String())
		}
		if x := mqttResult(t, []byte(text.String())); x == nil || x.Cut == nil || x.Cut.Planned != 60 || x.Cut.Done < 5 {
			t.Errorf("%s", text.String())
		}
	})
	t.Run("records", func(t *testing.T) {
		show := func(args ...string) string {
			text, err := fettleCommand(t, append([]string{"--state-dir", state}, args...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v: %s", args, err, text)
			}
			return string(text)
		}
		var list RunList
		if err := json.Unmarshal([]byte(show("runs", "list", "-o", "json")), &list); err != nil || len(list.Runs) < 6 {
			t.Fatalf("%v: %+v", err, list)
		}
		key, err := os.ReadFile(proxy)
		if err != nil {
			t.Fatal(err)
		}
		_, rest := pem.Decode(key)
		block, _ := pem.Decode(rest)
		if block == nil {
			t.Fatal("no key")
		}
		secret := strings.Split(string(pem.EncodeToMemory(block)), "\n")[1]
		files, err := filepath.Glob(filepath.Join(state, "runs", "*"))
		if err != nil || len(files) != len(list.Runs) {
			t.Fatalf("%v: %q", err, files)
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err != nil || bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s: a secret is in the evidence (%v)", name, err)
			}
		}
		shown := 0
		for _, run := range list.Runs {
			text := show("runs", "show", run.ID)
			if !strings.Contains(text, run.Verdict+"\n") {
				t.Error(text)
			}
			shown += strings.Count(text, ", with client certificate")
		}
		if shown < 3 {
			t.Errorf("%d runs say that a certificate was shown", shown)
		}
		first := list.Runs[0]
		if text := show("runs", "compare", first.ID, list.Runs[1].ID); !strings.Contains(text, "mqtt:connect:p50") {
			t.Error(text)
		}
		if text := show("runs", "show", first.ID, "--output", "html"); !strings.Contains(string(text), "hosts over time") {
			t.Error("the page has no curve")
		}
	})
}
