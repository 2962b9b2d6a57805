// Package openshift sizes an OpenShift cluster: its nodes, networks, kubelets, monitoring, routers
// and storage. It also determines which tested maximum the cluster reaches first.
package openshift

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Request is the load that a cluster is sized for.
type Request struct {
	Version     string
	Pods        int
	PodsPerNode int // 0 for the default
	PodsPerCore int
	Nodes       int // workers; 0 for as many as needed
	NodeCores   int
	NodeRAM     unit.Size
	Apps        string
	Overcommit  float64 // percent

	ClusterCIDR, MachineCIDR, ServiceCIDR netip.Prefix
	HostPrefix                            int
	NetworkType                           string
	IPsec                                 bool
	MTU                                   int
	Rate                                  float64 // Gbit/s

	// Objects has the counts of other objects, by the name of their maximum.
	Objects map[string]*int

	MaxUnhealthy     string
	MaxUnavailable   int
	QPS, Burst       int
	CPUManager       string
	Topology         string
	RetentionDays    int
	Prometheus       string
	PrometheusToken  string
	StorageClass     string
	RequestRate      float64 // 1/s
	Route            string
	Close            bool
	HostNetwork      bool
	PageSize         unit.Size
	BareMetal        bool
	RouteApps        int
	RouteAppsKind    string
	Storage          []string
	RegistryReplicas int
	HugePages        unit.Size
	HugePage         string
	NUMANodes        int
	ClusterName      string
	BaseDomain       string

	inputs []*sizing.Input
	// measure queries a Prometheus.
	measure func(ctx context.Context, address, token string) (*Usage, error)
}

// objects are the maximums with an option of their own.
var objects = []struct{ row, option, doc string }{
	{"namespaces", "namespaces", "namespaces"},
	{"builds", "builds", "builds"},
	{"build_configs", "build-configs", "build configurations"},
	{"pods_per_namespace", "pods-per-namespace", "pods of the largest namespace"},
	{"services", "services", "services"},
	{"services_per_namespace", "services-per-namespace", "services of the largest namespace"},
	{"backends_per_service", "backends-per-service", "pods behind the largest service"},
	{"deployments_per_namespace", "deployments-per-namespace", "deployments of the largest namespace"},
	{"routes", "routes", "routes"},
	{"secrets", "secrets", "secrets"},
	{"config_maps", "config-maps", "config maps"},
	{"crds", "crds", "custom resource definitions"},
}

// The maximum accepted counts. Tested maximums are 2000 nodes, 150,000 pods, 2500 pods per node.
const (
	mostNodes = 20_000
	mostPods  = 1_500_000
)

const (
	aboutPods    = "ten times the highest tested maximum of any version; beyond it use several clusters"
	aboutNodes   = aboutPods
	aboutObjects = "etcd has 8 GiB for all objects, and an object takes about a kilobyte"
	aboutRate    = "twice the fastest Ethernet port"
	aboutMTU     = "every IPv4 host accepts packets of 576 bytes, and 65,535 is the longest"
	aboutMemory  = "x86-64 addresses 64 TiB"
)

// New returns a request with the defaults.
func New() *Request {
	w := &Request{
		NodeCores: 8, NodeRAM: 32 * unit.GiB, MTU: 1500, Rate: 1, Objects: map[string]*int{},
		MaxUnavailable: 1, CPUManager: "none", Topology: "none",
		Route: "edge", PageSize: 1000, RouteAppsKind: "dynamic", Storage: []string{"block", "file", "object"}, RegistryReplicas: 2,
		HugePage: "2M", NUMANodes: 1, ClusterName: "cluster", BaseDomain: "example.com", measure: measure,
	}
	w.inputs = []*sizing.Input{
		sizing.Text(&w.Version, "version", "version of OpenShift, such as 4.4 (default the newest known)", nil),
		sizing.Count(&w.Pods, "pods", "pods of the whole cluster, without system pods", 1, mostPods).Because(aboutPods),
		sizing.Count(&w.PodsPerNode, "pods-per-node", "maximum pods on a node (maxPods)", 1, 10000).Because("four times the highest tested maximum of any version"),
		sizing.Count(&w.PodsPerCore, "pods-per-core", "maximum pods per core of a node; 0 means unlimited", 0, 10000).Because("it cannot exceed maxPods"),
		sizing.Count(&w.Nodes, "nodes", "worker nodes (default the number that the pods need)", 1, mostNodes).Because(aboutNodes),
		sizing.Count(&w.NodeCores, "node-cores", "cores of a worker node", 1, 4096).Because("RHEL supports no larger machine"),
		sizing.Gibibytes(&w.NodeRAM, "node-ram", "memory of a worker node: a size such as 32GiB, or a bare number of GiB", unit.GiB, 64*unit.TiB).Because(aboutMemory),
		sizing.FileText(&w.Apps, "apps", "table of applications: a YAML list of {name, quantity, cpu, memory, storage, overcommit}"),
		sizing.Number(&w.Overcommit, "overcommit", "how far the applications' requests may exceed the nodes' capacity, in percent", 0, 1000).Because("the documentation calls 30 common"),
		sizing.Net(&w.ClusterCIDR, "cluster-cidr", "network of the pods"),
		sizing.Count(&w.HostPrefix, "host-prefix", "prefix length of each node's part of --cluster-cidr", 8, 30).Because("10.0.0.0/8 is the largest private network, and a /30 has an address for one pod"),
		sizing.Net(&w.MachineCIDR, "machine-cidr", "network of the machines"),
		sizing.Net(&w.ServiceCIDR, "service-cidr", "network of the services"),
		sizing.Word(&w.NetworkType, "network-type", "network plug-in (default depends on the version)", "OpenShiftSDN", "OVNKubernetes"),
		sizing.Truth(&w.IPsec, "ipsec", "encrypt the traffic between nodes"),
		sizing.Count(&w.MTU, "mtu", "MTU of the machines' network devices in bytes", 576, 65535).Because(aboutMTU),
		sizing.Number(&w.Rate, "rate", "speed of the machines' network devices in Gbit/s", 0.001, server.MaxRate).Because(aboutRate),
		sizing.Text(&w.MaxUnhealthy, "max-unhealthy", "replace unhealthy machines only while there are at most this many: a number, or a share such as 40%", unhealthy),
		sizing.Count(&w.MaxUnavailable, "max-unavailable", "workers that may be unavailable at once while the kubelets are changed", 1, mostNodes).Because(aboutNodes),
		sizing.Count(&w.QPS, "kube-api-qps", "maximum requests per second of a kubelet to the API server", 1, 10000).Because("the default is 50, and all kubelets share the API servers"),
		sizing.Count(&w.Burst, "kube-api-burst", "maximum requests of a kubelet in a burst", 1, 20000).Because("the default is 100, and all kubelets share the API servers"),
		sizing.Word(&w.CPUManager, "cpu-manager", "whether pods can have exclusive CPUs", "none", "static"),
		sizing.Word(&w.Topology, "topology", "NUMA alignment of the CPUs and devices of a pod", "none", "best-effort", "restricted", "single-numa-node"),
		sizing.Count(&w.RetentionDays, "retention", "days for which Prometheus keeps samples", 1, 3650).Because("ten years"),
		sizing.Text(&w.Prometheus, "prometheus", "address of a running Prometheus whose load is used for sizing, such as http://localhost:9090 (timeout 30 s)", nil),
		sizing.FileText(&w.PrometheusToken, "prometheus-token", "file with the bearer token for --prometheus"),
		sizing.Text(&w.StorageClass, "storage-class", "storage class of the volumes of monitoring", objectName),
		sizing.Number(&w.RequestRate, "request-rate", "requests a second through the routers", 0.001, 1e8).Because("a router serves up to 53,295"),
		sizing.Word(&w.Route, "route", "TLS termination of the routes", "none", "edge", "passthrough", "re-encrypt"),
		sizing.Truth(&w.Close, "close", "clients close the connection after each request"),
		sizing.Truth(&w.HostNetwork, "host-network", "routers use the machine's network instead of a load balancer service"),
		sizing.Size(&w.PageSize, "page-size", "size of a response", 1, unit.GiB).Because("the routers were measured with pages of 1 kB"),
		sizing.Truth(&w.BareMetal, "bare-metal", "the machines are bare metal"),
		sizing.Count(&w.RouteApps, "route-apps", "applications behind the routers", 1, 100_000).Because("ten times the routes that two routers were tested with"),
		sizing.Word(&w.RouteAppsKind, "route-apps-kind", "whether the applications serve files or generate responses", "static", "dynamic"),
		sizing.Words(&w.Storage, "storage", "available storage technologies", "block", "file", "object"),
		sizing.Count(&w.RegistryReplicas, "registry-replicas", "pods of the image registry", 1, 100).Because("two or more are a scaled registry"),
		sizing.Size(&w.HugePages, "huge-pages", "memory in huge pages of each node that has huge pages", unit.MiB, 64*unit.TiB).Because("a page is 2 MiB or 1 GiB, and " + aboutMemory),
		sizing.Word(&w.HugePage, "huge-page", "size of a huge page", "2M", "1G"),
		sizing.Count(&w.NUMANodes, "nodes-numa", "NUMA nodes of a machine with huge pages", 1, 1024).Because("Linux supports no more"),
		sizing.Text(&w.ClusterName, "cluster-name", "name of the cluster", objectName),
		sizing.Text(&w.BaseDomain, "base-domain", "domain of the cluster", domainName),
	}
	for _, o := range objects {
		w.Objects[o.row] = new(int)
		w.inputs = append(w.inputs, sizing.Count(w.Objects[o.row], o.option, o.doc, 1, 10_000_000).Because(aboutObjects))
	}
	return w
}

// nodeGiB returns the memory of a worker node in GiB.
func (w *Request) nodeGiB() float64 { return sizing.GiB(float64(w.NodeRAM)) }

// Inputs implements sizing.Request.
func (w *Request) Inputs() []*sizing.Input { return w.inputs }

func (w *Request) input(name string) *sizing.Input {
	return w.inputs[slices.IndexFunc(w.inputs, func(in *sizing.Input) bool { return in.Name == name })]
}

func (w *Request) given(name string) bool { return w.input(name).Given() }

var (
	nameForm   = text.LazyRegexp(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	domainForm = text.LazyRegexp(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)
)

func objectName(s string) error {
	if !nameForm().MatchString(s) {
		return fmt.Errorf("%q: want lower-case letters, digits and \"-\", at most 63", s)
	}
	return nil
}

func domainName(s string) error {
	if !domainForm().MatchString(s) || len(s) > 253 {
		return fmt.Errorf("%q is not a domain name", s)
	}
	return nil
}

func unhealthy(s string) error {
	_, err := allowedUnhealthy(s, 100)
	return err
}

// allowedUnhealthy returns the maximum number of broken machines that are replaced; a percentage
// is rounded down (OpenShift 4.4 Scalability and Performance, 3.4.1.2).
func allowedUnhealthy(limit string, machines int) (int, error) {
	text, share := strings.CutSuffix(limit, "%")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || share && n > 100 || n > mostNodes {
		return 0, fmt.Errorf("%q: want a number, or a share from 0%% to 100%%", limit)
	}
	if share {
		return machines * n / 100, nil
	}
	return n, nil
}

func measure(ctx context.Context, address, token string) (*Usage, error) {
	s, err := prometheus.Open(address, token)
	if err != nil {
		return nil, sizing.Bad("prometheus", "%w", err)
	}
	return Measure(ctx, s)
}

// check returns an error for a request that contradicts itself.
func (w *Request) check() error {
	var problems []*sizing.InputError
	fault := func(works, input, format string, args ...any) {
		problem := &sizing.InputError{Input: input, Err: fmt.Errorf(format, args...)}
		if works != "" {
			problem.Works = []string{works}
		}
		problems = append(problems, problem)
	}
	if w.Pods == 0 && w.Nodes == 0 && w.Apps == "" {
		fault("--pods=500", "pods", "not given; set --pods N, --apps FILE or --nodes N")
	}
	if w.Topology != "none" && w.CPUManager != "static" {
		fault("--cpu-manager=static", "topology", "%s has no effect without --cpu-manager static", w.Topology)
	}
	if w.Overcommit > 0 && w.Apps == "" {
		fault("", "overcommit", "needs --apps FILE, which has the requests of the applications")
	}
	if w.PrometheusToken != "" && w.Prometheus == "" {
		fault("", "prometheus-token", "needs --prometheus URL")
	}
	if w.HugePages > w.NodeRAM {
		fault("", "huge-pages", "%s is more than the %s GiB of a node", w.HugePages, unit.Digits(w.nodeGiB()))
	}
	if len(problems) > 1 { // one remedy is not enough for all problems
		for _, p := range problems {
			p.Works = nil
		}
	}
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = p
	}
	return errors.Join(all...)
}
