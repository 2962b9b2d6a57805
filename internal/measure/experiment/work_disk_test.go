package experiment

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestDiskWork tests a cell as the work of an experiment.
func TestDiskWork(t *testing.T) {
	h := host.Live()
	fio := testkitroot.ServerProgram(t, "fio")
	dir := t.TempDir()
	of, err := newDiskWork(t.Context(), h, "randrw@"+dir, fio, "experiment-work-test")
	if err != nil {
		t.Fatal(err)
	}
	if s := of.place.Storage; s.Class == fact.ClassMemory {
		testkitroot.Missing(t, "%s is in memory", dir)
	}
	of.place.SizeBytes = 64 << 20
	w := of.work()
	defer w.close()
	if metric := w.metric; metric != (prove.Metric{Name: "randrw-qd32", Unit: "1/s", More: true}) {
		t.Errorf("%+v", metric)
	}
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := w.Measure(t.Context(), prove.Step{})
		if err != nil || got.Values["randrw-qd32"] < 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
	// The watchdog of an experiment finds what it has started.
	done := make(chan error, 1)
	go func() {
		for err == nil { // a sample may be over before it is ended
			_, err = w.Measure(context.WithoutCancel(t.Context()), prove.Step{})
		}
		done <- err
	}()
	if !testkitroot.Eventually(time.Minute, func() bool {
		if err := host.KillTagged("experiment-work-test"); err != nil {
			t.Error(err)
		}
		return len(done) > 0
	}) {
		t.Fatal("what it started goes on")
	}
	if err := <-done; !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	for name, says := range map[string]string{"nonsense": `unknown cell "nonsense"`, "randrw@/nonexistent": "no such file"} {
		if _, err := newDiskWork(t.Context(), h, name, fio, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
