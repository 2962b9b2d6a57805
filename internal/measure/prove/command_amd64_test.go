package prove

import (
	"runtime"
	"testing"
)

// TestCommandMemory tests that max-memory is the memory of the work, however much fettle uses, and
// that of the largest process for which the work has waited.
func TestCommandMemory(t *testing.T) {
	ballast := make([]byte, 96<<20) // what fettle itself has
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	defer runtime.KeepAlive(ballast)
	for name, x := range map[string]struct {
		args        []string
		least, most float64 // MiB
	}{
		"a shell":        {[]string{"/bin/sh", "-c", ":"}, 0.5, 5},
		"its child":      {[]string{"/bin/sh", "-c", "dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null; :"}, 40, 46},
		"its grandchild": {[]string{"/bin/sh", "-c", "(sh -c 'dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null; :'; :); :"}, 40, 46},
		"itself":         {[]string{"dd", "if=/dev/zero", "of=/dev/null", "bs=40M", "count=1"}, 40, 46},
	} {
		c := &Command{Args: x.args, Clock: wallClock{}, Memory: true, Mark: mark}
		for range 2 { // the starter is there already the second time
			m, err := c.Measure(t.Context(), Step{})
			if got := m.Values["max-memory"] / (1 << 20); err != nil || got < x.least || got > x.most {
				t.Errorf("%s: %.1f MiB, want %v to %v (%v)", name, got, x.least, x.most, err)
			}
		}
	}
	// Without a question there is no answer.
	if m, err := command(":").Measure(t.Context(), Step{}); err != nil || m.Values["max-memory"] != 0 {
		t.Error(m.Values, err)
	}
}
