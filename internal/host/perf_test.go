package host

import (
	"runtime"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// The scheduler's counter exists on every machine for root, and grows; hardware
// counters exist where supported.
func TestPerf(t *testing.T) {
	p, err := Live().OpenPerf()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	if _, counted := first["cpu_migrations"]; !counted {
		root.Missing(t, "a performance counter: this user may not count (kernel.perf_event_paranoid)")
	}
	grown := false
	for end := time.Now().Add(30 * time.Second); !grown && time.Now().Before(end); {
		done := make(chan bool)
		for range 4 * runtime.NumCPU() { // more threads than CPUs cause migrations
			go func() {
				for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
				}
				done <- true
			}()
		}
		for range 4 * runtime.NumCPU() {
			<-done
		}
		then, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range then {
			if v < first[name] {
				t.Errorf("%s went from %g to %g", name, first[name], v)
			}
		}
		grown = then["cpu_migrations"] > first["cpu_migrations"]
		t.Log(then)
	}
	if !grown && runtime.NumCPU() > 1 {
		t.Error("no task has moved to another CPU in half a minute")
	}
	// A copied machine has none.
	none, err := Mounted(t.TempDir()).OpenPerf()
	if err != nil || len(none.open) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
