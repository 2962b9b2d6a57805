package cluster

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLoadManyKilled: a run of 20,000 objects is killed at random moments, and so are its
// resumes and its undo: resume makes exactly what is missing, and undo leaves nothing.
func TestLoadManyKilled(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	m := newMany(t, c)
	const count = 20_000
	file := m.file("killed", count)
	before := c.world(ctx)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	after := func() time.Duration { return 2*time.Second + time.Duration(random.Int64N(int64(8*time.Second))) }

	args := []string{"run", "--beyond-maximums", file}
	for kills := 0; kills < 3; {
		if !m.kill(after(), args...) {
			break // it was faster
		}
		kills++
		t.Logf("%s: killed with %d objects there", args[0], len(c.world(ctx))-len(before))
		if m.runs() > 0 { // it has its journal
			args = []string{"resume"}
		}
	}
	half := c.world(ctx)
	x, _ := m.run(0, args...)
	whole := c.world(ctx)
	again := 0
	for name, uid := range half {
		if whole[name] != uid {
			again++
		}
	}
	t.Logf("resumed: %d were made before, %d now, of which %d had been made by a request whose answer was lost", x.before, x.created, x.adopted)
	if n := len(whole) - len(before); again > 0 || n != count+1 || x.planned != count+1 || x.before+x.created != count+1 || x.unmakeable != 0 {
		t.Errorf("%d objects more than before, %d made again; %+v", n, again, x)
	}
	for range 2 {
		if !m.kill(after(), "undo") {
			break
		}
		t.Logf("undo: killed with %d objects there", len(c.world(ctx))-len(before))
	}
	m.run(0, "undo")
	if err := same(before, c.world(ctx)); err != nil {
		t.Errorf("after the undo:\n%v", err)
	}
}
