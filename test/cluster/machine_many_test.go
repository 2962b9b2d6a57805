package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMachineHealthMany: 500 machines and their nodes, each of which tells of fifty
// images as a kubelet does; 2 % of them may be unhealthy. What the operator takes, at work
// and at rest: machine health, Profiles and all else together.
func TestMachineHealthMany(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b := newHealthBench(t, Options{})
	p := b.start("--lease=60s") // the machine has much to do
	const machines = 500
	began := time.Now()
	b.makeSet("large", machines, nil)
	b.t.Logf("%d simulated machines have joined after %.1f s", machines, time.Since(began).Seconds())
	var nodes []string
	for _, m := range b.machines("large") {
		nodes = append(nodes, m.GetName())
	}
	b.c.must(b.c.tellImages(nodes))
	old := b.ill("large", 10, time.Hour)
	f := b.follow()
	began = time.Now()
	b.check("large", "large", "2%")
	b.renewed("large", machines, old, 10*time.Minute)
	f.stop()
	slices.Sort(f.deleted)
	if f.most != 1 || !slices.Equal(f.deleted, old) {
		b.t.Errorf("%d at once; deleted %v, want %v", f.most, f.deleted, old)
	}
	b.t.Logf("10 of %d machines made anew, one at a time, after %.1f s", machines, time.Since(began).Seconds())
	b.operator.memory(p, "after ten machines of 500", operatorMemoryWorking)
	b.counted("fettle_operator_remediations_started_total", 10)
	b.counted("fettle_operator_remediations_finished_total", 10)
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
	b.counted(`fettle_operator_machines{check="openshift-machine-api/large",state="healthy"}`, machines-11)
	b.counted(`fettle_operator_machine_check_short_circuited{check="openshift-machine-api/large"}`, 1)
	b.operator.comesToRest(p, machines)
	b.c.must(p.Stop())
}

// counted waits until a metric of the operator has a value.
func (b *healthBench) counted(name string, want float64) {
	b.t.Helper()
	b.c.Wait(name, 30*time.Second, func(context.Context) error {
		if v, err := b.operator.metric(name); err != nil || v != want {
			return fmt.Errorf("it is %v, want %v: %w", v, want, errors.Join(err, errors.New("not yet")))
		}
		return nil
	})
}

// comesToRest: an operator that has nothing to do gives back what it does not need. It
// does so not more often than every two minutes where it has done little.
func (b *operatorBench) comesToRest(p *Program, machines int) {
	b.t.Helper()
	began := time.Now()
	for rss(b.t, p)["RssAnon:"] > operatorMemoryAtRest && time.Since(began) < 3*time.Minute {
		time.Sleep(time.Second)
	}
	b.t.Logf("the operator is at rest after %.0f s more", time.Since(began).Seconds())
	b.memory(p, fmt.Sprintf("at rest with %d nodes and as many machines", machines), operatorMemoryAtRest)
	// And stays so: what a node tells of itself is no work.
	time.Sleep(20 * time.Second)
	b.memory(p, "20 s later", operatorMemoryAtRest)
}
