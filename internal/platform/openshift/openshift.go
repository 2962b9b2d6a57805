// Package openshift answers what rules ask of the documents that a cluster is
// installed and set up with: those that lie in the directory that is audited, in
// its manifests/ and openshift/, as openshift-install has them, and in what oc adm
// must-gather has fetched. Lists of objects, as oc get -o yaml prints them, are
// documents too.
package openshift

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// The sets.
const (
	all      = "openshift.document"
	kubelets = "openshift.kubelet"
	checks   = "openshift.health_check"
	tuneds   = "openshift.tuned"
	nodes    = "openshift.node"
	counts   = "openshift.objects"
	hugePods = "openshift.huge_pages"
)

// Source is the table of what the documents say.
func Source() platform.Source {
	s := platform.Source{Prefix: "openshift", Sets: []string{all, kubelets, checks, tuneds, nodes, counts, hugePods}, Open: open}
	for _, in := range []rule.Input{
		{Name: "documents", Type: rule.Number, Doc: "documents of a cluster in the directory; absent where there is none"},
		{Name: "version", Type: rule.Text, Doc: "version of the cluster, of its ClusterVersion"},
		{Name: "feature_set", Type: rule.Text, Doc: "feature set of the FeatureGate named cluster; absent where there is none"},
		{Name: "features", Type: rule.List, Doc: "features that this FeatureGate switches on by themselves (CustomNoUpgrade)"},
		{Name: "document.*.kind", Type: rule.Text},
		{Name: "document.*.api", Type: rule.Text, Doc: "apiVersion"},
		{Name: "document.*.namespace", Type: rule.Text},

		{Name: "cluster_cidr", Type: rule.Text, Doc: "network of the pods"},
		{Name: "host_prefix", Type: rule.Number, Doc: "prefix of each node's part of it"},
		{Name: "network_type", Type: rule.Text},
		{Name: "network_types", Type: rule.List, Doc: "all that the documents name; they are to be one"},
		{Name: "nodes_max", Type: rule.Number, Doc: "parts of the cluster network"},
		{Name: "addresses_per_node", Type: rule.Number, Doc: "addresses for pods in each part"},
		{Name: "machine_addresses", Type: rule.Number, Doc: "addresses of the machine network"},
		{Name: "service_addresses", Type: rule.Number, Doc: "addresses of the service network"},
		{Name: "overlaps", Type: rule.Text, Doc: "the networks that overlap; empty where none do"},
		{Name: "overlaps_transit", Type: rule.Text, Doc: "those that overlap with the transit switch of OVN-Kubernetes"},
		{Name: "overlay_mtu", Type: rule.Number, Unit: "bytes", Doc: "MTU inside the overlay"},
		{Name: "device_mtu", Type: rule.Number, Unit: "bytes", Doc: "MTU of the network devices below it, the largest that a document names"},

		{Name: "workers", Type: rule.Number, Doc: "worker machines: of the list of nodes, else of install-config.yaml"},
		{Name: "control_plane", Type: rule.Number, Doc: "control plane machines"},
		{Name: "infra", Type: rule.Number, Doc: "nodes with the role infra; absent where no list of nodes says so"},
		{Name: "worker_cores", Type: rule.Number, Doc: "cores of the largest worker in the list of nodes"},
		{Name: "node.*.role", Type: rule.Text, Doc: "control-plane, infra or worker"},
		{Name: "node.*.cores", Type: rule.Number, Unit: "cores"},
		{Name: "node.*.reserved_cores", Type: rule.Number, Unit: "cores", Doc: "what the node keeps from the pods"},
		{Name: "node.*.memory_bytes", Type: rule.Number, Unit: "bytes"},
		{Name: "objects.*.count", Type: rule.Number, Doc: "objects of a sort in the lists that are there, by the name of their maximum"},

		{Name: "monitoring.document", Type: rule.Truth, Doc: "whether cluster monitoring is configured"},
		{Name: "monitoring.nodes", Type: rule.Number, Doc: "nodes that Prometheus watches: of the list of nodes; without one those that its volumes were sized for (annotation fettle.dev/nodes), or the machines of install-config.yaml where they are more"},
		{Name: "monitoring.pods", Type: rule.Number, Doc: "pods that it watches: of a list of the whole cluster's, or those that its volumes were sized for (fettle.dev/pods); absent where nobody says"},
		{Name: "monitoring.retention_days", Type: rule.Number, Unit: "d"},
		{Name: "monitoring.prometheus_bytes", Type: rule.Number, Unit: "bytes", Doc: "volume of each Prometheus; 0 for none"},
		{Name: "monitoring.prometheus_memory_bytes", Type: rule.Number, Unit: "bytes", Doc: "limit of its memory, where it has one"},
		{Name: "monitoring.alertmanager_bytes", Type: rule.Number, Unit: "bytes", Doc: "volume of each Alertmanager; 0 for none"},

		{Name: "kubelet_configs", Type: rule.Number, Doc: "KubeletConfigs that set maxPods"},
		{Name: "kubelet.*.max_pods", Type: rule.Number},
		{Name: "kubelet.*.pods_per_core", Type: rule.Number},
		{Name: "kubelet.*.qps", Type: rule.Number, Unit: "1/s"},
		{Name: "kubelet.*.burst", Type: rule.Number},
		{Name: "kubelet.*.cpu_manager", Type: rule.Text},
		{Name: "kubelet.*.reconcile_s", Type: rule.Number, Unit: "s", Doc: "how often the CPU manager looks after its pods"},
		{Name: "kubelet.*.topology", Type: rule.Text},
		{Name: "kubelet.*.unknown_keys", Type: rule.List, Doc: "keys of the document, its spec and its kubeletConfig that neither a KubeletConfig nor a kubelet has, with the line and what may be meant"},

		{Name: "health_check.*.max_unhealthy", Type: rule.Text},
		{Name: "health_check.*.machines", Type: rule.Number, Doc: "machines that it is for, as its status says"},
		{Name: "health_check.*.role", Type: rule.Text, Doc: "role of the machines"},
		{Name: "health_check.*.type", Type: rule.Text, Doc: "type of the machines"},
		{Name: "health_check.*.conditions", Type: rule.List, Doc: "conditions of a broken machine, such as Ready=False"},
		{Name: "health_check.*.shortest_s", Type: rule.Number, Unit: "s", Doc: "time after which the first of them counts"},
		{Name: "health_check.*.longest_s", Type: rule.Number, Unit: "s"},
		{Name: "health_check.*.startup_s", Type: rule.Number, Unit: "s", Doc: "time in which a machine has to become a node"},

		{Name: "tuned.*.plugins", Type: rule.List, Doc: "plug-ins of TuneD that its profiles use"},
		{Name: "tuned.*.priority", Type: rule.Number, Doc: "the highest priority number of its recommendations"},
		{Name: "tuned.*.pod_labels", Type: rule.Truth, Doc: "whether it matches labels of pods"},
		{Name: "ipsec", Type: rule.Text, Doc: "mode of IPsec between nodes: Full, External or Disabled; absent where no document says"},

		{Name: "huge_pages.*.resource", Type: rule.Text, Doc: "what a pod asks for: hugepages-2Mi"},
		{Name: "huge_pages.*.request_bytes", Type: rule.Number, Unit: "bytes", Doc: "of all its containers"},
		{Name: "huge_pages.*.limit_bytes", Type: rule.Number, Unit: "bytes"},
		{Name: "huge_pages.*.page_bytes", Type: rule.Number, Unit: "bytes", Doc: "size of such a page"},
		{Name: "huge_pages.*.node_bytes", Type: rule.Number, Unit: "bytes", Doc: "what a node reserves in pages of this size, by Tuned objects and MachineConfigs; absent where none reserves any"},
		{Name: "huge_pages.*.alone", Type: rule.Truth, Doc: "whether the pod asks for neither CPU nor memory beside them"},
		{Name: "huge_pages.*.media", Type: rule.List, Doc: "media of its emptyDir volumes that there are not"},
		{Name: "huge_pages.*.unmounted", Type: rule.List, Doc: "names of volumes that its containers mount and it has not"},
		{Name: "huge_pages.*.groups", Type: rule.List, Doc: "its supplementalGroups"},
		{Name: "shm_group", Type: rule.Text, Doc: "vm.hugetlb_shm_group of a Tuned object"},
		{Name: "odd_arguments", Type: rule.List, Doc: "kernel arguments about huge pages that the kernel passes over; absent where no document reserves any"},
		{Name: "thp_beside", Type: rule.Text, Doc: "transparent huge pages of nodes with huge pages; empty where no document says"},

		{Name: "tuned.*.missing", Type: rule.List, Doc: "profiles that it recommends and no document defines"},
	} {
		in.Name = "openshift." + in.Name
		s.Inputs = append(s.Inputs, in)
	}
	return s
}

// told is what the documents say, document by document.
type told struct {
	known    platform.Known
	networks map[string]networks // by the kind of document
	devices  []device
	census   census
	profiles profiles
	huge     hugepages
	sized    sized
	// installed are the machines of install-config.yaml.
	workers, controlPlane rule.Answer
	limits                float64 // KubeletConfigs with maxPods
}

func newTold() *told {
	return &told{networks: map[string]networks{}, census: newCensus(), profiles: newProfiles()}
}

func (t *told) give(input string, value any, at string) {
	t.known.Give("openshift."+input, value, at)
}

func (t *told) unclear(input, at string, why error) {
	t.known.Unclear("openshift."+input, at, fmt.Sprintf("%s: %v", at, why))
}

// answer gives an input what is known of it, if anything is.
func (t *told) answer(input string, a rule.Answer) {
	if a.Value != nil || a.Unknown != "" {
		t.known.Put(a, "openshift."+input)
	}
}

// given is what an input was given so far.
func (t *told) given(input string) rule.Answer {
	a, _ := t.known.Given("openshift." + input)
	return a
}

// Object is an object of a running cluster as JSON.
type Object struct {
	Kind, Name string
	Text       []byte
	// Listed says that all others of its kind are among the objects too.
	Listed bool
}

// Of answers of the objects of a running cluster as of documents. unread says why some
// may be missing; "" where none is.
func Of(objects []Object, unread string) platform.Answers {
	r := &reader{problem: unread, ours: true}
	for _, o := range objects {
		docs, err := parse(o.Kind, string(o.Text))
		if err != nil {
			r.problem = err.Error()
		}
		for _, d := range docs {
			d.whole, d.object = o.Listed, o.Kind+" "+o.Name
			r.docs = append(r.docs, d)
		}
	}
	return answers(r)
}

func open(_ context.Context, s *platform.Subject) platform.Answers {
	return answers(documents(s.Host))
}

func answers(r *reader) platform.Answers {
	t := newTold()
	found, first := 0, ""
	for _, d := range r.docs {
		if d.kind() == "" {
			continue
		}
		if found++; found == 1 {
			first = d.file
		}
		t.take(d)
	}
	if found > 0 || r.ours {
		t.known.Rest(r.problem)
	}
	if found > 0 {
		t.finish()
		t.give("documents", float64(found), first)
	}
	return &t.known
}

// take adds what a document says.
func (t *told) take(d document) {
	switch kind := d.kind(); kind {
	case "InstallConfig":
		t.interfaceOf(d, kind)
		t.installConfig(d)
		t.devicesOf(d)
	case "Network":
		t.interfaceOf(d, d.text("kind"))
		t.devicesOf(d)
		t.network(d)
	case "KubeletConfig":
		t.interfaceOf(d, d.text("kind"))
		t.kubelet(d)
	case "MachineHealthCheck":
		t.interfaceOf(d, d.text("kind"))
		t.healthCheck(d)
	case "Tuned":
		t.interfaceOf(d, d.text("kind"))
		t.tuned(d)
	case "MachineConfig":
		t.interfaceOf(d, d.text("kind"))
		t.machineConfig(d)
	case "ClusterVersion":
		t.version(d)
	case "FeatureGate":
		t.interfaceOf(d, kind)
		t.featureGate(d)
	case "Node":
		t.node(d)
	case "Monitoring":
		t.interfaceOf(d, d.text("kind"))
		t.monitoring(d)
	case "ClusterConfig":
		if inner, err := d.within("data", "install-config"); err == nil {
			t.installConfig(inner)
		}
	case "Pod":
		if d.asksForHugePages() {
			t.interfaceOf(d, kind)
			t.pod(d)
		}
		if d.whole {
			t.census.count(kind, d)
		}
	default:
		t.census.count(kind, d)
	}
}

// finish answers what takes all documents together.
func (t *told) finish() {
	t.finishCensus()
	t.finishMonitoring()
	t.finishNetworks()
	t.finishMTU()
	t.finishProfiles()
	t.finishHugePages()
	t.give("kubelet_configs", t.limits, "")
	t.known.Sort()
}

// kind is what sort of document it is, as this package takes it; "" for none of
// its own.
func (d document) kind() string {
	kind, api := d.text("kind"), d.text("apiVersion")
	group, _, grouped := strings.Cut(api, "/")
	switch kind {
	case "":
		if d.text("baseDomain") != "" || d.get("networking") != nil && d.get("controlPlane") != nil {
			return "InstallConfig"
		}
	case "KubeletConfig", "Tuned", "MachineConfig":
		return kind // nobody else has such objects
	case "MachineHealthCheck", "ClusterVersion", "FeatureGate":
		if strings.HasSuffix(group, ".openshift.io") {
			return kind // cluster.x-k8s.io has health checks too
		}
	case "Network":
		if group == "operator.openshift.io" || group == "config.openshift.io" {
			return kind
		}
	case "ConfigMap":
		switch d.text("metadata", "name") {
		case "cluster-monitoring-config":
			return "Monitoring"
		case "cluster-config-v1":
			return "ClusterConfig"
		}
	case "Node":
		if !grouped {
			return kind
		}
	case "Pod":
		if !grouped && d.asksForHugePages() {
			return kind
		}
	}
	if _, ok := objects[kind]; ok && d.whole {
		return kind
	}
	return ""
}

// interfaceOf notes a document's kind, its apiVersion and where it belongs.
func (t *told) interfaceOf(d document, kind string) {
	item := t.item(all, d)
	t.give(item+".kind", kind, d.at(d.get("kind")))
	t.give(item+".api", d.text("apiVersion"), d.at(d.get("apiVersion")))
	t.words(d, item+".namespace", "metadata", "namespace")
}

// item is a document as one of a set, by its file and name.
func (t *told) item(set string, d document) string {
	name := d.text("metadata", "name")
	if name == "" {
		name = "line " + strconv.Itoa(d.Line)
	}
	name = strings.TrimPrefix(d.file, "/") + " " + name
	for taken, n := name, 2; t.known.Has(set, name); n++ {
		name = fmt.Sprintf("%s (%d)", taken, n)
	}
	t.known.Add(set, name)
	return strings.TrimPrefix(set, "openshift.") + "." + name
}

// words gives an input the scalar that the keys lead to, if it is there.
func (t *told) words(d document, input string, keys ...string) {
	switch n := d.get(keys...); {
	case n == nil:
	case n.Kind != yaml.ScalarNode:
		t.unclear(input, d.at(n), fmt.Errorf("%s is no text", strings.Join(keys, ".")))
	default:
		t.give(input, n.Value, d.at(n))
	}
}

// number gives an input the number that the keys lead to, if it is there. A
// number in quotes is a text, which the cluster does not take.
func (t *told) number(d document, input string, keys ...string) {
	n := d.get(keys...)
	if n == nil {
		return
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.unclear(input, d.at(n), fmt.Errorf("%s is no number", strings.Join(keys, ".")))
		return
	}
	t.give(input, v, d.at(n))
}

// measure gives an input the amount or time that the keys lead to, if it is
// there.
func (t *told) measure(d document, input string, read func(string) (float64, error), keys ...string) {
	n := d.get(keys...)
	if n == nil {
		return
	}
	v, err := read(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		t.unclear(input, d.at(n), fmt.Errorf("%s: %w", strings.Join(keys, "."), err))
		return
	}
	t.give(input, v, d.at(n))
}
