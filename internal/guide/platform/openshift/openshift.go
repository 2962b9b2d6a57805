// Package openshift answers rule inputs from the documents with which a cluster is installed and
// configured. They are in the audited directory, in its manifests/ and openshift/
// (openshift-install), and in the output of oc adm must-gather. Lists of objects from oc get -o
// yaml are documents too.
package openshift

import (
	"context"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// Sets of documents.
const (
	all      = "openshift.document"
	kubelets = "openshift.kubelet"
	checks   = "openshift.health_check"
	tuneds   = "openshift.tuned"
	nodes    = "openshift.node"
	counts   = "openshift.objects"
	hugePods = "openshift.huge_pages"
)

// Source declares the inputs from documents.
func Source() platform.Source {
	s := platform.Source{Prefix: "openshift", Sets: []string{all, kubelets, checks, tuneds, nodes, counts, hugePods}, Open: open}
	for _, in := range []fact.Input{
		{Name: "documents", Type: fact.Number, Doc: "number of a cluster's documents in the directory; absent without documents"},
		{Name: "version", Type: fact.Text, Doc: "version of the cluster, from ClusterVersion"},
		{Name: "feature_set", Type: fact.Text, Doc: "feature set of the FeatureGate named cluster; absent without one"},
		{Name: "features", Type: fact.List, Doc: "features that this FeatureGate switches on by themselves (CustomNoUpgrade)"},
		{Name: "document.*.kind", Type: fact.Text},
		{Name: "document.*.api", Type: fact.Text, Doc: "apiVersion"},
		{Name: "document.*.namespace", Type: fact.Text},

		{Name: "cluster_cidr", Type: fact.Text, Doc: "network of the pods"},
		{Name: "host_prefix", Type: fact.Number, Doc: "prefix length of each node's part of the pod network"},
		{Name: "network_type", Type: fact.Text},
		{Name: "network_types", Type: fact.List, Doc: "network types that the documents name; only one is correct"},
		{Name: "nodes_max", Type: fact.Number, Doc: "parts of the cluster network"},
		{Name: "addresses_per_node", Type: fact.Number, Doc: "addresses for pods in each part"},
		{Name: "machine_addresses", Type: fact.Number, Doc: "addresses of the machine network"},
		{Name: "service_addresses", Type: fact.Number, Doc: "addresses of the service network"},
		{Name: "overlaps", Type: fact.Text, Doc: "the networks that overlap; empty if none do"},
		{Name: "overlaps_transit", Type: fact.Text, Doc: "networks that overlap with the transit switch of OVN-Kubernetes"},
		{Name: "overlay_mtu", Type: fact.Number, Unit: "bytes", Doc: "MTU inside the overlay"},
		{Name: "device_mtu", Type: fact.Number, Unit: "bytes", Doc: "MTU of the network devices below the overlay, the largest in the documents"},

		{Name: "workers", Type: fact.Number, Doc: "worker machines, from the list of nodes or else install-config.yaml"},
		{Name: "control_plane", Type: fact.Number, Doc: "control plane machines"},
		{Name: "infra", Type: fact.Number, Doc: "nodes with the role infra; absent without a list of nodes"},
		{Name: "worker_cores", Type: fact.Number, Doc: "cores of the largest worker in the list of nodes"},
		{Name: "node.*.role", Type: fact.Text, Doc: "control-plane, infra or worker"},
		{Name: "node.*.cores", Type: fact.Number, Unit: "cores"},
		{Name: "node.*.reserved_cores", Type: fact.Number, Unit: "cores", Doc: "cores that the node reserves, so that pods cannot use them"},
		{Name: "node.*.memory_bytes", Type: fact.Number, Unit: "bytes"},
		{Name: "objects.*.count", Type: fact.Number, Doc: "objects of a kind in the lists, by the name of their maximum"},

		{Name: "monitoring.document", Type: fact.Truth, Doc: "whether cluster monitoring is configured"},
		{Name: "monitoring.nodes", Type: fact.Number, Doc: "nodes that Prometheus monitors: from the list of nodes; without a list the larger number of annotation fettle.dev/nodes and install-config.yaml"},
		{Name: "monitoring.pods", Type: fact.Number, Doc: "pods that Prometheus monitors: from a list of all pods, or annotation fettle.dev/pods; absent if unknown"},
		{Name: "monitoring.retention_days", Type: fact.Number, Unit: "d"},
		{Name: "monitoring.prometheus_bytes", Type: fact.Number, Unit: "bytes", Doc: "volume of each Prometheus; 0 for none"},
		{Name: "monitoring.prometheus_memory_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory limit of Prometheus, if any"},
		{Name: "monitoring.alertmanager_bytes", Type: fact.Number, Unit: "bytes", Doc: "volume of each Alertmanager; 0 for none"},

		{Name: "kubelet_configs", Type: fact.Number, Doc: "KubeletConfigs that set maxPods"},
		{Name: "kubelet.*.max_pods", Type: fact.Number},
		{Name: "kubelet.*.pods_per_core", Type: fact.Number},
		{Name: "kubelet.*.qps", Type: fact.Number, Unit: "1/s"},
		{Name: "kubelet.*.burst", Type: fact.Number},
		{Name: "kubelet.*.cpu_manager", Type: fact.Text},
		{Name: "kubelet.*.reconcile_s", Type: fact.Number, Unit: "s", Doc: "reconcile interval of the CPU manager"},
		{Name: "kubelet.*.topology", Type: fact.Text},
		{Name: "kubelet.*.unknown_keys", Type: fact.List, Doc: "keys of the document, its spec and its kubeletConfig that neither a KubeletConfig nor a kubelet has, with the line and a suggestion"},
		{Name: "kubelet.*.refused_values", Type: fact.List, Doc: "values of the kubeletConfig that the Machine Config Operator does not apply, or with which the kubelets of the cluster's version do not start"},

		{Name: "health_check.*.max_unhealthy", Type: fact.Text},
		{Name: "health_check.*.machines", Type: fact.Number, Doc: "machines that the health check covers, from its status"},
		{Name: "health_check.*.role", Type: fact.Text, Doc: "role of the machines; * without a selector, which is all machines"},
		{Name: "health_check.*.type", Type: fact.Text, Doc: "type of the machines; * without a selector"},
		{Name: "health_check.*.conditions", Type: fact.List, Doc: "conditions of a broken machine, such as Ready=False"},
		{Name: "health_check.*.shortest_s", Type: fact.Number, Unit: "s", Doc: "shortest time after which one of the conditions counts"},
		{Name: "health_check.*.longest_s", Type: fact.Number, Unit: "s"},
		{Name: "health_check.*.startup_s", Type: fact.Number, Unit: "s", Doc: "maximum time for a machine to become a node"},

		{Name: "tuned.*.plugins", Type: fact.List, Doc: "plug-ins of TuneD that the profiles use"},
		{Name: "tuned.*.priority", Type: fact.Number, Doc: "the highest priority number of the object's recommendations"},
		{Name: "tuned.*.pod_labels", Type: fact.Truth, Doc: "whether the object matches labels of pods"},
		{Name: "performance_profiles", Type: fact.List, Doc: "PerformanceProfiles by name, each with its node selector and the CPUs that it isolates and reserves"},
		{Name: "ipsec", Type: fact.Text, Doc: "mode of IPsec between nodes: Full, External or Disabled; absent if no document sets it"},

		{Name: "huge_pages.*.resource", Type: fact.Text, Doc: "requested resource: hugepages-2Mi"},
		{Name: "huge_pages.*.request_bytes", Type: fact.Number, Unit: "bytes", Doc: "requested bytes of all containers of the pod"},
		{Name: "huge_pages.*.limit_bytes", Type: fact.Number, Unit: "bytes"},
		{Name: "huge_pages.*.page_bytes", Type: fact.Number, Unit: "bytes", Doc: "size of a page of this resource"},
		{Name: "huge_pages.*.node_bytes", Type: fact.Number, Unit: "bytes", Doc: "bytes that a node reserves in pages of this size, from Tuned objects and MachineConfigs; absent without a reservation"},
		{Name: "huge_pages.*.alone", Type: fact.Truth, Doc: "whether the pod requests neither CPU nor memory"},
		{Name: "huge_pages.*.media", Type: fact.List, Doc: "unknown media of the pod's emptyDir volumes"},
		{Name: "huge_pages.*.unmounted", Type: fact.List, Doc: "mounted volumes that the pod does not define"},
		{Name: "huge_pages.*.groups", Type: fact.List, Doc: "supplementalGroups of the pod"},
		{Name: "shm_group", Type: fact.Text, Doc: "vm.hugetlb_shm_group of a Tuned object"},
		{Name: "odd_arguments", Type: fact.List, Doc: "kernel arguments about huge pages that the kernel ignores; absent if no document reserves any"},
		{Name: "thp_beside", Type: fact.Text, Doc: "transparent huge pages of nodes with huge pages; empty if no document sets it"},

		{Name: "tuned.*.missing", Type: fact.List, Doc: "recommended profiles that no document defines"},
	} {
		in.Name = "openshift." + in.Name
		s.Inputs = append(s.Inputs, in)
	}
	return s
}

// Object is an object of a running cluster as JSON.
type Object struct {
	Kind, Name string
	Text       []byte
	// Listed is true if the list has all objects of this kind.
	Listed bool
}

// Of answers inputs from a running cluster's objects. unread is the reason why some are missing,
// or "".
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
	t := newCollector()
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
		if len(t.performs) > 0 || r.problem == "" { // otherwise they are unknown
			t.give("performance_profiles", append([]string{}, t.performs...), t.performsAt)
		}
		t.finish()
		t.give("documents", float64(found), first)
	}
	return &t.known
}

// kind classifies a document for this package. It returns "" for other documents.
func (d document) kind() string {
	kind, api := d.text("kind"), d.text("apiVersion")
	group, _, grouped := strings.Cut(api, "/")
	switch kind {
	case "":
		if d.text("baseDomain") != "" || d.get("networking") != nil && d.get("controlPlane") != nil {
			return "InstallConfig"
		}
	case "KubeletConfig", "Tuned", "MachineConfig":
		return kind // unique to OpenShift
	case "MachineHealthCheck", "ClusterVersion", "FeatureGate":
		if strings.HasSuffix(group, ".openshift.io") {
			return kind // cluster.x-k8s.io has health checks too
		}
	case "PerformanceProfile":
		if group == "performance.openshift.io" {
			return kind
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
