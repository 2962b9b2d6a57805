package etcd

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/stats"
	testkitproduct "fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

const debianMain = "/etc/default/etcd"

// serve starts the member as its unit does.
func serve(t *testing.T, main string) {
	t.Helper()
	h := host.Live()
	s, err := start(h, main, product.Process{})
	if err == nil {
		err = product.Run(t.Context(), h, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	testkitproduct.Eventually(t, "etcd is healthy", func() bool {
		return ready(t.Context(), h, main) == nil
	})
}

// end stops it.
func end(t *testing.T, main string) {
	h := host.Live()
	in, err := of(h, main)
	if err != nil {
		t.Fatal(err)
	}
	p, err := product.OfService(t.Context(), h, "etcd", in.unit.Name)
	if err != nil {
		return
	}
	testkitproduct.Command(t, "kill", fmt.Sprint(p.PID))
	testkitproduct.Eventually(t, "etcd has ended", func() bool {
		_, err := product.OfService(t.Context(), h, "etcd", in.unit.Name)
		return err != nil
	})
}

// put writes a key through the gateway.
func put(t *testing.T, key, value string) {
	t.Helper()
	code := base64.StdEncoding.EncodeToString
	body := fmt.Sprintf(`{"key": %q, "value": %q}`, code([]byte(key)), code([]byte(value)))
	res, err := http.Post("http://127.0.0.1:2379/v3/kv/put", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
}

func keeps(t *testing.T) {
	t.Helper()
	if got := testkitproduct.Command(t, "etcdctl", "get", "kept", "--print-value-only"); got != "yes" {
		t.Errorf("data is lost: %q", got)
	}
}

// Debian's etcd: what is read is what it says, values are taken by a restart and
// given back, and one with which it does not start is rolled back.
func TestServer(t *testing.T) {
	if root.Inside(t, root.Options{Servers: true}) {
		server(t)
	}
}

// The same with real servers of later releases.
func TestServer35(t *testing.T) { serverOf(t, "3.5") }
func TestServer36(t *testing.T) { serverOf(t, "3.6") }
func TestServer37(t *testing.T) { serverOf(t, "3.7") }

func serverOf(t *testing.T, release string) {
	if root.Inside(t, root.Etcd(t, release)) {
		server(t)
		noQuota(t)
		pair(t)
	}
}

// noQuota: a member whose quota is -1 reports it, and one whose flag and variable are one
// option does not start, as E15 says.
func noQuota(t *testing.T) {
	end(t, debianMain)
	const dropIn = "/etc/systemd/system/etcd.service.d/quota.conf"
	testkitproduct.Command(t, "mkdir", "-p", path.Dir(dropIn))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(dropIn, []byte("[Service]\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("Environment=ETCD_QUOTA_BACKEND_BYTES=-1 ETCD_EXPERIMENTAL_MEMORY_MLOCK=false\n")
	serve(t, debianMain)
	i := testkitproduct.New(t, Product).Installed()
	if a := i.Answer("quota_bytes"); a.Value != -1.0 || a.At != "/metrics of etcd" {
		t.Errorf("its quota is %+v", a)
	}
	r, ok := parseRelease(i.Answer("version").Value.(string))
	ignored, _ := i.Answer("ignored_options").Value.([]string)
	if gone := r >= 7; !ok || len(ignored) > 0 != gone || len(i.Answer("refused_options").Value.([]string)) > 0 {
		t.Errorf("%v: %v", r, ignored)
	}
	end(t, debianMain)
	write("Environment=ETCD_SNAPSHOT_COUNT=\nExecStart=\nExecStart=/usr/bin/etcd --snapshot-count=5000\n")
	h := host.Live()
	s, err := start(h, debianMain, product.Process{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Env = s.Env
	out, err := cmd.CombinedOutput()
	refused, _ := testkitproduct.New(t, Product).Installed().Answer("refused_options").Value.([]string)
	if err == nil || !strings.Contains(string(out), "conflicting environment variable") || len(refused) != 1 {
		t.Errorf("%v, %v: %s", refused, err, out)
	}
	testkitproduct.Command(t, "rm", dropIn)
	serve(t, debianMain)
}

// pair: of two members each reports its round trips to the other.
func pair(t *testing.T) {
	const all = "a=http://127.0.0.1:3380,b=http://127.0.0.1:4380"
	for name, port := range map[string]string{"a": "3", "b": "4"} {
		client, peer := "http://127.0.0.1:"+port+"379", "http://127.0.0.1:"+port+"380"
		cmd := exec.CommandContext(t.Context(), "/usr/bin/etcd", "--name", name, "--data-dir", t.TempDir(), "--initial-cluster", all,
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	testkitproduct.Eventually(t, "a round trip is reported", func() bool {
		res, err := http.Get("http://127.0.0.1:3379/metrics")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		p := percentileOf(round, prometheus.ParseMetrics(string(text)).Histograms["etcd_network_peer_round_trip_time_seconds"])
		return err == nil && p.N > 0 && p.Unknown == ""
	})
}

// server is what holds for each release.
func server(t *testing.T) {
	t.Setenv("ETCDCTL_API", "3")
	serve(t, debianMain)
	t.Cleanup(func() { end(t, debianMain) })
	before := testkitproduct.Read(t, debianMain)
	b := testkitproduct.New(t, Product)
	put(t, "kept", "yes")
	for n := range stats.MinForP99 + 100 {
		put(t, fmt.Sprint("n", n), strings.Repeat("x", 1000))
	}
	asked(t, b)

	b.Set([]string{"restart of etcd " + debianMain}, "heartbeat-interval", "150", "quota-backend-bytes", "4294967296")
	b.Running("heartbeat-interval", "150")
	b.Running("quota-backend-bytes", "4294967296")
	if got := b.Installed().Answer("quota_bytes").Value; got != float64(4<<30) {
		t.Errorf("its quota is %v", got)
	}
	if got := b.Installed().Option("heartbeat-interval").Running.Source(); !strings.HasPrefix(got, debianMain+":") {
		t.Errorf("it comes from %s", got)
	}
	keeps(t)
	b.Undo()
	testkitproduct.Same(t, debianMain, before)
	b.Running("heartbeat-interval", "100")
	if got := b.Installed().Answer("quota_bytes").Value; got != float64(2<<30) {
		t.Errorf("after undo its quota is %v", got)
	}

	t.Run("refused", func(t *testing.T) {
		b := *b
		b.TB = t
		// With it, it does not start: five heartbeats have to fit into a timeout.
		b.Refused("has ended again", "heartbeat-interval", "500")
		b.Refused("at its quota the cluster rejects writes", "quota-backend-bytes", "4096")
		b.Refused("not a tuning option", "data-dir", "/tmp")
		b.Refused("whole number", "snapshot-count", "many")
		testkitproduct.Same(t, debianMain, before)
		b.Running("heartbeat-interval", "100")
		keeps(t)
	})
	t.Run("configuration file", func(t *testing.T) {
		const file = "/etc/etcd/etcd.conf.yml"
		end(t, debianMain)
		config := "# a comment\nname: default\ndata-dir: /var/lib/etcd/default\nsnapshot-count: 10000 # fewer\nauto-compaction-retention: \"1\"\n"
		for name, text := range map[string]string{file: config, "/etc/systemd/system/etcd.service.d/file.conf": "[Service]\nExecStart=\nExecStart=/usr/bin/etcd --config-file " + file + " --snapshot-count 5\n"} {
			if err := os.MkdirAll(name[:strings.LastIndexByte(name, '/')], 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// It is told by times that the file was read, and a start is known to a
		// hundredth of a second.
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		serve(t, file)
		t.Cleanup(func() {
			end(t, file)
			testkitproduct.Command(t, "rm", "-r", "/etc/systemd/system/etcd.service.d")
		})
		b := testkitproduct.New(t, Product)
		b.Running("snapshot-count", "10000") // not the flag's
		if got := b.Installed().Answer("compacts").Value; got != true {
			t.Errorf("it compacts: %v", got)
		}
		b.Set([]string{"restart of etcd " + file}, "snapshot-count", "20000", "heartbeat-interval", "150")
		b.Running("snapshot-count", "20000")
		b.Running("heartbeat-interval", "150")
		b.Undo()
		testkitproduct.Same(t, file, config)
		b.Running("snapshot-count", "10000")
		b.Running("heartbeat-interval", "100")
		keeps(t)
	})
}

// asked holds what is read against what etcd says.
func asked(t *testing.T, b *testkitproduct.Bench) {
	i := b.Installed()
	res, err := http.Get("http://127.0.0.1:2379/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(kept, slices.Collect(maps.Keys(histograms))) {
		// The first is of 3.3, the second of members that have others (TestServer37).
		if !strings.Contains(string(text), "# TYPE "+name+" ") && name != "etcd_debugging_mvcc_db_total_size_in_bytes" && name != "etcd_network_peer_round_trip_time_seconds" {
			t.Errorf("%s is not among the metrics", name)
		}
	}
	for _, in := range inputs {
		name := strings.TrimPrefix(in.Name, "etcd.")
		ofCluster := slices.Contains([]string{"installed_version", "least_version", "skipped_releases"}, name)
		if a := i.Answer(name); a.Value == nil && !ofCluster && !strings.HasPrefix(name, "peer") && !strings.HasPrefix(name, "commit") {
			t.Errorf("%s: %+v", in.Name, a)
		}
	}
	for name, want := range map[string]any{"pod": false, "compacts": false, "members": 1.0, "healthy": true, "has_leader": true, "leader_changes": 0.0, "quota_bytes": float64(2 << 30)} {
		if a := i.Answer(name); a.Value != want {
			t.Errorf("%s: %+v, want %v", name, a, want)
		}
	}
	if a := i.Answer("peer"); a.Value != nil || a.Unknown != "" {
		t.Errorf("one member has round trips: %+v", a)
	}
	if low, high := i.Answer("fsync_above_s").Value.(float64), i.Answer("fsync_at_most_s").Value.(float64); low < 0 || high <= low || high > 10 {
		t.Errorf("fsync: %v to %v s, %v", low, high, i.Answer("fsync").Value)
	}
	if v := i.Answer("version").Value; !strings.Contains(testkitproduct.Command(t, "etcd", "--version"), fmt.Sprintf("etcd Version: %v\n", v)) {
		t.Errorf("version %v", v)
	}
	testkitproduct.Eventually(t, "both say the same size", func() bool {
		status := testkitproduct.Command(t, "etcdctl", "endpoint", "status", "-w", "json")
		return strings.Contains(status, fmt.Sprintf(`"dbSize":%.0f`, b.Installed().Answer("db_bytes").Value))
	})
	if got := i.Answer("pending_changes").Value.([]string); len(got) > 0 {
		t.Errorf("pending: %v", got)
	}
	archive := b.Archived()
	if v, ok := archive.Option("heartbeat-interval").Running.Get(); !ok || v != "100" {
		t.Errorf("the archive says %q, %s", v, archive.Option("heartbeat-interval").Running.Unknown())
	}
	if v := archive.Answer("quota_bytes").Value; v != float64(2<<30) {
		t.Errorf("the archive says %v", v)
	}
}
