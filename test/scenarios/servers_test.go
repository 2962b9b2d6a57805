// Package scenarios holds no code: its tests run the shipped scenarios (folder scenarios at
// the root of the repository) against real servers and against stand-ins for what cannot be
// installed here.
package scenarios

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// Addresses of the servers inside their root, which has a network of its own.
const (
	foremanURL = "http://127.0.0.1:3000" // Puma
	capsuleURL = "http://127.0.0.1:8080" // httpd in front of it
	contentURL = "http://127.0.0.1:8081" // httpd with the repository
	brokerURL  = "mqtt://127.0.0.1:1883"
	apps       = "/srv/scenarios" // files of this directory
)

// inside runs the calling test in a root with the servers and fettle, and reports whether it
// is in there. more adds to the options, and is called outside only.
func inside(t *testing.T, more func(*root.Options)) bool {
	t.Helper()
	o := root.Options{Servers: true}
	if !root.IsInside(t) {
		root.Real(t, "runs servers")
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		o.Binds = []root.Bind{
			{Source: here, Target: apps, ReadOnly: true},
			{Source: root.Program(t, "./cmd/fettle"), Target: "/usr/local/bin/fettle", ReadOnly: true},
		}
		if more != nil {
			more(&o)
		}
	}
	return root.Inside(t, o)
}

// built returns the directory that the script build prints.
func built(t *testing.T, args ...string) string {
	t.Helper()
	root.Servers(t)
	cmd := exec.Command("./build", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		root.Missing(t, "test/scenarios/build %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// start runs a server until the test ends, and shows what it printed if the test failed.
func start(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", argv[0], text[max(0, len(text)-4000):])
		}
	})
	return cmd
}

// listens waits until a port of this machine accepts connections.
func listens(t *testing.T, port string) {
	t.Helper()
	product.Eventually(t, "something listens on port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// puma is how Puma runs an application.
type puma struct{ workers, least, most int }

// database starts PostgreSQL with the schema of the stand-in for Foreman.
func database(t *testing.T) {
	t.Helper()
	product.Database(t, 200)
	product.SQL(t, "postgres", `CREATE DATABASE foreman OWNER "www-data"`)
	product.Command(t, "runuser", "-u", "www-data", "--", "psql", "-Xqf", apps+"/foreman.sql", "foreman")
	product.SQL(t, "foreman", "INSERT INTO activation_keys VALUES ('load')")
}

// foreman starts the stand-in for Foreman on foremanURL; database comes first.
func foreman(t *testing.T, p puma) *exec.Cmd {
	t.Helper()
	// The workers of a Puma that was killed still answer for a moment.
	t.Cleanup(func() {
		product.Eventually(t, "nothing listens on port 3000", func() bool {
			c, err := net.Dial("tcp", "127.0.0.1:3000")
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	})
	config := filepath.Join(t.TempDir(), "config/puma/production.rb")
	machine.Write(t, "/", map[string]string{config: product.ForemansConfig})
	product.Command(t, "sh", "-c", "chmod -R a+rX /tmp && install -d -o www-data "+filepath.Dir(config)+"/../../tmp")
	cmd := start(t, "setpriv", "--reuid=www-data", "--regid=www-data", "--init-groups", "--pdeathsig=KILL",
		"env", "MQTT=1883", "FOREMAN_BIND=tcp://127.0.0.1:3000",
		fmt.Sprint("FOREMAN_PUMA_WORKERS=", p.workers), fmt.Sprint("FOREMAN_PUMA_THREADS_MIN=", p.least), fmt.Sprint("FOREMAN_PUMA_THREADS_MAX=", p.most),
		"puma", "--config", config, "--environment", "production", "--quiet", apps+"/foreman.ru")
	product.Eventually(t, "the stand-in for Foreman answers", func() bool {
		status, _ := call(t, "GET", foremanURL+"/rhsm/status", "")
		return status == http.StatusOK
	})
	return cmd
}

// call sends a request as the administrator and returns status and body, 0 if nothing answered.
func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "changeme")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// httpd starts Debian's httpd (event, as packaged) with what follows its modules.
func httpd(t *testing.T, port, conf string) {
	t.Helper()
	dir := t.TempDir()
	product.Command(t, "sh", "-c", "chmod -R a+rX /tmp")
	text := "ServerRoot /usr/lib/apache2\nServerName localhost\nListen 127.0.0.1:" + port + "\nPidFile " + dir + "/pid\nErrorLog " + dir + "/error.log\n" +
		"User www-data\nGroup www-data\nMaxRequestWorkers 400\nThreadsPerChild 25\n" +
		"ServerLimit 16\nStartServers 16\n" // with few idle threads, httpd ends kept-alive connections early
	for _, m := range []string{"mpm_event", "authz_core", "headers", "mime", "proxy", "proxy_http"} {
		text += "LoadModule " + m + "_module modules/mod_" + m + ".so\n"
	}
	machine.Write(t, "/", map[string]string{dir + "/httpd.conf": text + "TypesConfig /etc/mime.types\n" + conf})
	start(t, "setpriv", "--pdeathsig=KILL", "/usr/sbin/apache2", "-f", dir+"/httpd.conf", "-DFOREGROUND")
	listens(t, port)
}

// capsule starts httpd as the reverse proxy of a Capsule on capsuleURL.
func capsule(t *testing.T) {
	t.Helper()
	httpd(t, "8080", "ProxyTimeout 600\nProxyPass / "+foremanURL+"/\nProxyPassReverse / "+foremanURL+"/\n")
}

// broker starts mosquitto on brokerURL.
func broker(t *testing.T) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	machine.Write(t, "/", map[string]string{conf: "user root\nlistener 1883 127.0.0.1\nallow_anonymous true\n"})
	start(t, "setpriv", "--pdeathsig=KILL", "mosquitto", "-c", conf)
	listens(t, "1883")
}

// memory returns the memory of a process and its children: what they use alone, and their
// share of the rest.
func memory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	for _, p := range append(strings.Fields(product.Command(t, "sh", "-c", fmt.Sprintf("pgrep -P %d || true", pid))), strconv.Itoa(pid)) {
		for line := range strings.Lines(product.Read(t, "/proc/"+p+"/smaps_rollup")) {
			if rest, is := strings.CutPrefix(line, "Pss:"); is {
				kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				bytes += kib << 10
			}
		}
	}
	return bytes
}
