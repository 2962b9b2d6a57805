package openshift

import (
	"errors"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
)

type row = rule.Row

// holds is true for a row that is for that many workers and namespaces, or more.
func holds(r row, workers, namespaces float64) bool {
	most, ok := r.Cells["workers"].(float64)
	in, told := r.Cells["namespaces"].(float64)
	return ok && most >= workers && (!told || in >= namespaces)
}

// sourcesOf are those of a table's edition, with another section of the same
// document where the figure is from there.
func sourcesOf(f sizing.Figures, table, version, section string) []rule.Source {
	e, err := sizing.Of(f, table, version)
	if err != nil {
		return nil
	}
	out := []rule.Source{{Document: "002", Section: section}}
	for _, s := range e.Sources {
		if s.Document != "002" {
			out = append(out, s)
		}
	}
	return out
}

// applications are all of them together.
type applications struct {
	pods                   int
	cores, memory, storage float64 // memory and storage in bytes
	// What may be overcommitted.
	softCores, softMemory float64
	// The largest pod.
	mostCores, mostMemory float64
	largestByCores        string
	largestByMemory       string
}

// readApps reads the table of applications and adds up what they ask for.
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
		return sizing.Instead("pods", a.pods, "%d are fewer than the %d of the table of applications", p.pods, a.pods)
	}
	source := sourcesOf(p.f, "openshift-node-types", "", "9.4")
	p.Add(sizing.Value{Group: "applications", Name: "pods", Value: a.pods, Unit: "pods", Why: "the sum of the quantities", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "cores", Value: sizing.Round(a.cores), Unit: "cores", Why: "the sum of quantity x need", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "memory", Value: sizing.GB(a.memory), Unit: "GB", Why: "the sum of quantity x need", Sources: source})
	p.Add(sizing.Value{Group: "applications", Name: "storage", Value: sizing.GB(a.storage), Unit: "GB", Why: "the sum of quantity x need", Sources: source})
	return nil
}

// add counts an application in.
func (a *applications) add(app application) error {
	n := float64(app.quantity)
	if a.pods += app.quantity; a.pods > mostPods {
		return &lineError{app.line, fmt.Sprintf("with application %q there are more than %d pods", app.name, mostPods)}
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

// capacity is what a node of a size has for pods.
type capacity struct{ cores, memory float64 }

func (p *plan) capacity(cores, ram float64) (capacity, []rule.Source, error) {
	e, err := p.of("openshift-reserved")
	if err != nil {
		return capacity{}, nil, err
	}
	c := capacity{cores - e.Number("node", "cpu"), ram*1e9 - e.Number("node", "memory")*(1<<20) - float64(p.w.HugePages)}
	return c, e.Sources, e.Err()
}

// largerNode are the options of a node that has as many cores and as many bytes of memory
// for pods, where one with the capacity c has fewer.
func (p *plan) largerNode(c capacity, cores, memory float64) (options []string) {
	if more := cores - c.cores; more > 0 {
		options = append(options, fmt.Sprintf("--node-cores=%d", int(math.Ceil(float64(p.w.NodeCores)+more))))
	}
	if more := memory - c.memory; more > 0 {
		options = append(options, fmt.Sprintf("--node-ram=%dGiB", int(math.Ceil((float64(p.w.NodeRAM)+more)/(1<<30)))))
	}
	return options
}

// nodes is how many nodes hold the applications by cores, by memory.
func (a *applications) nodes(c capacity, overcommit float64) (byCores, byMemory int) {
	more := 1 + overcommit/100
	return sizing.Ceil(a.cores-a.softCores+a.softCores/more, c.cores), sizing.Ceil(a.memory-a.softMemory+a.softMemory/more, c.memory)
}

// appNodes decides the workers for the applications, for the node that was asked
// for, and shows the source's sorts of node beside it.
func (p *plan) appNodes() ([]need, error) {
	c, reserved, err := p.capacity(float64(p.w.NodeCores), float64(p.w.NodeRAM)/1e9)
	if err != nil {
		return nil, err
	}
	p.Add(sizing.Value{Group: "nodes", Name: "cores_for_pods", Value: sizing.Round(c.cores), Unit: "cores", Why: fmt.Sprintf("%d, less what the node keeps to itself", p.w.NodeCores), Sources: reserved})
	p.Add(sizing.Value{Group: "nodes", Name: "memory_for_pods", Value: sizing.GB(c.memory), Unit: "GB", Why: fmt.Sprintf("%g GB, less what the node keeps to itself%s", p.w.nodeGB(), map[bool]string{true: " and the huge pages"}[p.w.HugePages > 0]), Sources: reserved})
	if c.cores <= 0 || c.memory <= 0 {
		return nil, sizing.OtherOptions("node-ram", p.largerNode(c, 1, 1e9), "a node of %d cores and %g GB has nothing left for pods", p.w.NodeCores, p.w.nodeGB())
	}
	if p.apps == nil {
		return nil, nil
	}
	a := p.apps
	switch {
	case a.mostCores > c.cores:
		return nil, sizing.OtherOptions("node-cores", p.largerNode(c, a.mostCores, a.mostMemory), "a pod of %s wants %g cores, and a node of %d has %g for pods: it would wait for ever", a.largestByCores, a.mostCores, p.w.NodeCores, c.cores)
	case a.mostMemory > c.memory:
		return nil, sizing.OtherOptions("node-ram", p.largerNode(c, a.mostCores, a.mostMemory), "a pod of %s wants %g GB, and a node of %g GB has %g for pods: it would wait for ever", a.largestByMemory, sizing.GB(a.mostMemory), p.w.nodeGB(), sizing.GB(c.memory))
	}
	byCores, byMemory := a.nodes(c, p.w.Overcommit)
	bare, _ := a.nodes(capacity{float64(p.w.NodeCores), float64(p.w.NodeRAM)}, p.w.Overcommit)
	how := fmt.Sprintf("%g cores of applications, %g on a node", sizing.Round(a.cores), c.cores)
	if p.w.Overcommit > 0 {
		how += fmt.Sprintf(", overcommitted by %g %%", p.w.Overcommit)
	}
	p.Add(sizing.Value{Group: "nodes", Name: "for_cores", Value: byCores, Unit: "nodes", Why: how, Sources: reserved,
		Also: []sizing.Figure{{Value: bare, Unit: "nodes", What: "without the half core of each node, as the source has it"}}})
	p.Add(sizing.Value{Group: "nodes", Name: "for_memory", Value: byMemory, Unit: "nodes", Why: fmt.Sprintf("%g GB of applications, %g on a node", sizing.GB(a.memory), sizing.GB(c.memory)), Sources: reserved})
	if err := p.nodeTypes(); err != nil {
		return nil, err
	}
	p.Note("the nodes for applications are those by the sum of what they ask for: pods that do not fill a node to the last core need a few more")
	return []need{{byCores, how}, {byMemory, "the memory of the applications"}}, nil
}

// nodeTypes shows the sorts of node that the source offers for its example.
func (p *plan) nodeTypes() error {
	e, err := sizing.Of(p.f, "openshift-node-types", "")
	if err != nil {
		return err
	}
	a := p.apps
	for _, key := range e.Keys() {
		cores, ram, quantity := e.Number(key, "cores"), e.Number(key, "ram"), e.Number(key, "quantity")
		c, _, err := p.capacity(cores, ram)
		if err != nil {
			return err
		}
		if c.memory <= 0 {
			continue // the huge pages do not fit on it
		}
		byCores, byMemory := a.nodes(c, p.w.Overcommit)
		v := sizing.Value{
			Group: "node types", Name: key, Value: max(byCores, byMemory), Unit: "nodes", Sources: e.Sources,
			Why: fmt.Sprintf("of %g cores and %g GB: %d for the cores, %d for the memory, with what each keeps to itself", cores, ram, byCores, byMemory),
		}
		// The source's own numbers are for its own example.
		if sizing.Round(a.cores) == 550 && sizing.GB(a.memory) == 450 {
			total := quantity * cores
			v.Also = []sizing.Figure{{Value: quantity, Unit: "nodes", What: fmt.Sprintf(
				"the source's: %g cores, so that %.1f %% more is asked for than there is (%.1f %% of the demand is missing); with half a core reserved on each, %g cores and %.1f %%",
				total, 100*(a.cores/total-1), 100*(1-total/a.cores), quantity*c.cores, 100*(a.cores/(quantity*c.cores)-1))}}
		}
		p.Add(v)
	}
	return e.Err()
}
