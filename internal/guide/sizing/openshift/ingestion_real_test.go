package openshift

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/testkit/root"
)

// The real Prometheus, which watches itself and a page with two nodes and three pods
// of a cluster.
func TestReal(t *testing.T) {
	root.Nightly(t, "starts a server")
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	cluster, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "kube_node_info{node=\"a\"} 1\nkube_node_info{node=\"b\"} 1\nkube_pod_info{pod=\"a\"} 1\nkube_pod_info{pod=\"b\"} 1\nkube_pod_info{pod=\"c\"} 1\n")
	})}
	go func() { _ = s.Serve(cluster) }()
	t.Cleanup(func() { s.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close() // no other client is in this network
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: prometheus\n  static_configs: [{targets: [%q]}]\n- job_name: cluster\n  static_configs: [{targets: [%q]}]\n", address, cluster.Addr())
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--storage.tsdb.retention.time=3d")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	o, err := prometheus.Open("http://"+address, "")
	if err != nil {
		t.Fatal(err)
	}
	var u *Usage
	if !root.Eventually(time.Minute, func() bool {
		u, err = Measure(t.Context(), o)
		return err == nil && u.Nodes == 2 && u.Pods == 3 && u.SamplesPerSecond > 50 && u.Resident > 0 && u.Series > 100
	}) {
		all, _ := os.ReadFile(log.Name())
		t.Fatalf("%+v, %v\n%s", u, err, all)
	}
	// A server that is seconds old takes in what it takes in, not the part of it that
	// ten minutes would have.
	var seen float64
	if !root.Eventually(time.Minute, func() bool {
		seen, _, err = o.Query(t.Context(), rate)
		return err == nil && seen > 50
	}) {
		t.Errorf("%g samples/s, %v", seen, err)
	}
	if u.Series > 1e5 || u.SamplesPerSecond > 1e5 || u.BytesPerSample != assumed || u.Retention != "3d" {
		t.Errorf("%+v", u)
	}
}
