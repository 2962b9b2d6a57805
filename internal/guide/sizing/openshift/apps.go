package openshift

import (
	"errors"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

type row = rule.Row

// holds reports whether a row covers that many workers and namespaces.
func holds(r row, workers, namespaces float64) bool {
	most, ok := r.Cells["workers"].(float64)
	in, limited := r.Cells["namespaces"].(float64)
	return ok && most >= workers && (!limited || in >= namespaces)
}

// inSection returns an edition's sources, with another section of the 4.4 guide.
func inSection(e *sizing.Edition, section string) []rule.Source {
	guide := rule.Cite("openshift-scalability", section)
	out := []rule.Source{guide}
	for _, s := range e.Sources {
		if s.Document != guide.Document {
			out = append(out, s)
		}
	}
	return out
}

// applications is the sum over the table of applications.
type applications struct {
	pods                   int
	cores, memory, storage float64 // memory and storage in bytes
	// Amounts that may be overcommitted:
	softCores, softMemory float64
	// Amounts of the largest pod:
	mostCores, mostMemory float64
	largestByCores        string
	largestByMemory       string
}

// readApps reads the table of applications and adds up their requests.
func (p *plan) readApps() error {
	if p.w.Apps == "" {
		if p.w.given("apps") {
			return sizing.Bad("apps", "the file is empty")
		}
		return nil
	}
	list, err := parseApps(p.w.Apps)
	a := &applications{}
	for _, app := range list {
		err = errors.Join(err, a.add(app))
		if err != nil {
			break
		}
	}
	if err != nil {
		at := "line "
		if file := p.w.input("apps").Path(); file != "" {
			at = file + ":"
		}
		line := &lineError{}
		errors.As(err, &line)
		return sizing.Bad("apps", "%s%d: %w", at, line.line, err)
	}
	p.apps = a
	if p.pods == 0 {
		p.pods = a.pods
	}
	if p.pods < a.pods {
		return sizing.Instead("pods", a.pods, "%d is less than the %s of the table of applications", p.pods, text.Count(a.pods, "pod"))
	}
	source := inSection(p.Newest("openshift-node-types"), "9.4")
	p.Add(sizing.Value{Group: "applications", Name: "pods", Value: a.pods, Unit: "pods", Why: "the sum of the quantities", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "cores", Value: sizing.Round(a.cores), Unit: "cores", Why: "the sum of quantity x need", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "memory", Value: sizing.GiB(a.memory), Unit: "GiB", Why: "the sum of quantity x need", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "storage", Value: sizing.GB(a.storage), Unit: "GB", Why: "the sum of quantity x need", Sources: source})
	return nil
}

// add adds an application.
func (a *applications) add(app application) error {
	n := float64(app.quantity)
	if a.pods += app.quantity; a.pods > mostPods {
		return &lineError{app.line, text.Sprintf("application %q raises the number of pods above %d", app.name, mostPods)}
	}
	a.cores += n * app.cpu
	a.memory += n * app.memory
	a.storage += n * app.storage
	if app.overcommit {
		a.softCores += n * app.cpu
		a.softMemory += n * app.memory
	}
	if app.cpu > a.mostCores {
		a.mostCores, a.largestByCores = app.cpu, app.name
	}
	if app.memory > a.mostMemory {
		a.mostMemory, a.largestByMemory = app.memory, app.name
	}
	return nil
}

// capacity is a node's capacity for pods: cores, and bytes of memory.
type capacity struct{ cores, memory float64 }

// capacity returns the capacity for pods of a node with that many cores and GiB of memory.
func (p *plan) capacity(cores, ram float64) (capacity, []rule.Source) {
	e := p.Table("openshift-reserved")
	c := capacity{cores - e.Number("node", "cpu"), ram*(1<<30) - e.Number("node", "memory")*(1<<20) - float64(p.w.HugePages)}
	return c, e.Sources
}

// largerNode returns options for a node with at least the given cores and bytes of memory for
// pods. It returns those options in which capacity c has too little.
func (p *plan) largerNode(c capacity, cores, memory float64) (options []string) {
	if more := cores - c.cores; more > 0 {
		options = append(options, fmt.Sprintf("--node-cores=%d", int(math.Ceil(float64(p.w.NodeCores)+more))))
	}
	if more := memory - c.memory; more > 0 {
		options = append(options, fmt.Sprintf("--node-ram=%dGiB", int(math.Ceil((float64(p.w.NodeRAM)+more)/(1<<30)))))
	}
	return options
}

// nodes returns the number of nodes that the applications need, by cores and by memory.
func (a *applications) nodes(c capacity, overcommit float64) (byCores, byMemory int) {
	more := 1 + overcommit/100
	return sizing.Ceil(a.cores-a.softCores+a.softCores/more, c.cores), sizing.Ceil(a.memory-a.softMemory+a.softMemory/more, c.memory)
}

// appNodes decides the number of workers for the applications on the requested node. It also shows
// the source's node types for comparison.
func (p *plan) appNodes() ([]need, error) {
	c, reserved := p.capacity(float64(p.w.NodeCores), float64(p.w.NodeRAM)/(1<<30))
	p.Add(sizing.Value{Group: "nodes", Name: "cores_for_pods", Value: sizing.Round(c.cores), Unit: "cores", Why: text.Sprintf("%d, minus the node's reservation", p.w.NodeCores), Sources: reserved})
	p.Add(sizing.Value{Group: "nodes", Name: "memory_for_pods", Value: sizing.GiB(c.memory), Unit: "GiB", Why: fmt.Sprintf("%s GiB, minus the node's reservation%s", unit.Digits(p.w.nodeGiB()), map[bool]string{true: " and the huge pages"}[p.w.HugePages > 0]), Sources: reserved})
	if c.cores <= 0 || c.memory <= 0 {
		return nil, sizing.OtherOptions("node-ram", p.largerNode(c, 1, 1<<30), "a node of %s and %s GiB has no room for pods", text.Count(p.w.NodeCores, "core"), unit.Digits(p.w.nodeGiB()))
	}
	if p.apps == nil {
		return nil, nil
	}
	a := p.apps
	switch {
	case a.mostCores > c.cores:
		return nil, sizing.OtherOptions("node-cores", p.largerNode(c, a.mostCores, a.mostMemory), "a pod of %s requests %s cores, and a node of %d has %s for pods: the pod would stay pending", a.largestByCores, unit.Digits(a.mostCores), p.w.NodeCores, unit.Digits(c.cores))
	case a.mostMemory > c.memory:
		return nil, sizing.OtherOptions("node-ram", p.largerNode(c, a.mostCores, a.mostMemory), "a pod of %s requests %s GiB, and a node of %s GiB has %s for pods: the pod would stay pending", a.largestByMemory, unit.Digits(sizing.GiB(a.mostMemory)), unit.Digits(p.w.nodeGiB()), unit.Digits(sizing.GiB(c.memory)))
	}
	byCores, byMemory := a.nodes(c, p.w.Overcommit)
	bare, _ := a.nodes(capacity{float64(p.w.NodeCores), float64(p.w.NodeRAM)}, p.w.Overcommit)
	how := fmt.Sprintf("%s cores of applications, %s on a node", unit.Digits(sizing.Round(a.cores)), unit.Digits(c.cores))
	if p.w.Overcommit > 0 {
		how += fmt.Sprintf(", overcommitted by %s %%", unit.Digits(p.w.Overcommit))
	}
	p.Add(sizing.Value{Group: "nodes", Name: "for_cores", Value: byCores, Unit: "nodes", Why: how, Sources: reserved,
		Also: []sizing.Figure{{Value: bare, Unit: "nodes", What: "without the half core that each node reserves, as in the documentation"}}})
	p.Add(sizing.Value{Group: "nodes", Name: "for_memory", Value: byMemory, Unit: "nodes", Why: fmt.Sprintf("%s GiB of applications, %s on a node", unit.Digits(sizing.GiB(a.memory)), unit.Digits(sizing.GiB(c.memory))), Sources: reserved})
	p.nodeTypes()
	p.Note("the number of nodes follows from the sum of all requests; pods that do not fill a node to the last core need a few more nodes")
	return []need{{byCores, how}, {byMemory, "the memory of the applications"}}, nil
}

// nodeTypes shows the node types of the source's example.
func (p *plan) nodeTypes() {
	e := p.Newest("openshift-node-types")
	a := p.apps
	for _, key := range e.Keys() {
		cores, ram, quantity := e.Number(key, "cores"), e.Number(key, "ram"), e.Number(key, "quantity")
		c, _ := p.capacity(cores, ram)
		if c.memory <= 0 {
			continue // the huge pages do not fit on it
		}
		byCores, byMemory := a.nodes(c, p.w.Overcommit)
		v := sizing.Value{
			Group: "node types", Name: key, Value: max(byCores, byMemory), Unit: "nodes", Sources: e.Sources,
			Why: text.Sprintf("of %s cores and %s GiB: %d for the cores, %d for the memory, including each node's reservation", unit.Digits(cores), unit.Digits(ram), byCores, byMemory),
		}
		// The source's own numbers apply to its own example only.
		if sizing.Round(a.cores) == 550 && sizing.GB(a.memory) == 450 {
			total := quantity * cores
			v.Also = []sizing.Figure{{Value: quantity, Unit: "nodes", What: fmt.Sprintf(
				"the documentation's: %s cores, so that the requests are %.1f %% above the capacity (%.1f %% of the demand is missing); with half a core reserved on each, %s cores and %.1f %%",
				unit.Digits(total), 100*(a.cores/total-1), 100*(1-total/a.cores), unit.Digits(quantity*c.cores), 100*(a.cores/(quantity*c.cores)-1))}}
		}
		p.Add(v)
	}
}
