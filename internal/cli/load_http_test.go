package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// loadHTTP runs the verb and wants an exit code. A machine that stands still for a moment
// loses no answer.
func loadHTTP(t *testing.T, state string, code int, args ...string) (out string, x *load.Result) {
	t.Helper()
	cmd := fettleCommand(t, append([]string{"--state-dir", state, "load", "http", "--timeout", "1m"}, args...)...)
	cmd.Env = append(os.Environ(), "PASSPHRASE=sesame")
	var talk strings.Builder
	cmd.Stderr = &talk
	text, _ := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		t.Errorf("%v: exit %d, want %d: %s%s", args, cmd.ProcessState.ExitCode(), code, text, talk.String())
	}
	return string(text) + talk.String(), loadResult(t, text)
}

// loadResult reads the data of a load, if it is that.
func loadResult(t *testing.T, text []byte) *load.Result {
	t.Helper()
	return resultOf(t, text, load.Kind, func(x *load.Result) string { return x.Text })
}

// resultOf reads the data of a kind of measurement, if it is that, and looks whether the
// record says of it what its body does.
func resultOf[T any](t *testing.T, text []byte, kind string, verdict func(*T) string) *T {
	t.Helper()
	if !bytes.HasPrefix(text, []byte("{")) {
		return nil
	}
	if err := validate(text); err != nil {
		t.Error(err)
	}
	run, x := &evidence.Run{}, new(T)
	if err := json.Unmarshal(text, run); err != nil {
		t.Fatal(err)
	}
	bodyValid(t, run)
	if err := json.Unmarshal(run.Body, x); err != nil {
		t.Fatal(err)
	}
	if run.Kind != kind || run.Verdict != verdict(x) {
		t.Errorf("kind %s, verdict %q, in the body %q", run.Kind, run.Verdict, verdict(x))
	}
	if _, err := evidence.SeriesOf(run); err != nil {
		t.Error(err)
	}
	if _, err := evidence.CurvesOf(run); err != nil {
		t.Error(err)
	}
	return x
}

const nginxConf = `
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
  access_log %[1]s/access.log;
  keepalive_requests 10;
  server {
    listen 127.0.0.1:18080;
    location = /ok { return 200 "hello\n"; }
    location = /gone { return 404; }
    location = /moved { return 301 http://127.0.0.1:18080/ok; }
    location = /nothing { return 204; }
    location / { root %[1]s/www; }
  }
  server {
    listen 127.0.0.1:18443 ssl http2;
    ssl_certificate %[2]s; ssl_certificate_key %[3]s;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_client_certificate %[4]s; ssl_verify_client on;
    location / { return 200 "$ssl_client_s_dn $http_x_token\n"; }
  }
}
`

// TestLoadHTTP: Debian's nginx is loaded over HTTP/1.1, HTTP/2 and TLS with a client
// certificate, and its own log has as many requests as were counted.
func TestLoadHTTP(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	ca, cert, key := certificate(t)
	www := filepath.Join(dir, "www")
	if err := os.Mkdir(www, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("www/big", strings.Repeat("x", 1<<20))
	conf := write("nginx.conf", fmt.Sprintf(nginxConf, dir, cert, key, ca))
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/sbin/nginx", "-c", conf).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("/usr/sbin/nginx", "-c", conf, "-s", "stop").Run() })
	const base = "http://127.0.0.1:18080"
	logged := func(path string) int {
		text, err := os.ReadFile(filepath.Join(dir, "access.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), " "+path+" HTTP/")
	}

	t.Run("rate", func(t *testing.T) {
		out, x := loadHTTP(t, state, 0, "--rate", "100/s", "--for", "2s", "--expect", "errors < 1%", base+"/ok", "-o", "json")
		// nginx closes a connection after ten requests, and says so in its answer.
		if x == nil || x.Whole.Starts != 200 || x.Whole.Statuses["200"] != 200 || x.Whole.Errors != 0 || x.Generator.Opened < 20 || len(x.Gates) != 1 || !x.Gates[0].Met {
			t.Errorf("%s", out)
		}
		if !testkitroot.Eventually(time.Minute, func() bool { return logged("/ok") == 200 }) {
			t.Errorf("nginx has seen %d requests", logged("/ok"))
		}
	})
	t.Run("list", func(t *testing.T) {
		list := write("list", "# what is asked\n6 GET "+base+"/big\n2 HEAD "+base+"/big\n1 GET "+base+"/nothing\n1 GET "+base+"/moved\n")
		_, x := loadHTTP(t, state, 0, "--connections", "3", "--for", "2s", "--urls", list, "-o", "json")
		if x == nil {
			return
		}
		// The answer to HEAD has the length of the body and none of it.
		big, heads := x.Requests[0], x.Requests[1]
		if x.Whole.Errors != 0 || big.Starts == 0 || big.BytesIn < big.Starts<<20 || heads.Starts > 0 && heads.BytesIn > 1000*heads.Starts || x.Whole.Statuses["204"] != x.Requests[2].Starts || x.Whole.Statuses["301"] != x.Requests[3].Starts {
			t.Errorf("%+v %+v", x.Whole, x.Requests)
		}
		// nginx writes the line of a request when its answer has been sent.
		if !testkitroot.Eventually(time.Minute, func() bool { return int64(logged("/big")) == big.Starts+heads.Starts }) {
			t.Errorf("nginx has seen %d requests, sent were %d and %d", logged("/big"), big.Starts, heads.Starts)
		}
	})
	t.Run("gates", func(t *testing.T) {
		if out, _ := loadHTTP(t, state, 3, "--connections", "1", "--for", "1s", "--expect", "max < 1us", base+"/ok"); !strings.Contains(out, "threshold max < 1us not met: ") || !strings.Contains(out, "not met") {
			t.Error(out)
		}
		if out, _ := loadHTTP(t, state, 3, "--connections", "1", "--for", "1s", "--expect", "p99.9999 < 1h", base+"/ok"); !strings.Contains(out, "answers: 3,000,000 are needed") {
			t.Error(out)
		}
		if out, _ := loadHTTP(t, state, 1, "--rate", "20/s", "--for", "1s", base+"/gone"); !strings.Contains(out, "no request succeeded: status 404 20 times") {
			t.Error(out)
		}
		if out, _ := loadHTTP(t, state, 0, "--rate", "20/s", "--for", "1s", "--ok-status", "404", base+"/gone"); !strings.Contains(out, "20/s") {
			t.Error(out)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		container := filepath.Join(dir, "member.p12")
		if out, err := exec.Command("openssl", "pkcs12", "-export", "-in", cert, "-inkey", key, "-certfile", ca, "-out", container, "-passout", "pass:sesame").CombinedOutput(); err != nil {
			testkitroot.Missing(t, "openssl: %v: %s", err, out)
		}
		pem := []string{"--cert", cert, "--key", key, "--cacert", ca}
		for name, args := range map[string][]string{
			"PEM":     pem,
			"PKCS#12": {"--pkcs12", container, "--pass-env", "PASSPHRASE"},
			"HTTP/2":  append([]string{"--http2", "--streams", "4"}, pem...),
			"other":   append([]string{"--connect-to", "127.0.0.1:18443"}, pem...),
		} {
			url := "https://127.0.0.1:18443/"
			_, x := loadHTTP(t, state, 0, append(args, "--rate", "50/s", "--for", "1s", "--header", "X-Token: sesame", url, "-o", "json")...)
			if x == nil || x.Whole.Statuses["200"] != 50 || !x.Servers[0].ClientCertificate || x.Servers[0].TLS != "TLS 1.3" {
				t.Errorf("%s: %+v", name, x)
			}
		}
		for how, resumed := range map[string]bool{"on": true, "off": false} {
			_, x := loadHTTP(t, state, 0, append(pem, "--rate", "20/s", "--max-connections", "1", "--for", "1s", "--close", "--tls-resume", how, "https://127.0.0.1:18443/", "-o", "json")...)
			if x == nil || x.TLS.Handshakes < 20 || resumed != (x.TLS.Resumed >= x.TLS.Handshakes/2) || !resumed && x.TLS.Resumed > 0 {
				t.Errorf("--tls-resume %s: %+v", how, x)
			}
		}
		for want, args := range map[string][]string{"status 400 10 times": {"--cacert", ca}, "unknown authority": {}} {
			if out, _ := loadHTTP(t, state, 1, append(args, "--rate", "10/s", "--for", "1s", "https://127.0.0.1:18443/")...); !strings.Contains(out, want) {
				t.Errorf("%q is not in %s", want, out)
			}
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		cmd := fettleCommand(t, "--state-dir", state, "load", "http", "--rate", "50/s", "--for", "1h", "-o", "json", base+"/ok?cut")
		var text, talk strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &talk
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "two hundred requests", func() bool { return logged("/ok?cut") > 200 })
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
		if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(talk.String(), "interrupted: the connections are closed; the measurements so far are stored as run ") {
			t.Errorf("exit %d: %s", code, talk.String())
		}
		if x := loadResult(t, []byte(text.String())); x == nil || x.Cut == nil || x.Whole.Statuses["200"] < 90 {
			t.Errorf("%s", text.String())
		}
	})
	t.Run("records", func(t *testing.T) {
		out, err := fettleCommand(t, "--state-dir", state, "runs", "list", "-o", "json").Output()
		var list RunList
		if err != nil || json.Unmarshal(out, &list) != nil || len(list.Runs) < 10 {
			t.Fatalf("%v: %s", err, out)
		}
		private, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(private), "\n")
		files, err := filepath.Glob(filepath.Join(state, "runs", "*"))
		if err != nil || len(files) != len(list.Runs) {
			t.Fatalf("%v: %q", err, files)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "sesame") || strings.Contains(string(text), lines[1]) {
				t.Errorf("%s: a secret is in the evidence: %s", name, text)
			}
		}
		show := func(args ...string) string {
			text, err := fettleCommand(t, append([]string{"--state-dir", state}, args...)...).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v: %s", args, err, text)
			}
			return string(text)
		}
		first := list.Runs[0]
		if text := show("runs", "show", first.ID); !strings.Contains(text, first.Verdict+"\n") || !strings.Contains(text, "errors < 1%") {
			t.Error(text)
		}
		if text := show("runs", "compare", first.ID, list.Runs[1].ID); !strings.Contains(text, "http:p50") {
			t.Error(text)
		}
		if text := show("runs", "show", first.ID, "--output", "html"); !strings.Contains(string(text), "latency by percentile") && !strings.Contains(string(text), "latency over time") {
			t.Error("the page has no curve")
		}
	})
}

// TestLoadApache: Debian's Apache, which sends what a program makes in chunks, and closes
// connections when it likes.
func TestLoadApache(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"page": strings.Repeat("a line of the page\n", 5000),
		"apache.conf": `ServerRoot /usr/lib/apache2
ServerName localhost
Listen 127.0.0.1:18081
PidFile ` + dir + `/pid
ErrorLog ` + dir + `/error.log
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule deflate_module modules/mod_deflate.so
LoadModule filter_module modules/mod_filter.so
LoadModule mime_module modules/mod_mime.so
TypesConfig /etc/mime.types
KeepAlive On
MaxKeepAliveRequests 7
DocumentRoot ` + dir + `
SetOutputFilter DEFLATE
<Directory />
Require all granted
</Directory>
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/usr/sbin/apache2", "-f", filepath.Join(dir, "apache.conf"), "-DFOREGROUND")
	var talk strings.Builder
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if !testkitroot.Eventually(time.Minute, func() bool {
		return exec.Command("curl", "-sf", "-o", "/dev/null", "http://127.0.0.1:18081/page").Run() == nil
	}) {
		t.Fatalf("Apache does not serve: %s", talk.String())
	}
	state := filepath.Join(t.TempDir(), "state")
	// What is compressed while it is sent has no length: it comes in chunks.
	for name, args := range map[string][]string{"chunks": {"--header", "Accept-Encoding: gzip"}, "length": {}, "close": {"--close"}} {
		_, x := loadHTTP(t, state, 0, append(args, "--rate", "50/s", "--for", "2s", "http://127.0.0.1:18081/page", "-o", "json")...)
		if x == nil || x.Whole.Statuses["200"] != 100 || x.Whole.Errors != 0 {
			t.Errorf("%s: %+v", name, x)
			continue
		}
		if whole := x.Whole.BytesIn >= 100*95_000; whole == (name == "chunks") || x.Generator.Opened < 12 { // eight requests each
			t.Errorf("%s: %d bytes over %d connections", name, x.Whole.BytesIn, x.Generator.Opened)
		}
	}
}
