package openshift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// plan is a request in progress, with values that one part decides and another needs.
type plan struct {
	*sizing.Result
	w *Request

	network      string // plug-in
	maxPods      int    // of the kubelets
	podsPerNode  int    // the number of those that the cores allow
	sufficient   int    // workers without a spare one
	userPods     int    // user pods per node; a node needs addresses for these and the system's
	systemPods   int
	pods         int // user pods of the whole cluster
	apps         *applications
	workers      int
	infra        int
	storageNodes int // of OpenShift Container Storage, if used
	nodes        int // all nodes
	hostPrefix   int
	retention    int // days
	storage      float64
	routers      int
}

// controlPlane is the number of control plane nodes, which are etcd's members.
const controlPlane = 3

// Size implements sizing.Request.
func (w *Request) Size(ctx context.Context, f sizing.Figures) (*sizing.Result, error) {
	r, err := sizing.For(f, "openshift", "openshift-releases", w.Version)
	if err = errors.Join(err, w.check()); err != nil {
		return nil, err
	}
	if w.Version == "" {
		w.Version = r.Version
	}
	p := &plan{Result: r, w: w}
	for _, part := range []func() error{
		p.release, p.workerNodes, p.otherNodes, p.addresses, p.overlay, p.kubelets, p.healthCheck,
		func() error { return p.monitoring(ctx) },
		p.ingress, p.storageChoices, p.directories, p.hugePages, p.maximums, p.installation,
	} {
		if err := part(); p.Err() != nil || err != nil {
			return nil, cmp.Or(p.Err(), err)
		}
	}
	p.RecordInputs(w.inputs)
	p.headline()
	return p.Result, nil
}

// release decides the values that depend only on the version.
func (p *plan) release() error {
	e := p.Newest("openshift-releases")
	p.network = p.w.NetworkType
	if p.network == "" {
		p.network = e.Text(p.Version, "network")
	}
	row, err := e.Row(p.Version)
	if err != nil {
		return err
	}
	if sdn, _ := row.Cells["sdn"].(bool); p.network == "OpenShiftSDN" && !sdn {
		return sizing.Instead("network-type", "OVNKubernetes", "a new cluster of %s cannot use OpenShiftSDN: 4.14 was the last version with it", p.Version)
	}
	if encrypts, _ := row.Cells["ipsec"].(bool); p.w.IPsec && p.network == "OVNKubernetes" && !encrypts {
		return sizing.OtherOptions("ipsec", []string{"--version=4.7"}, "OVN-Kubernetes of %s has no IPsec, which 4.7 introduced; use a newer version, or omit --ipsec", p.Version)
	}
	p.w.NetworkType = p.network
	return nil
}

// workerNodes decides the number of workers.
func (p *plan) workerNodes() error {
	node := p.Table("openshift-kubelet")
	p.pods, p.systemPods = p.w.Pods, int(node.Number("system_pods", "value"))
	if err := p.readApps(); err != nil {
		return err
	}
	standard := int(node.Number("max_pods", "value"))
	containers := node.Number("containers_per_pod", "value")
	p.podsPerNode, p.userPods = standard, standard
	why := "the default of maxPods"
	switch {
	case p.w.PodsPerNode != 0:
		p.podsPerNode, p.userPods, why = p.w.PodsPerNode, p.w.PodsPerNode, "as requested"
	case p.w.Nodes > 0 && sizing.Ceil(float64(p.pods), float64(p.w.Nodes))+p.systemPods > standard:
		p.userPods = sizing.Ceil(float64(p.pods), float64(p.w.Nodes))
		p.podsPerNode = p.userPods + p.systemPods
		why = text.Sprintf("%s on %s are %d per node, plus %d system pods", text.Count(p.pods, "pod"), text.Count(p.w.Nodes, "node"), p.userPods, p.systemPods)
	}
	p.maxPods = p.podsPerNode
	if p.w.PodsPerCore > p.maxPods {
		return sizing.Instead("pods-per-core", p.maxPods, "%d exceeds maxPods (%d), which is the upper limit", p.w.PodsPerCore, p.maxPods)
	}
	if byCores := p.w.PodsPerCore * p.w.NodeCores; byCores > 0 && byCores < p.podsPerNode {
		why = text.Sprintf("%d for each of %s, less than the %d of maxPods", p.w.PodsPerCore, text.Count(p.w.NodeCores, "core"), p.podsPerNode)
		p.podsPerNode = byCores
	}
	if p.podsPerNode <= p.systemPods {
		return sizing.Instead("pods-per-node", standard, "%s per node leave none for applications, because the system needs %s", text.Count(p.podsPerNode, "pod"), text.Count(p.systemPods, "pod"))
	}
	p.Add(sizing.Value{Group: "nodes", Name: "max_pods", Value: p.podsPerNode, Unit: "pods", Why: why, Sources: node.Sources})
	p.Add(sizing.Value{Group: "nodes", Name: "containers_per_node", Value: int(containers) * p.podsPerNode, Unit: "containers", Why: "each pod has one container more, which holds its network", Sources: node.Sources})

	needs := []need{{2, "the two routers of a new cluster"}}
	if p.pods > 0 {
		byFormula := sizing.Ceil(float64(p.pods), float64(p.podsPerNode))
		real := sizing.Ceil(float64(p.pods), float64(p.podsPerNode-p.systemPods))
		p.Add(sizing.Value{
			Group: "nodes", Name: "for_pods", Value: byFormula, Unit: "nodes",
			Why:     quotient(p.pods, p.podsPerNode),
			Sources: inSection(p.Table("openshift-maximums"), "9.3"),
			Also:    []sizing.Figure{{Value: real, Unit: "nodes", What: text.Sprintf("if the system has %d of the %d pods, which the formula ignores", p.systemPods, p.podsPerNode)}},
		})
		each := sizing.Ceil(float64(p.pods), float64(real))
		needs = append(needs, need{real, text.Sprintf("%s: %d + %d of the system = %d on each", text.Count(p.pods, "pod"), each, p.systemPods, each+p.systemPods)})
	}
	byApps, err := p.appNodes()
	if err != nil {
		return err
	}
	needs = append(needs, byApps...)
	most := slices.MaxFunc(needs, func(a, b need) int { return a.nodes - b.nodes })
	p.workers, p.sufficient = most.nodes, most.nodes
	why = "for " + most.why
	if p.w.PodsPerNode == 0 { // --nodes may have raised maxPods
		p.sufficient = max(p.sufficient, sizing.Ceil(float64(p.pods), float64(standard-p.systemPods)))
	}
	if p.w.Nodes > 0 {
		for _, n := range needs[1:] {
			if n.nodes > p.w.Nodes {
				return sizing.Instead("nodes", most.nodes, "%d is too few: %d are needed for %s", p.w.Nodes, n.nodes, n.why)
			}
		}
		p.workers, why = p.w.Nodes, "as requested"
		if len(needs) > 1 {
			most = slices.MaxFunc(needs[1:], func(a, b need) int { return a.nodes - b.nodes })
			why = text.Sprintf("as requested; %d would suffice for %s", most.nodes, most.why)
		}
		if p.workers < needs[0].nodes {
			why += "; a new cluster has two routers, and the second one waits for the infrastructure nodes"
		}
	}
	p.Add(sizing.Value{Group: "nodes", Name: "workers", Value: p.workers, Unit: "nodes", Why: why})
	if p.pods > 0 {
		p.Max(sizing.Limit{Name: "pods on a node", Maximum: float64(p.podsPerNode), Wanted: float64(sizing.Ceil(float64(p.pods), float64(p.workers)) + p.systemPods), Why: text.Sprintf("%d of yours and %d of the system", sizing.Ceil(float64(p.pods), float64(p.workers)), p.systemPods), Sources: node.Sources})
		p.Add(sizing.Value{Group: "nodes", Name: "pods_per_node", Value: sizing.Ceil(float64(p.pods), float64(p.workers)), Unit: "pods", Why: text.Sprintf("%d / %d, without the system's", p.pods, p.workers), Sources: inSection(p.Table("openshift-maximums"), "9.3")})
		p.shares()
	}
	return nil
}

// quotient prints a division whose result is rounded up, with as many decimals as necessary to
// distinguish it from the next whole numbers.
func quotient(a, b int) string {
	division := unit.Digits(float64(a)) + " / " + unit.Digits(float64(b))
	if a%b == 0 {
		return division
	}
	text := ""
	for decimals := 1; decimals <= 9; decimals++ {
		text = strconv.FormatFloat(float64(a)/float64(b), 'f', decimals, 64)
		if r, _ := strconv.ParseFloat(text, 64); r != math.Floor(r) {
			break
		}
	}
	return fmt.Sprintf("%s = %s, rounded up", division, text)
}

// shares adds a note about the resources left per pod if the pods' requests are unknown: cores and
// memory limit a node too.
func (p *plan) shares() {
	if p.apps != nil {
		return
	}
	c, _ := p.capacity(float64(p.w.NodeCores), float64(p.w.NodeRAM)/(1<<30))
	each := sizing.Ceil(float64(p.pods), float64(p.workers))
	p.Note("the requests of the pods are unknown (--apps FILE): with %d of them on a node of %s and %s GiB each has %s cores and %s MiB, and larger pods need more or larger nodes",
		each, text.Count(p.w.NodeCores, "core"), unit.Digits(p.w.nodeGiB()), unit.Digits(c.cores/float64(each)), unit.Digits(c.memory/(1<<20)/float64(each)))
}

// need is a number of nodes with the reason.
type need struct {
	nodes int
	why   string
}

// otherNodes decides the control plane and the infrastructure nodes.
func (p *plan) otherNodes() error {
	e := p.Table("openshift-control-plane")
	namespaces := float64(*p.w.Objects["namespaces"])
	p.Add(sizing.Value{Group: "control plane", Name: "nodes", Value: controlPlane, Unit: "nodes", Why: "the members of etcd"})
	ovn := p.network == "OVNKubernetes"
	size := slices.IndexFunc(e.Rows, func(r row) bool {
		sdnOnly, _ := r.Cells["sdn_only"].(bool)
		return holds(r, float64(p.workers), namespaces) && !(ovn && sdnOnly)
	})
	if size < 0 {
		p.Note("no document has a size of the control plane for %s%s with %s %s: the published figures end at smaller clusters", text.Count(p.workers, "worker"), inNamespaces(namespaces), p.network, p.Version)
	} else {
		key := e.Rows[size].Key
		cores, ram := e.Number(key, "cores"), e.Number(key, "ram")
		if more, ok := e.Rows[size].Cells["cores_ovn"].(float64); ovn && ok {
			cores, ram = more, e.Number(key, "ram_ovn")
		}
		why := fmt.Sprintf("for up to %s workers", key)
		p.Add(sizing.Value{Group: "control plane", Name: "cores", Value: cores, Unit: "cores", Why: why + ", each node", Sources: e.Sources})
		p.Add(sizing.Value{Group: "control plane", Name: "ram", Value: ram, Unit: "GiB", Why: why + ", each node", Sources: e.Sources})
		if share, ok := e.Rows[size].Cells["headroom"].(float64); ok {
			p.Add(sizing.Value{Group: "control plane", Name: "use_at_most", Value: share, Unit: "%", Why: "of CPU and memory, so that two nodes do the work of three while one is restarted", Sources: e.Sources})
		}
		p.Note("the size of the control plane is fixed at the installation: include the workers to be added later")
	}
	if namespaces > 0 {
		p.lifecycleManager(namespaces)
	}
	if e = p.Table("openshift-infra"); len(e.Rows) == 0 {
		return p.Err()
	}
	p.infra = int(e.Number(e.Rows[0].Key, "nodes"))
	p.Add(sizing.Value{Group: "infrastructure", Name: "nodes", Value: p.infra, Unit: "nodes", Why: "for monitoring, ingress and registry", Sources: e.Sources})
	p.containerStorage()
	size = slices.IndexFunc(e.Rows, func(r row) bool { return r.Cells["cores"] != nil && holds(r, float64(p.workers), namespaces) })
	if size < 0 {
		p.Note("no document has a size of the infrastructure nodes for %s%s with %s", text.Count(p.workers, "worker"), inNamespaces(namespaces), p.Version)
	} else {
		key := e.Rows[size].Key
		why := fmt.Sprintf("for up to %s workers, each node", key)
		p.Add(sizing.Value{Group: "infrastructure", Name: "cores", Value: e.Number(key, "cores"), Unit: "cores", Why: why, Sources: e.Sources})
		p.Add(sizing.Value{Group: "infrastructure", Name: "ram", Value: e.Number(key, "ram"), Unit: "GiB", Why: why, Sources: e.Sources})
	}
	p.nodes = p.workers + controlPlane + p.infra
	p.Add(sizing.Value{Group: "nodes", Name: "all", Value: p.nodes, Unit: "nodes", Why: text.Sprintf("%s, %d of the control plane, %d of the infrastructure", text.Count(p.workers, "worker"), controlPlane, p.infra)})
	return nil
}

// containerStorage adds the nodes for OpenShift Container Storage. They are not counted, because a
// cluster with other volumes has none.
func (p *plan) containerStorage() {
	e := p.Table("openshift-container-storage")
	p.storageNodes = int(e.Number("nodes", "value"))
	p.Add(sizing.Value{
		Group: "container storage", Name: "nodes", Value: p.storageNodes, Unit: "nodes", Sources: e.Sources,
		Why: fmt.Sprintf("at least, with %s drives, if OpenShift Container Storage provides the volumes; not included in the nodes", e.Text("nodes", "drives")),
	})
}

// lifecycleManager adds the memory of the Operator Lifecycle Manager.
func (p *plan) lifecycleManager(namespaces float64) {
	if !p.HasTable("olm-memory") {
		return // no figures before 4.8
	}
	e := p.Table("olm-memory")
	r, err := e.Least("namespaces", namespaces)
	if err != nil {
		p.Note("the Operator Lifecycle Manager was measured with up to %s namespaces", e.Rows[len(e.Rows)-1].Key)
		return
	}
	p.Add(sizing.Value{
		Group: "control plane", Name: "olm_memory", Value: e.Number(r.Key, "idle"), Unit: "GiB", Why: "of the Operator Lifecycle Manager, with " + r.Key + " namespaces", Sources: e.Sources,
		Also: []sizing.Figure{{Value: e.Number(r.Key, "five_operators"), Unit: "GiB", What: "with five operators in each"}},
	})
}

// headline adds the answer to the headline, and selects the values of the default output.
func (p *plan) headline() {
	h := &p.Headline
	each := func(group string) string {
		cores, ram := p.InHeadline(group, "cores"), p.InHeadline(group, "ram")
		if cores == "" {
			return " (no document has their size)"
		}
		return fmt.Sprintf(" (%s, %s)", cores, ram)
	}
	load := ""
	if p.pods > 0 {
		load = " for " + h.Count("pods", p.pods, "pod")
		if p.workers <= p.sufficient {
			load += ", without a spare worker (with one: --nodes " + h.Value("workers_with_spare", float64(p.sufficient+1), strconv.Itoa(p.sufficient+1)) + ")"
		}
	}
	h.Line("%s (%s, %s), %s control plane nodes%s and %s infrastructure nodes%s%s",
		h.Count("nodes_workers", p.workers, "worker"), h.Count("worker_cores", p.w.NodeCores, "core"), h.Value("worker_memory_gib", p.w.nodeGiB(), sizing.Amount(p.w.nodeGiB(), "GiB")),
		h.Count("control_plane_nodes", controlPlane, ""), each("control plane"), h.Count("infrastructure_nodes", p.infra, ""), each("infrastructure"), load)
	p.TightestInHeadline()
	c, _ := p.capacity(float64(p.w.NodeCores), p.w.nodeGiB())
	switch n := sizing.Ceil(float64(p.pods), float64(p.workers)); {
	case p.apps != nil:
		h.Line("The applications request %s and %s; pods that do not fill a node need a few more nodes", p.InHeadline("applications", "cores"), p.InHeadline("applications", "memory"))
	case p.pods > 0:
		cores, memory := c.cores/float64(n), c.memory/float64(n)
		h.Line("Each pod then has %s and %s; for larger pods set --nodes, --node-cores or --node-ram, or give their requests with --apps FILE", h.Figure("cores_per_pod", cores, "cores"), h.Value("memory_per_pod_bytes", memory, sizing.Amount(memory, "bytes")))
	}
	p.First("nodes/workers", "nodes/max_pods", "network/cluster_cidr", "network/host_prefix", "network/machine_cidr", "network/service_cidr",
		"network/overlay_mtu", "control plane/cores", "control plane/ram", "infrastructure/cores", "infrastructure/ram", "routers/routers", "huge pages/pages",
		"prometheus/retention", "prometheus/volume", "disk of a control plane node/all", "disk of a worker/all", "health check/max_unhealthy")
}

func inNamespaces(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %s namespaces", unit.Digits(n))
}
