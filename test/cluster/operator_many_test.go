package cluster

import (
	"fmt"
	"testing"
	"time"
)

// What the operator may have with manyOperatorNodes, in bytes: at rest little more than
// with operatorNodes, as it keeps of each node but a few words.
const (
	manyOperatorNodes = 2000
	manyRSSAtRest     = 80e6
	manyRSSWorking    = 200e6
)

// TestOperatorMany: the operator with 2,000 nodes of kwok: all labels changed, and each
// decision compared with the rules written out as code; one text changed; killed while
// labels change and nodes go; what kubectl fettle status says of all of them. Figures are
// printed.
func TestOperatorMany(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Within: time.Hour, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b, a, start := newOperatorBench(t, manyOperatorNodes, firstLabels)
	p := start("--lease=30s") // the machine has much to do
	a.apply("the test's objects", []byte(tunedObjects))
	b.settled(fmt.Sprint(manyOperatorNodes, " new nodes"), time.Now())
	b.memory(p, "after the start", manyRSSWorking)
	b.atRest(p, manyRSSAtRest)
	b.flip(p)
	b.oneRule()
	b.killed(p)
	b.status()
	b.memory(p, "at the end", manyRSSWorking)
	b.must(p.Stop())
}
