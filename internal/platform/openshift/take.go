package openshift

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// take adds what a document says.
func (t *told) take(d document) {
	switch d.kind() {
	case "InstallConfig":
		t.installConfig(d)
	case "KubeletConfig":
		item := t.item(kubelets, d)
		t.number(d, item+".max_pods", "spec", "kubeletConfig", "maxPods")
		t.number(d, item+".pods_per_core", "spec", "kubeletConfig", "podsPerCore")
		t.number(d, item+".qps", "spec", "kubeletConfig", "kubeAPIQPS")
		t.number(d, item+".burst", "spec", "kubeletConfig", "kubeAPIBurst")
		t.words(d, item+".cpu_manager", "spec", "kubeletConfig", "cpuManagerPolicy")
		t.words(d, item+".topology", "spec", "kubeletConfig", "topologyManagerPolicy")
	case "MachineHealthCheck":
		item := t.item(checks, d)
		t.words(d, item+".api", "apiVersion")
		t.words(d, item+".max_unhealthy", "spec", "maxUnhealthy")
		t.words(d, item+".role", "spec", "selector", "matchLabels", "machine.openshift.io/cluster-api-machine-role")
	case "Network":
		t.number(d, "overlay_mtu", "spec", "defaultNetwork", "ovnKubernetesConfig", "mtu")
		t.number(d, "overlay_mtu", "spec", "defaultNetwork", "openshiftSDNConfig", "mtu")
	case "ConfigMap":
		t.monitoring(d)
	}
}

// item is a document as one of a set, by its file and name.
func (t *told) item(set string, d document) string {
	name := d.text("metadata", "name")
	if name == "" {
		name = fmt.Sprintf("line %d", d.Line)
	}
	name = strings.TrimPrefix(d.file, "/") + " " + name
	t.items[set] = append(t.items[set], name)
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

// number gives an input the number that the keys lead to, if it is there.
func (t *told) number(d document, input string, keys ...string) (value float64, ok bool) {
	n := d.get(keys...)
	if n == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.unclear(input, d.at(n), fmt.Errorf("%s is no number", strings.Join(keys, ".")))
		return 0, false
	}
	t.give(input, v, d.at(n))
	return v, true
}

// installConfig is the networks and the numbers of machines.
func (t *told) installConfig(d document) {
	t.words(d, "network_type", "networking", "networkType")
	t.number(d, "control_plane", "controlPlane", "replicas")
	if pools := d.get("compute"); pools != nil && pools.Kind == yaml.SequenceNode {
		workers := 0.0
		for _, p := range pools.Content {
			if n := get(p, "replicas"); n != nil {
				v, err := strconv.ParseFloat(n.Value, 64)
				if err != nil {
					t.unclear("workers", d.at(n), fmt.Errorf("compute.replicas is no number"))
					return
				}
				workers += v
			}
		}
		t.give("workers", workers, d.at(pools))
	}
	type named struct {
		name string
		net  netip.Prefix
	}
	var all []named
	at := d.at(d.get("networking"))
	network := func(name string, n *yaml.Node) (p netip.Prefix, ok bool) {
		if n == nil {
			return p, false
		}
		p, err := netip.ParsePrefix(n.Value)
		if err != nil {
			t.unclear("overlaps", d.at(n), fmt.Errorf("%q is no network", n.Value))
			return p, false
		}
		all = append(all, named{name, p})
		return p, true
	}
	clusters := d.get("networking", "clusterNetwork")
	if clusters != nil && clusters.Kind == yaml.SequenceNode && len(clusters.Content) > 0 {
		first := clusters.Content[0] // the second is of IPv6
		cidr, prefix := get(first, "cidr"), get(first, "hostPrefix")
		c, ok := network("cluster", cidr)
		if ok {
			t.give("cluster_cidr", c.String(), d.at(cidr))
		}
		host, err := 0, fmt.Errorf("no host prefix")
		if prefix != nil {
			host, err = strconv.Atoi(prefix.Value)
		}
		if ok && err == nil && c.Addr().Is4() && host >= c.Bits() && host <= 32 {
			t.give("host_prefix", float64(host), d.at(prefix))
			t.give("nodes_max", math.Exp2(float64(host-c.Bits())), d.at(prefix))
			// Network, broadcast and the node's own are no pod's.
			t.give("addresses_per_node", math.Exp2(float64(32-host))-3, d.at(prefix))
		} else if ok && c.Addr().Is4() {
			for _, input := range []string{"host_prefix", "nodes_max", "addresses_per_node"} {
				t.unclear(input, d.at(first), fmt.Errorf("a host prefix between %d and 32 is wanted", c.Bits()))
			}
		}
	}
	machine := d.get("networking", "machineCIDR")
	if list := d.get("networking", "machineNetwork"); list != nil && list.Kind == yaml.SequenceNode && len(list.Content) > 0 {
		machine = get(list.Content[0], "cidr")
	}
	if m, ok := network("machine", machine); ok && m.Addr().Is4() {
		t.give("machine_addresses", max(0, math.Exp2(float64(32-m.Bits()))-2), d.at(machine))
	}
	if list := d.get("networking", "serviceNetwork"); list != nil && list.Kind == yaml.SequenceNode && len(list.Content) > 0 {
		network("service", follow(list.Content[0]))
	}
	if _, broken := t.answers["openshift.overlaps"]; broken {
		return
	}
	var both []string
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.net.Overlaps(b.net) {
				both = append(both, fmt.Sprintf("%s %s and %s %s", a.name, a.net, b.name, b.net))
			}
		}
	}
	t.give("overlaps", strings.Join(both, ", "), at)
}

// monitoring is the retention and the volume of Prometheus.
func (t *told) monitoring(d document) {
	n := d.get("data", "config.yaml")
	at := d.at(n)
	t.give("monitoring.document", true, at)
	inner := &yaml.Node{}
	if n == nil || yaml.Unmarshal([]byte(n.Value), inner) != nil || len(inner.Content) == 0 {
		for _, input := range []string{"monitoring.retention_days", "monitoring.prometheus_bytes"} {
			t.unclear(input, at, fmt.Errorf("config.yaml cannot be read"))
		}
		return
	}
	if keep := get(inner.Content[0], "prometheusK8s", "retention"); keep != nil {
		days, err := duration(keep.Value)
		if err != nil {
			t.unclear("monitoring.retention_days", at, err)
		} else {
			t.give("monitoring.retention_days", days, at)
		}
	}
	size := get(inner.Content[0], "prometheusK8s", "volumeClaimTemplate", "spec", "resources", "requests", "storage")
	if size == nil {
		t.give("monitoring.prometheus_bytes", 0.0, at)
		return
	}
	bytes, err := quantity(size.Value)
	if err != nil {
		t.unclear("monitoring.prometheus_bytes", at, err)
		return
	}
	t.give("monitoring.prometheus_bytes", bytes, at)
}

// duration is a time of Prometheus (15d, 24h) in days.
func duration(text string) (float64, error) {
	days := map[byte]float64{'y': 365, 'w': 7, 'd': 1, 'h': 1. / 24, 'm': 1. / 1440, 's': 1. / 86400}
	if text == "" || days[text[len(text)-1]] == 0 {
		return 0, fmt.Errorf("%q is no time: want one such as 15d", text)
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no time: want one such as 15d", text)
	}
	return float64(n) * days[text[len(text)-1]], nil
}

// quantity is an amount of bytes as Kubernetes writes it.
func quantity(text string) (float64, error) {
	i := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		i = len(text)
	}
	factor := map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}[text[i:]]
	n, err := strconv.ParseFloat(text[:i], 64)
	if err != nil || factor == 0 || n*factor > 1e18 {
		return 0, fmt.Errorf("%q is no amount: want one such as 100Gi", text)
	}
	return n * factor, nil
}
