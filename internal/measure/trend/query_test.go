package trend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestInvalidQuery: an invalid query is rejected before anything is asked.
func TestInvalidQuery(t *testing.T) {
	for words, want := range map[string]string{
		"prometheus:up":                    "want prometheus:URL:EXPR",
		"prometheus:http://127.0.0.1:1:up": "36,000 values, and Prometheus returns at most 11,000",
	} {
		q := Query{Over: 10 * time.Hour, Step: time.Second}
		if _, err := q.Samples(t.Context(), words, time.Now()); !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
}

// TestPrometheus: a step in the data of a real Prometheus is found where it is.
func TestPrometheus(t *testing.T) {
	root.Real(t, "starts Prometheus")
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	dir := t.TempDir()
	r, end := rand.New(rand.NewPCG(5, 5)), time.Now().Add(-6*time.Hour).Truncate(time.Hour)
	changed := end.Add(-20 * time.Hour)
	var b strings.Builder
	fmt.Fprint(&b, "# TYPE latency_seconds gauge\n")
	for at := end.Add(-60 * time.Hour); at.Before(end); at = at.Add(2 * time.Minute) {
		level := 0.1
		if at.After(changed) {
			level = 0.13
		}
		fmt.Fprintf(&b, "latency_seconds %.6f %d\n", level*(1+0.1*r.NormFloat64()), at.Unix())
	}
	fmt.Fprint(&b, "# EOF\n")
	for name, text := range map[string]string{"metrics": b.String(), "prometheus.yml": "global: {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "metrics"), filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close() // no other client is in this network
	c := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	q := Query{Over: 72 * time.Hour, Step: time.Hour, Unit: "s"}
	var samples []Sample
	if !root.Eventually(time.Minute, func() bool {
		samples, err = q.Samples(t.Context(), "prometheus:http://"+address+":avg_over_time(latency_seconds[$window])", time.Now())
		return err == nil
	}) {
		t.Fatal(err)
	}
	s := Analyze(samples, Options{Margin: 0.02}).Series[0]
	if len(s.Points) < 55 || s.Verdict != Worse || len(s.Changes) != 1 || s.Changes[0].Interval[0] > -0.3 || s.Changes[0].Interval[1] < -0.3 {
		t.Fatalf("%d points, %s, %+v", len(s.Points), s.Verdict, s.Changes)
	}
	// The first average in which all or part of the hour is after the change.
	if d := s.Changes[0].Time.Sub(changed); d < 0 || d > 2*time.Hour {
		t.Errorf("changed %v, found %v", changed, s.Changes[0].Time)
	}
	if _, err := q.Samples(t.Context(), "prometheus:http://"+address+":latency_seconds[", time.Now()); err == nil || !strings.Contains(err.Error(), "rejects the query") {
		t.Error(err)
	}
}
