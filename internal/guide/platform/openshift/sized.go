package openshift

import (
	"fmt"
	"strconv"

	"fettle.dev/fettle/internal/fact"
)

// sized has the nodes and pods that a document was sized for.
type sized struct{ nodes, pods fact.Answer }

// sizedFor reads a number that fettle size writes into the monitoring configuration. Before the
// cluster runs, no other document has it.
func (d document) sizedFor(what string) fact.Answer {
	n := d.get("metadata", "annotations", "fettle.dev/"+what)
	if n == nil {
		return fact.Answer{}
	}
	v, err := strconv.ParseUint(n.Value, 10, 32)
	if err != nil {
		return fact.Answer{Unknown: fmt.Sprintf("%s: %q is not a number of %s", d.at(n), n.Value, what), At: d.at(n)}
	}
	return fact.Answer{Value: float64(v), At: d.at(n)}
}

// finishMonitoring answers with the nodes and pods that Prometheus monitors. Lists of running
// objects take precedence over the numbers that the volumes were sized for. Before the
// installation the larger number counts, because install-config.yaml has only the first machines.
func (t *collector) finishMonitoring() {
	nodes := t.sized.nodes
	running := t.census.role["control-plane"] > 0
	workers, known := t.known.Given("openshift.workers")
	if count, ok := workers.Value.(float64); ok {
		masters, ok := t.given("control_plane").Value.(float64)
		if !ok {
			masters = 3
		}
		sized, ok := nodes.Value.(float64)
		if nodes.Unknown == "" && (running || !ok || count+masters > sized) {
			nodes = fact.Answer{Value: count + masters, At: workers.At}
		}
	} else if known && nodes == (fact.Answer{}) {
		nodes = workers
	}
	t.answer("monitoring.nodes", nodes)
	if all, ok := t.known.Given("openshift.objects.pods.count"); ok {
		t.answer("monitoring.pods", all)
		return
	}
	t.answer("monitoring.pods", t.sized.pods)
}
