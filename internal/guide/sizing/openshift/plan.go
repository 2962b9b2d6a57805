package openshift

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
)

// plan is a wish on its way to a result: what one part has decided and another
// needs.
type plan struct {
	*sizing.Result
	w *Wish
	f sizing.Figures

	network      string // plug-in
	maxPods      int    // of the kubelets
	podsPerNode  int    // what the cores leave of it
	userPods     int    // those of a node for which it is to have addresses beside the system's
	systemPods   int
	pods         int // of the whole cluster, without the system's
	apps         *applications
	workers      int
	infra        int
	storageNodes int // of OpenShift Container Storage, where there is any
	nodes        int // all
	hostPrefix   int
	retention    int // days
	storage      float64
	routers      int
}

// controlPlane is the number of control plane nodes: etcd's members.
const controlPlane = 3

// Size implements sizing.Wish.
func (w *Wish) Size(ctx context.Context, f sizing.Figures) (*sizing.Result, error) {
	r, err := sizing.For(f, "openshift", "openshift-releases", w.Version)
	if err = errors.Join(err, w.check()); err != nil {
		return nil, err
	}
	if w.Version == "" {
		w.Version = r.Version
	}
	p := &plan{Result: r, w: w, f: f}
	for _, part := range []func(context.Context) error{
		p.release, p.workerNodes, p.otherNodes, p.addresses, p.overlay, p.kubelets, p.healthCheck,
		p.monitoring, p.ingress, p.storageChoices, p.directories, p.hugePages, p.maximums, p.installation,
	} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	p.Heard(w.inputs)
	return p.Result, nil
}

// of is a table's edition for the version of the wish.
func (p *plan) of(table string) (*sizing.Edition, error) { return sizing.Of(p.f, table, p.Version) }

// release decides what the version decides.
func (p *plan) release(context.Context) error {
	e, err := sizing.Of(p.f, "openshift-releases", "")
	if err != nil {
		return err
	}
	p.network = p.w.NetworkType
	if p.network == "" {
		p.network = e.Text(p.Version, "network")
	}
	row, err := e.Row(p.Version)
	if err != nil {
		return err
	}
	if sdn, _ := row.Cells["sdn"].(bool); p.network == "OpenShiftSDN" && !sdn {
		return sizing.Instead("network-type", "OVNKubernetes", "a new cluster of %s cannot have OpenShiftSDN: it ended with 4.14", p.Version)
	}
	if encrypts, _ := row.Cells["ipsec"].(bool); p.w.IPsec && p.network == "OVNKubernetes" && !encrypts {
		return sizing.OtherOptions("ipsec", []string{"--version=4.7"}, "OVN-Kubernetes of %s has no IPsec, which came with 4.7: take a newer version, or leave it out", p.Version)
	}
	p.w.NetworkType = p.network
	return e.Err()
}

// workerNodes decides how many workers there are.
func (p *plan) workerNodes(context.Context) error {
	node, err := p.of("openshift-kubelet")
	if err != nil {
		return err
	}
	p.pods, p.systemPods = p.w.Pods, int(node.Number("system_pods", "value"))
	if err := p.readApps(); err != nil {
		return err
	}
	standard := int(node.Number("max_pods", "value"))
	containers := node.Number("containers_per_pod", "value")
	if err := node.Err(); err != nil {
		return err
	}
	p.podsPerNode, p.userPods = standard, standard
	why := "the default of maxPods"
	switch {
	case p.w.PodsPerNode != 0:
		p.podsPerNode, p.userPods, why = p.w.PodsPerNode, p.w.PodsPerNode, "as asked"
	case p.w.Nodes > 0 && sizing.Ceil(float64(p.pods), float64(p.w.Nodes))+p.systemPods > standard:
		p.userPods = sizing.Ceil(float64(p.pods), float64(p.w.Nodes))
		p.podsPerNode = p.userPods + p.systemPods
		why = fmt.Sprintf("%s on %s are %d on each, and %d of the system", text.Count(p.pods, "pod"), text.Count(p.w.Nodes, "node"), p.userPods, p.systemPods)
	}
	p.maxPods = p.podsPerNode
	if p.w.PodsPerCore > p.maxPods {
		return sizing.Instead("pods-per-core", p.maxPods, "%d is more than the %d of maxPods, which it cannot exceed", p.w.PodsPerCore, p.maxPods)
	}
	if byCores := p.w.PodsPerCore * p.w.NodeCores; byCores > 0 && byCores < p.podsPerNode {
		why = fmt.Sprintf("%d for each of %s, less than the %d of maxPods", p.w.PodsPerCore, text.Count(p.w.NodeCores, "core"), p.podsPerNode)
		p.podsPerNode = byCores
	}
	if p.podsPerNode <= p.systemPods {
		return sizing.Instead("pods-per-node", standard, "%d pods on a node leave none beside the %d of the system", p.podsPerNode, p.systemPods)
	}
	p.Add(sizing.Value{Group: "nodes", Name: "max_pods", Value: p.podsPerNode, Unit: "pods", Why: why, Sources: node.Sources})
	p.Add(sizing.Value{Group: "nodes", Name: "containers_per_node", Value: int(containers) * p.podsPerNode, Unit: "containers", Why: "each pod has one more that holds its network", Sources: node.Sources})

	needs := []need{{2, "the two routers of a new cluster"}}
	if p.pods > 0 {
		byFormula := sizing.Ceil(float64(p.pods), float64(p.podsPerNode))
		real := sizing.Ceil(float64(p.pods), float64(p.podsPerNode-p.systemPods))
		p.Add(sizing.Value{
			Group: "nodes", Name: "for_pods", Value: byFormula, Unit: "nodes",
			Why:     quotient(p.pods, p.podsPerNode),
			Sources: sourcesOf(p.f, "openshift-maximums", p.Version, "9.3"),
			Also:    []sizing.Figure{{Value: real, Unit: "nodes", What: fmt.Sprintf("where %d of the %d are the system's pods, which the formula forgets", p.systemPods, p.podsPerNode)}},
		})
		needs = append(needs, need{real, fmt.Sprintf("%s, %d on a node beside %d of the system", text.Count(p.pods, "pod"), p.podsPerNode-p.systemPods, p.systemPods)})
	}
	byApps, err := p.appNodes()
	if err != nil {
		return err
	}
	needs = append(needs, byApps...)
	most := slices.MaxFunc(needs, func(a, b need) int { return a.nodes - b.nodes })
	p.workers = most.nodes
	why = "for " + most.why
	if p.w.Nodes > 0 {
		for _, n := range needs[1:] {
			if n.nodes > p.w.Nodes {
				return sizing.Instead("nodes", most.nodes, "%d are too few: %d are needed for %s", p.w.Nodes, n.nodes, n.why)
			}
		}
		p.workers, why = p.w.Nodes, "as asked"
		if len(needs) > 1 {
			most = slices.MaxFunc(needs[1:], func(a, b need) int { return a.nodes - b.nodes })
			why = fmt.Sprintf("as asked; %d would do for %s", most.nodes, most.why)
		}
		if p.workers < needs[0].nodes {
			why += "; a new cluster has two routers, and the second one waits for the infrastructure nodes"
		}
	}
	p.Add(sizing.Value{Group: "nodes", Name: "workers", Value: p.workers, Unit: "nodes", Why: why})
	if p.pods > 0 {
		p.Add(sizing.Value{Group: "nodes", Name: "pods_per_node", Value: sizing.Ceil(float64(p.pods), float64(p.workers)), Unit: "pods", Why: fmt.Sprintf("%d / %d, without the system's", p.pods, p.workers), Sources: sourcesOf(p.f, "openshift-maximums", p.Version, "9.3")})
		return p.shares()
	}
	return nil
}

// quotient is a division whose result is a whole number of nodes.
func quotient(a, b int) string {
	if a%b == 0 {
		return fmt.Sprintf("%d / %d", a, b)
	}
	// As many decimals as tell it from the whole numbers next to it.
	x := float64(a) / float64(b)
	text := fmt.Sprintf("%.4g", x)
	for decimals := 1; decimals <= 9; decimals++ {
		if r, _ := strconv.ParseFloat(text, 64); r != math.Floor(r) {
			break
		}
		text = strconv.FormatFloat(x, 'f', decimals, 64)
	}
	return fmt.Sprintf("%d / %d = %s, rounded up", a, b, text)
}

// digits is a number with three significant digits and no exponent.
func digits(x float64) string {
	r, _ := strconv.ParseFloat(fmt.Sprintf("%.3g", x), 64)
	return strconv.FormatFloat(r, 'f', -1, 64)
}

// shares says what is left for each pod where nobody has said what pods ask for: a
// node is full of pods by its cores and its memory too.
func (p *plan) shares() error {
	c, _, err := p.capacity(float64(p.w.NodeCores), float64(p.w.NodeRAM)/1e9)
	if err != nil || p.apps != nil {
		return err
	}
	each := sizing.Ceil(float64(p.pods), float64(p.workers))
	p.Note("what the pods ask for was not said (--apps FILE): with %d of them on a node of %s and %g GB each has %s cores and %s MB, and those that ask for more want more or larger nodes",
		each, text.Count(p.w.NodeCores, "core"), p.w.nodeGB(), digits(c.cores/float64(each)), digits(c.memory/1e6/float64(each)))
	return nil
}

// need is a number of nodes and what for.
type need struct {
	nodes int
	why   string
}

// otherNodes decides the control plane and the infrastructure nodes.
func (p *plan) otherNodes(context.Context) error {
	e, err := p.of("openshift-control-plane")
	if err != nil {
		return err
	}
	namespaces := float64(*p.w.Objects["namespaces"])
	p.Add(sizing.Value{Group: "control plane", Name: "nodes", Value: controlPlane, Unit: "nodes", Why: "the members of etcd"})
	ovn := p.network == "OVNKubernetes"
	size := slices.IndexFunc(e.Rows, func(r row) bool {
		sdnOnly, _ := r.Cells["sdn_only"].(bool)
		return holds(r, float64(p.workers), namespaces) && !(ovn && sdnOnly)
	})
	if size < 0 {
		p.Note("no document has a size of the control plane for %s%s with %s %s: its figures end before", text.Count(p.workers, "worker"), inNamespaces(namespaces), p.network, p.Version)
	} else {
		key := e.Rows[size].Key
		cores, ram := e.Number(key, "cores"), e.Number(key, "ram")
		if more, ok := e.Rows[size].Cells["cores_ovn"].(float64); ovn && ok {
			cores, ram = more, e.Number(key, "ram_ovn")
		}
		why := fmt.Sprintf("for up to %s workers", key)
		p.Add(sizing.Value{Group: "control plane", Name: "cores", Value: cores, Unit: "cores", Why: why + ", each node", Sources: e.Sources})
		p.Add(sizing.Value{Group: "control plane", Name: "ram", Value: ram, Unit: "GB", Why: why + ", each node", Sources: e.Sources})
		if share, ok := e.Rows[size].Cells["headroom"].(float64); ok {
			p.Add(sizing.Value{Group: "control plane", Name: "use_at_most", Value: share, Unit: "%", Why: "of CPU and memory, so that two nodes do the work of three while one is restarted", Sources: e.Sources})
		}
		p.Note("the size of the control plane is decided at the installation: count the workers that are still to come")
	}
	if namespaces > 0 {
		if err := p.lifecycleManager(namespaces); err != nil {
			return err
		}
	}
	if e, err = p.of("openshift-infra"); err != nil {
		return err
	}
	p.infra = int(e.Number(e.Rows[0].Key, "nodes"))
	p.Add(sizing.Value{Group: "infrastructure", Name: "nodes", Value: p.infra, Unit: "nodes", Why: "for monitoring, ingress and registry", Sources: e.Sources})
	if err := p.containerStorage(); err != nil {
		return err
	}
	size = slices.IndexFunc(e.Rows, func(r row) bool { return r.Cells["cores"] != nil && holds(r, float64(p.workers), namespaces) })
	if size < 0 {
		p.Note("no document has a size of the infrastructure nodes for %s%s with %s", text.Count(p.workers, "worker"), inNamespaces(namespaces), p.Version)
	} else {
		key := e.Rows[size].Key
		why := fmt.Sprintf("for up to %s workers, each node", key)
		p.Add(sizing.Value{Group: "infrastructure", Name: "cores", Value: e.Number(key, "cores"), Unit: "cores", Why: why, Sources: e.Sources})
		p.Add(sizing.Value{Group: "infrastructure", Name: "ram", Value: e.Number(key, "ram"), Unit: "GB", Why: why, Sources: e.Sources})
	}
	p.nodes = p.workers + controlPlane + p.infra
	p.Add(sizing.Value{Group: "nodes", Name: "all", Value: p.nodes, Unit: "nodes", Why: fmt.Sprintf("%s, %d of the control plane, %d of the infrastructure", text.Count(p.workers, "worker"), controlPlane, p.infra)})
	return e.Err()
}

// containerStorage adds how many nodes OpenShift Container Storage needs. They are not
// counted: a cluster with volumes from elsewhere has none.
func (p *plan) containerStorage() error {
	e, err := p.of("openshift-container-storage")
	if err != nil {
		return err
	}
	p.storageNodes = int(e.Number("nodes", "value"))
	p.Add(sizing.Value{
		Group: "container storage", Name: "nodes", Value: p.storageNodes, Unit: "nodes", Sources: e.Sources,
		Why: fmt.Sprintf("at the least, with %s drives, where OpenShift Container Storage provides the volumes; not counted among the nodes", e.Text("nodes", "drives")),
	})
	return e.Err()
}

// lifecycleManager adds the memory of the Operator Lifecycle Manager.
func (p *plan) lifecycleManager(namespaces float64) error {
	e, err := p.of("olm-memory")
	if err != nil {
		return nil // no figures before 4.8
	}
	r, err := e.Least("namespaces", namespaces)
	if err != nil {
		p.Note("the Operator Lifecycle Manager was measured with up to %s namespaces", e.Rows[len(e.Rows)-1].Key)
		return nil
	}
	p.Add(sizing.Value{
		Group: "control plane", Name: "olm_memory", Value: e.Number(r.Key, "idle"), Unit: "GB", Why: "of the Operator Lifecycle Manager, with " + r.Key + " namespaces", Sources: e.Sources,
		Also: []sizing.Figure{{Value: e.Number(r.Key, "five_operators"), Unit: "GB", What: "with five operators in each"}},
	})
	return e.Err()
}

func inNamespaces(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %g namespaces", n)
}
