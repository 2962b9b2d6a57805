package cluster

import (
	"slices"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMachineHealthMany: 500 machines, of which 2 % may be unhealthy: what the operator
// takes, at work and at rest.
func TestMachineHealthMany(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./cmd/kubectl-fettle"}}) {
		return
	}
	b := newHealthBench(t, Options{})
	p := b.start("--lease=60s") // the machine has much to do
	const machines = 500
	began := time.Now()
	b.makeSet("large", machines, nil)
	b.t.Logf("%d simulated machines have joined after %.1f s", machines, time.Since(began).Seconds())
	old := b.ill("large", 10, time.Hour)
	f := b.follow()
	began = time.Now()
	b.check("large", "large", "2%")
	b.renewed("large", machines, old, 3*time.Minute)
	f.stop()
	slices.Sort(f.deleted)
	if f.most != 1 || !slices.Equal(f.deleted, old) {
		b.t.Errorf("%d at once; deleted %v, want %v", f.most, f.deleted, old)
	}
	b.t.Logf("10 of %d machines made anew, one at a time, after %.1f s", machines, time.Since(began).Seconds())
	b.operator.memory(p, "after ten machines of 500", operatorRSSWorking)
	b.dropCheck("large")
	b.ill("large", 11, time.Hour)
	b.check("large", "large", "2%")
	b.says("large", "RemediationAllowed", "False", "TooManyUnhealthy", "2 % of 500 machines is 10; 11 are unhealthy: nothing is remediated", time.Minute)

	// OpenShift's controller looks again every millisecond then.
	const pause = 20 * time.Second
	version := func() string {
		c, err := b.in("machinehealthchecks").Get(b.t.Context(), "large", meta.GetOptions{})
		b.c.must(err)
		return c.GetResourceVersion()
	}
	before, cpu := version(), cpuSeconds(b.t, p)
	time.Sleep(pause)
	used := 100 * (cpuSeconds(b.t, p) - cpu) / pause.Seconds()
	b.t.Logf("a closed check of %d machines: the operator uses %.1f %% of a CPU", machines, used)
	if version() != before || used > 50 {
		b.t.Errorf("at rest its status was written, or too much was done: %.1f %% of a CPU", used)
	}
	b.operator.memory(p, "with 500 machines at rest", operatorRSSWorking)
	b.c.must(p.Stop())
}
