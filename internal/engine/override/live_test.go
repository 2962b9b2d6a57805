package override

import (
	"testing"

	"fettle.dev/fettle/internal/host"
)

// This machine's own files must be understood, whatever they are.
func TestReadLive(t *testing.T) {
	c, problems := read(t, host.Live())
	for _, p := range problems {
		t.Logf("problem: %s", p)
	}
	if u := c.Unknown(); len(u) > 0 {
		t.Errorf("unknown on a live machine: %v", u)
	}
	n := 0
	for s := range c.direct {
		for _, cl := range c.For(s) {
			n++
			if testing.Verbose() {
				t.Logf("%s: %s: %s", s, cl.Source, brief(cl))
			}
			if cl.File == "" || cl.When == "" || cl.Source == "" {
				t.Errorf("%s: incomplete claim %+v", s, cl)
			}
		}
	}
	t.Logf("%d claims", n)
}
