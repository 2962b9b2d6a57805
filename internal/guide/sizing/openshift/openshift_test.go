package openshift

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// The worked examples of the source, and what later versions say of the same.
func TestExamples(t *testing.T) {
	f := sizing.Figures(t)
	for _, tt := range []struct {
		name string
		said string // name=value, words apart
		want map[string]string
	}{
		{"2200 pods, 500 on a node", "version=4.4 pods=2200 pods-per-node=500", map[string]string{
			"nodes/for_pods": "5", "nodes/workers": "5", "nodes/max_pods": "500", "nodes/containers_per_node": "1000",
			"network/host_prefix": "22", "network/nodes_max": "256", "network/addresses_per_node": "1021", "network/cluster_cidr": "10.128.0.0/14",
			"control plane/cores": "4", "control plane/ram": "16", "network/overlay_mtu": "1450", "infrastructure/nodes": "3",
			"health check/max_unhealthy": "2", "kubelet/kube_api_qps": "50", "kubelet/kube_api_burst": "100",
		}},
		// The formula says nine; with the system's pods it is ten.
		{"2200 pods with the default", "version=4.4 pods=2200", map[string]string{"nodes/for_pods": "9", "nodes/workers": "10", "network/host_prefix": "23", "network/nodes_max": "512", "network/addresses_per_node": "509"}},
		{"2200 pods on 20 nodes", "version=4.4 pods=2200 nodes=20", map[string]string{"nodes/pods_per_node": "110", "nodes/workers": "20"}},
		{"10 for each of 4 cores", "version=4.4 pods=100 pods-per-core=10 node-cores=4 node-ram=16", map[string]string{"nodes/max_pods": "40", "nodes/containers_per_node": "80"}},
		{"memory with a unit", "version=4.4 pods=1 node-cores=2 node-ram=8GiB", map[string]string{"nodes/memory_for_pods": "7.414"}},
		{"the larger of two limits", "version=4.4 pods=100 pods-per-core=100 node-cores=4 node-ram=16", map[string]string{"nodes/max_pods": "250"}},
		// 1024 addresses, also for a node with more cores than 32.
		{"a prefix for maxPods", "version=4.4 pods=100 pods-per-core=10 pods-per-node=500 node-cores=32", map[string]string{"nodes/max_pods": "320", "network/host_prefix": "22"}},
		// The system's 15 are among the 315: they are not counted on top once more.
		{"300 pods of users on a node", "version=4.4 pods=6000 nodes=20", map[string]string{"nodes/max_pods": "315", "nodes/pods_per_node": "300", "network/host_prefix": "23"}},
		{"many pods on few nodes", "version=4.4 pods=6000 nodes=20", map[string]string{"prometheus/cores": "4"}},
		{"two cores", "version=4.4 pods=1 node-cores=2 node-ram=8", map[string]string{"nodes/cores_for_pods": "1.5"}},
		{"applications", "version=4.4 node-cores=4 node-ram=16 apps=@", map[string]string{
			"applications/pods": "500", "applications/cores": "550", "applications/memory": "419.095", "applications/storage": "1400",
			"node types/option 1": "158", "node types/option 2": "74", "node types/option 3": "36", "nodes/for_cores": "158", "nodes/for_memory": "28", "nodes/workers": "158",
		}},
		{"applications overcommitted", "version=4.4 node-cores=4 node-ram=16 apps=@ overcommit=30", map[string]string{"nodes/for_cores": "121"}},
		{"25 workers", "version=4.4 nodes=25", map[string]string{"control plane/cores": "4", "control plane/ram": "16", "health check/max_unhealthy": "10"}},
		{"26 workers", "version=4.4 nodes=26", map[string]string{"control plane/cores": "8", "control plane/ram": "32"}},
		{"250 workers", "version=4.4 nodes=250", map[string]string{"control plane/cores": "16", "control plane/ram": "96"}},
		{"6 workers", "version=4.4 nodes=6", map[string]string{"health check/max_unhealthy": "2"}},
		{"3 workers", "version=4.4 nodes=3", map[string]string{"health check/max_unhealthy": "1"}},
		{"a number of workers", "version=4.4 nodes=3 max-unhealthy=2", map[string]string{"health check/max_unhealthy": "2"}},
		{"252 workers with OVN-Kubernetes", "version=4.17 nodes=252", map[string]string{"control plane/cores": "24", "control plane/ram": "128", "control plane/use_at_most": "60", "infrastructure/cores": "16", "infrastructure/ram": "128", "network/overlay_mtu": "1400"}},
		{"252 workers with OpenShiftSDN", "version=4.10 nodes=252", map[string]string{"control plane/cores": "16", "control plane/ram": "64", "network/type": "OpenShiftSDN"}},
		{"501 workers with OpenShiftSDN", "version=4.10 nodes=501", map[string]string{"control plane/cores": "16", "control plane/ram": "96", "infrastructure/cores": "32", "network/cluster_cidr": "10.128.0.0/12"}},
		{"namespaces", "version=4.10 nodes=20 namespaces=900", map[string]string{"control plane/cores": "8", "control plane/ram": "32", "infrastructure/ram": "48", "control plane/olm_memory": "1.2"}},
		{"2500 pods on a node", "version=4.20 pods=10000 pods-per-node=2500", map[string]string{"network/host_prefix": "20", "network/addresses_per_node": "4093", "network/nodes_max": "64"}},
		{"more nodes than the default network", "version=4.3 nodes=600", map[string]string{"network/cluster_cidr": "10.128.0.0/12", "network/nodes_max": "2048"}},
		{"the source's line, not the arithmetic", "version=4.3 nodes=500", map[string]string{"network/cluster_cidr": "10.128.0.0/12"}},
		{"the last with the default network", "version=4.3 nodes=494", map[string]string{"nodes/all": "500", "network/cluster_cidr": "10.128.0.0/14"}},
		{"the largest network", "version=4.20 nodes=900 pods-per-node=2500", map[string]string{"network/cluster_cidr": "10.128.0.0/10", "network/nodes_max": "1024"}},
		{"jumbo frames", "version=4.4 nodes=3 mtu=9000", map[string]string{"network/overlay_mtu": "8950"}},
		{"jumbo frames, OVN-Kubernetes, IPsec", "version=4.20 nodes=3 mtu=9000 ipsec=true", map[string]string{"network/overlay_mtu": "8854"}},
		{"50 nodes of Prometheus", "version=4.4 nodes=44 pods=1800 pods-per-node=500", map[string]string{"prometheus/storage_per_day": "6.3", "prometheus/storage": "94.5", "prometheus/ram": "6", "prometheus/cores": "1"}},
		{"100 nodes of Prometheus", "version=4.4 nodes=94 pods=3600", map[string]string{"prometheus/storage": "195", "prometheus/ram": "10", "prometheus/cores": "2"}},
		{"150 nodes of Prometheus", "version=4.4 nodes=144 pods=5400", map[string]string{"prometheus/storage": "285", "prometheus/ram": "12"}},
		{"200 nodes of Prometheus", "version=4.4 nodes=194 pods=7200", map[string]string{"prometheus/storage": "375", "prometheus/ram": "14", "prometheus/volume": "350Gi"}},
		{"beyond the table", "version=4.4 nodes=244 pods=9000", map[string]string{"prometheus/storage_per_day": "31.25", "prometheus/ram": "16"}},
		{"thirty days", "version=4.4 nodes=44 retention=30", map[string]string{"prometheus/storage": "189"}},
		{"routers", "version=4.4 nodes=3 request-rate=100000 route=none rate=10", map[string]string{"routers/requests": "21515", "routers/routers": "5", "routers/shard": "true"}},
		{"routers that close", "version=4.4 nodes=3 request-rate=10000 route=re-encrypt close=true host-network=true rate=10", map[string]string{"routers/requests": "2941", "routers/routers": "4"}},
		{"routers on bare metal", "version=4.4 nodes=3 request-rate=100000 route=none bare-metal=true rate=10", map[string]string{"routers/requests": "43030", "routers/routers": "3", "routers/shard": "false"}},
		{"8 kB pages", "version=4.4 nodes=3 request-rate=30000 route=none page-size=8KiB", map[string]string{"routers/pages_of_link": "15258", "routers/routers": "2"}},
		{"static applications", "version=4.4 nodes=3 route-apps=40 route-apps-kind=static", map[string]string{"routers/for_applications": "4"}},
		{"routes", "version=4.20 nodes=3 routes=10000", map[string]string{"routers/shard": "true"}},
		{"huge pages", "version=4.4 nodes=3 huge-pages=2GiB", map[string]string{"huge pages/pages": "1024"}},
		{"disks", "version=4.4 nodes=3 node-ram=64", map[string]string{"disk of a worker//var/lib/containers": "200", "disk of a control plane node//var/lib/etcd": "20", "disk of a worker//var/log": "30"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sizing.Want(t, sizing.Sized(t, f, New(), words(tt.said)...), tt.want)
		})
	}
}

// words has "@" for the source's table of applications.
func words(said string) []string {
	out := sizing.Words(said)
	for i, w := range out {
		if w == "@" {
			out[i] = apps
		}
	}
	return out
}

func TestBadInput(t *testing.T) {
	sizing.Refused(t, New, words, map[string]string{
		"":                                     "not given; set --pods N",
		"pods=-3":                              "-3 is less than 1",
		"pods=0":                               "less than 1",
		"pods=many":                            "not a whole number",
		"pods=99999999999999999999":            "more than",
		"nodes=3 version=3.11":                 "want a version from 4.1 to 4.22",
		"nodes=3 version=4":                    "want a version from 4.1 to 4.22",
		"nodes=10 pods=2200 pods-per-node=100": "10 is too few: 26 are needed",
		"nodes=3 pods-per-node=15":             "leave none for applications",
		"nodes=3 pods-per-node=10 pods-per-core=20":                           "which is the upper limit",
		"nodes=600 cluster-cidr=10.128.0.0/14":                                "a network of /13 or larger",
		"nodes=3 cluster-cidr=10.128.0.0/24":                                  "larger",
		"nodes=3 host-prefix=24":                                              "253 addresses",
		"nodes=3 host-prefix=30":                                              "at most 23",
		"nodes=3 cluster-cidr=10.128.0.1/14":                                  "is an address in the network",
		"nodes=3 cluster-cidr=fd00::/48":                                      "IPv4",
		"nodes=3 cluster-cidr=10.0.0.0/14":                                    "overlaps the machine network",
		"nodes=3 machine-cidr=10.130.0.0/16":                                  "overlaps",
		"nodes=3 service-cidr=10.0.128.0/24":                                  "overlaps",
		"nodes=3 version=4.20 machine-cidr=100.64.3.0/24":                     "the network of OVN-Kubernetes's join switch 100.64.0.0/16",
		"nodes=300 machine-cidr=10.0.0.0/24":                                  "254 machines",
		"nodes=3 services=300 service-cidr=172.30.0.0/24":                     "254 services",
		"nodes=3 version=4.16 network-type=OpenShiftSDN":                      "cannot use OpenShiftSDN",
		"nodes=3 network-type=Calico":                                         "want OpenShiftSDN",
		"nodes=3 max-unhealthy=140%":                                          "from 0% to 100%",
		"nodes=3 max-unhealthy=100%":                                          "does not limit anything",
		"nodes=3 max-unhealthy=3":                                             "does not limit anything",
		"nodes=3 topology=restricted":                                         "--cpu-manager static",
		"nodes=3 huge-pages=40GiB":                                            "more than the 32 GiB",
		"nodes=3 mtu=600":                                                     "inside the overlay",
		"nodes=3 kube-api-burst=20":                                           "20 is less than --kube-api-qps (50 requests a second)",
		"nodes=3 kube-api-qps=300":                                            "100 is less than --kube-api-qps (300 requests a second)",
		"nodes=3 pods-per-core=300":                                           "which is the upper limit",
		"nodes=3 storage=tape":                                                "want block, file, object",
		"nodes=3 storage=file":                                                "with only file there is no storage for etcd",
		"nodes=3 storage=object":                                              "no storage for metrics, logging, applications, etcd, databases",
		"nodes=3 storage=block registry-replicas=2":                           "no storage for scaled registry",
		"nodes=3 version=4.6 network-type=OVNKubernetes ipsec=true":           "OVN-Kubernetes of 4.6 has no IPsec, which 4.7 introduced",
		"nodes=3 version=":                                                    "empty value",
		"nodes=3 prometheus=":                                                 "empty value",
		"pods=1500001":                                                        "want 1 to 1,500,000 (ten times",
		"nodes=20001":                                                         "want 1 to 20,000 (ten times",
		"nodes=3 node-cores=5000":                                             "want 1 to 4,096 (RHEL",
		"nodes=3 node-ram=65TiB":                                              "more than 64TiB",
		"nodes=3 node-ram=1MiB":                                               "less than",
		"nodes=20000 host-prefix=12 pods=10":                                  "none of the networks 10.128.0.0/14, 10.128.0.0/12, 10.128.0.0/10 has parts",
		"nodes=3 node-ram=65537":                                              "want 1 to 65,536 (x86-64",
		"nodes=3 host-prefix=7":                                               "want 8 to 30 (10.0.0.0/8",
		"nodes=3 rate=1601":                                                   "want 0.001 to 1,600 (twice",
		"nodes=3 retention=3651":                                              "want 1 to 3,650",
		"nodes=3 request-rate=1e9":                                            "want 0.001 to 100,000,000 (a router",
		"nodes=3 namespaces=10000001":                                         "want 1 to 10,000,000 (etcd",
		"nodes=3 kube-api-qps=10001":                                          "want 1 to 10,000 (the default",
		"nodes=3 pods-per-node=10001":                                         "want 1 to 10,000 (four times",
		"nodes=3 prometheus=ftp://x":                                          "is not an address",
		"nodes=3 prometheus-token=x":                                          "needs --prometheus",
		"nodes=3 prometheus=http://prometheus.example.com prometheus-token=x": "without encryption",
		"nodes=3 node-cores=1 node-ram=1 pods-per-node=250 huge-pages=900MiB": "no room for pods",
		"pods=10 apps=@":                                                      "less than the 500",
		"node-cores=2 apps=@":                                                 "would stay pending",
		"apps=[]":                                                             "0 applications",
		"apps=[{name:a}]":                                                     `line 1: unknown key "name:a" (did you mean "name"?)`,
		"nodes=3 service-cidr=172.30.0.0/30":                                  "172.30.0.0/30 is too small: the cluster's DNS takes the tenth address",
		"nodes=3 service-cidr=172.30.0.0/29":                                  "a network of /28 or larger",
		"pods=2200 overcommit=30":                                             "needs --apps FILE, which has the requests of the applications",
		"nodes=3 cluster-name=A_B":                                            "lower-case",
		"nodes=3 max-unavailable=9 pods-per-node=100":                         "more than the 3 workers",
		"nodes=3 max-unavailable=3 pods-per-node=100":                         "without affecting the applications",
		"pods=500 version=4.4 cpu-manager=static max-unavailable=3":           "1 changes the workers one by one",
	})
}

// Where the topology manager is an alpha feature, it is switched on before the kubelets
// have a policy for it.
func TestTopologyGate(t *testing.T) {
	f := sizing.Figures(t)
	for version, gated := range map[string]bool{"4.3": true, "4.4": true, "4.5": false, "4.22": false} {
		r, err := sizing.Ask(f, New(), "version", version, "pods", "2200", "cpu-manager", "static", "topology", "single-numa-node")
		if err != nil {
			t.Fatal(err)
		}
		step := func(command string) int {
			return slices.IndexFunc(r.Steps, func(s guidesizing.Step) bool { return strings.Contains(s.Command, command) })
		}
		gate, kubelet := step("feature-gate.yaml"), step("topologymanager-kubeletconfig.yaml")
		if (r.Artefact("feature-gate.yaml") != nil) != gated || (gate >= 0) != gated || gate >= kubelet {
			t.Errorf("%s: step %d, that of the kubelets is %d, %+v", version, gate, kubelet, r.Artefact("feature-gate.yaml"))
		}
		checkMonitoring(t, r)
	}
	if _, err := sizing.Ask(f, New(), "version", "4.2", "pods", "2200", "cpu-manager", "static", "topology", "single-numa-node"); !sizing.BadInput(err) || !strings.Contains(err.Error(), "4.3 introduced it") {
		t.Error(err)
	}
}

// Nodes that are full of pods are said to be, by their cores and memory; small service
// networks are told of.
func TestShares(t *testing.T) {
	f := sizing.Figures(t)
	for said, want := range map[string]string{
		"pods=2200 nodes=1":                             "with 2,200 of them on a node of 8 cores and 32 GiB each has 0.00341 cores and 14.4 MiB",
		"pods=2200 version=4.4":                         "with 220 of them on a node of 8 cores",
		"pods=10 service-cidr=172.30.0.0/28":            "172.30.0.0/28 has addresses for 14 services",
		"pods=10 service-cidr=172.30.0.0/28 services=3": "",
	} {
		r := sizing.Sized(t, f, New(), words(said)...)
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "addresses for") {
			t.Errorf("%s: %s", said, notes)
		}
	}
	if r := sizing.Sized(t, f, New(), words("apps=@ node-cores=4 node-ram=16")...); strings.Contains(strings.Join(r.Notes, "\n"), "requests of the pods are unknown") {
		t.Errorf("%v", r.Notes)
	}
}

// The reasons are those of this plan.
func TestReasons(t *testing.T) {
	f := sizing.Figures(t)
	for _, tt := range []struct{ said, value, want string }{
		{"version=4.4 pods=6000 nodes=20", "network/host_prefix", "300 pods of users, up to 15 system pods, and 3 addresses for the node itself"},
		{"version=4.4 pods=6000 nodes=20", "nodes/max_pods", "6,000 pods on 20 nodes are 300 per node, plus 15 system pods"},
		{"version=4.4 pods=2200 pods-per-node=500", "network/host_prefix", "500 pods, if all of them are users' pods, up to 15 system pods in addition, and 3 addresses for the node itself"},
		{"version=4.4 pods=2200 pods-per-node=500", "kubelet/kube_api_qps", "requests a second to the API server: the default, which suits a node with few pods, not 500: the documentation raises it if CPU and memory are free, without a number"},
		{"nodes=3", "kubelet/kube_api_qps", "requests a second to the API server: the default, which suits a node with few pods"},
		{"nodes=3", "nodes/workers", "as requested"},
		{"nodes=1", "nodes/workers", "as requested; a new cluster has two routers, and the second one waits for the infrastructure nodes"},
		{"nodes=20 pods=2200", "nodes/workers", "as requested; 10 would suffice for 2,200 pods: 220 + 15 of the system = 235 on each"},
		{"nodes=3 request-rate=1000 close=true", "routers/requests", "of one router with 4 vCPU and pages of 1 kB; TLS: edge; behind a load balancer's service; a connection per request"},
	} {
		r := sizing.Sized(t, f, New(), words(tt.said)...)
		group, name, _ := strings.Cut(tt.value, "/")
		if v := r.Value(group, name); v == nil || v.Why != tt.want {
			t.Errorf("%s: %s: %+v, want %q", tt.said, tt.value, v, tt.want)
		}
	}
	// Who has only block storage has one registry.
	r := sizing.Sized(t, f, New(), "nodes", "3", "storage", "block")
	if c := r.Choices[0]; c.For != "registry" || c.Take != "block" || !strings.Contains(strings.Join(r.Notes, " "), "only one replica") {
		t.Errorf("%+v", c)
	}
}

// The source's own numbers stand next to ours (contradiction 15).
func TestSourceBeside(t *testing.T) {
	r := sizing.Sized(t, sizing.Figures(t), New(), "apps", apps, "version", "4.4")
	for _, key := range []string{"option 1", "option 2", "option 3"} {
		v := r.Value("node types", key)
		if len(v.Also) != 1 || !strings.Contains(v.Also[0].What, "400 cores, so that the requests are 37.5 % above the capacity (27.3 % of the demand is missing)") {
			t.Errorf("%s: %+v", key, v.Also)
		}
	}
	if w := r.Value("node types", "option 1").Also[0].What; !strings.Contains(w, "350 cores and 57.1 %") {
		t.Error(w)
	}
	r = sizing.Sized(t, sizing.Figures(t), New(), "pods", "2200", "version", "4.4")
	if v := r.Value("nodes", "for_pods"); len(v.Also) != 1 || v.Also[0].Value != 10 {
		t.Errorf("%+v", v)
	}
}

func TestSubnets(t *testing.T) {
	for _, tt := range []struct {
		cidr             string
		prefix           int
		nodes, addresses float64
	}{{"10.128.0.0/14", 23, 512, 509}, {"10.128.0.0/14", 22, 256, 1021}, {"10.128.0.0/12", 23, 2048, 509}, {"10.128.0.0/10", 20, 1024, 4093}} {
		n, a := subnets(netip.MustParsePrefix(tt.cidr), tt.prefix, 3)
		if n != tt.nodes || a != tt.addresses {
			t.Errorf("%s with %d: %g nodes with %g addresses", tt.cidr, tt.prefix, n, a)
		}
	}
}

func TestUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		limit          string
		machines, want int
	}{{"40%", 25, 10}, {"40%", 6, 2}, {"40%", 3, 1}, {"40%", 2, 0}, {"2", 3, 2}, {"2", 300, 2}, {"100%", 7, 7}, {"0%", 7, 0}} {
		if got, err := allowedUnhealthy(tt.limit, tt.machines); got != tt.want || err != nil {
			t.Errorf("%s of %d: %d, %v, want %d", tt.limit, tt.machines, got, err, tt.want)
		}
	}
}

// A KubeletConfig is named after what it changes, and the step after it proves that.
func TestKubeletFile(t *testing.T) {
	f := sizing.Figures(t)
	for said, want := range map[string]struct{ file, steps string }{
		"version=4.4 pods=500 cpu-manager=static":                          {"cpumanager-kubeletconfig.yaml", "oc label node NODE cpumanager=true kubectl fettle pod verify POD"},
		"version=4.20 pods=500 cpu-manager=static topology=best-effort":    {"topologymanager-kubeletconfig.yaml", "kubectl fettle pod verify POD"},
		"version=4.4 pods=500 pods-per-node=500 cpu-manager=static":        {"change-maxPods-cr.yaml", "pods: 500 as allocatable"},
		"version=4.4 pods=500 pods-per-node=100 nodes=9 max-unavailable=3": {"change-maxPods-cr.yaml", "pods: 100 as allocatable"},
	} {
		r, err := sizing.Ask(f, New(), words(said)...)
		if err != nil {
			t.Fatal(said, err)
		}
		if r.Artefact(want.file) == nil {
			t.Errorf("%s: no %s", said, want.file)
		}
		steps := ""
		for _, s := range r.Steps {
			steps += s.Command + " " + s.Check + "\n"
		}
		for w := range strings.SplitSeq(want.steps, " kubectl") {
			if !strings.Contains(steps, strings.TrimSpace(w)) {
				t.Errorf("%s: no step has %q", said, w)
			}
		}
		if strings.Contains(steps, "pods: 250") {
			t.Errorf("%s: a check of the default proves nothing:\n%s", said, steps)
		}
	}
	r, err := sizing.Ask(f, New(), words("version=4.4 pods=5000 pods-per-node=500")...)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(r.Notes, "\n")
	if v := r.Value("container storage", "nodes"); v == nil || v.Value != 3 || !strings.Contains(v.Why, "NVMe") || !strings.Contains(notes, "OpenShift Container Storage 4") {
		t.Errorf("%+v\n%s", v, notes)
	}
	if v := r.Value("storage types", "file"); v == nil || !strings.Contains(v.Why, "Trident") || !strings.Contains(v.Why, "CNS is not supported") {
		t.Errorf("%+v", v)
	}
}

// The maximums are those of the version, and the one that is met first is on top.
func TestMaximums(t *testing.T) {
	f := sizing.Figures(t)
	for _, tt := range []struct{ said, first, over string }{
		{"version=4.4 nodes=300", "tested maximum of worker nodes", "tested maximum of worker nodes is exceeded: 300 of 250"},
		{"version=4.4 nodes=250", "tested maximum of worker nodes", ""},
		{"version=4.3 nodes=300", "nodes of the cluster network", ""},
		{"version=4.4 pods=70000 pods-per-node=500", "tested maximum of pods", "70,000 of 62,500"},
		{"version=4.2 pods=100 pods-per-node=500", "tested maximum of pods per node", "500 of 250"},
		{"version=4.20 pods=100 crds=1100", "tested maximum of crds", "1,100 of 1,024"},
		{"version=4.4 pods=100 secrets=10", "addresses on a node", "have no maximum for secrets"},
	} {
		r, err := sizing.Ask(f, New(), words(tt.said)...)
		if err != nil {
			t.Fatal(tt.said, err)
		}
		if r.Limits[0].Name != tt.first {
			t.Errorf("%s: %s is met first, want %s", tt.said, r.Limits[0].Name, tt.first)
		}
		if r.Limits[0].Over != (tt.over != "" && !strings.Contains(tt.over, "have no")) {
			t.Errorf("%s: %+v", tt.said, r.Limits[0])
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, tt.over) {
			t.Errorf("%s: no %q in\n%s", tt.said, tt.over, notes)
		}
	}
}

// A running Prometheus is taken where it needs more than the table.
func TestMeasured(t *testing.T) {
	f := sizing.Figures(t)
	ask := func(u Usage) *guidesizing.Result {
		w := New()
		w.measure = func(_ context.Context, address, token string) (*Usage, error) { return &u, nil }
		return sizing.Sized(t, f, w, "nodes", "194", "version", "4.4", "prometheus", "http://localhost:9090")
	}
	// 100 nodes of the table: 13 GB a day and 20 % of that is safety.
	r := ask(Usage{Series: 1e6, SamplesPerSecond: 5e4, BytesPerSample: 1.5, BytesFrom: "measured", Resident: 8e9, Nodes: 100})
	sizing.Want(t, r, map[string]string{"prometheus measured/scale": "2", "prometheus measured/storage": "233.28", "prometheus measured/ram": "17.881", "prometheus/volume": "350Gi"})
	r = ask(Usage{Series: 1e6, SamplesPerSecond: 2e5, BytesPerSample: 1.5, BytesFrom: "measured", Nodes: 100})
	sizing.Want(t, r, map[string]string{"prometheus measured/storage": "933.12", "prometheus/volume": "870Gi"})
	if text := r.Artefact("cluster-monitoring-config.yml").Content; !strings.Contains(text, "storage: 870Gi") {
		t.Error(text)
	}
	w := New()
	w.measure = func(context.Context, string, string) (*Usage, error) { return nil, errors.New("refused") }
	if _, err := sizing.Ask(f, w, "nodes", "3", "prometheus", "http://localhost:1"); err == nil || sizing.BadInput(err) {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// checkMonitoring checks that the document inside of the ConfigMap is valid too.
func checkMonitoring(t testing.TB, r *guidesizing.Result) {
	t.Helper()
	var m struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(r.Artefact("cluster-monitoring-config.yml").Content), &m); err != nil {
		t.Fatal(err)
	}
	if err := sizing.ReadYAML(m.Data["config.yaml"], &map[string]any{}); err != nil {
		t.Fatal(err)
	}
}

// Whatever is said of a cluster, it is sized or refused.
func FuzzRequest(f *testing.F) {
	figures := sizing.Figures(f)
	for _, said := range []string{"pods=2200 version=4.4", "nodes=3 cluster-cidr=10.128.0.0/14 host-prefix=23 mtu=9000 ipsec=true", "apps=@ overcommit=30", "nodes=3 huge-pages=1GiB huge-page=1G nodes-numa=2 version=4.20", "nodes=3 machine-cidr=0.0.0.0/0", "nodes=3 host-prefix=1 cluster-cidr=0.0.0.0/0 version=4.4 machine-cidr=0.0.0.0/32", "request-rate=1 nodes=3 page-size=1 rate=0.001 routes=1"} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		if strings.Contains(said, "prometheus") {
			return // no question here
		}
		r, err := sizing.Ask(figures, New(), words(said)...)
		if err == nil {
			sizing.Sound(t, r)
			checkMonitoring(t, r)
		}
	})
}

// An option that decides nothing is named.
func TestUnusedMaxUnavailable(t *testing.T) {
	for said, want := range map[string]bool{"pods=500 version=4.4 max-unavailable=4": true, "pods=500 version=4.4": false, "pods=500 version=4.4 cpu-manager=static max-unavailable=2": false} {
		r := sizing.Sized(t, sizing.Figures(t), New(), sizing.Words(said)...)
		if got := strings.Contains(strings.Join(r.Notes, "\n"), "--max-unavailable has no effect"); got != want {
			t.Errorf("%s: noted %v", said, got)
		}
	}
}
