package openshift

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	internaltext "fettle.dev/fettle/internal/text"
)

// Default networks of an installation (table openshift-networks; a test compares them), and
// those of OVN-Kubernetes.
const (
	defaultCluster = "10.128.0.0/14"
	defaultMachine = "10.0.0.0/16"
	defaultService = "172.30.0.0/16"
	joinSwitch     = "100.64.0.0/16"
	transitSwitch  = "100.88.0.0/16"
	ovn            = "OVNKubernetes"
)

// network is a network and its position.
type network struct {
	name   string
	prefix netip.Prefix
	at     string
	host   int    // prefix of each node's subnet
	hostAt string // position of host
	err    error
}

// networks are the networks of one document.
type networks struct {
	cluster, machine, service []network
	join, transit             []network
	kind                      fact.Answer // the plug-in
}

// order is the precedence of documents; the cluster's own configuration is the one in force.
var order = []string{"config", "operator", "install"}

// one parses a network.
func (d document) one(name string, n *yaml.Node) network {
	if n == nil {
		return network{name: name, at: d.at(nil), err: fmt.Errorf("the %s network has no address", name)}
	}
	p, err := netip.ParsePrefix(n.Value)
	if err != nil {
		err = fmt.Errorf("%q is not a network", n.Value)
	}
	return network{name: name, prefix: p, at: d.at(n), err: err}
}

// clusters parses a list of cluster networks.
func (d document) clusters(n *yaml.Node) []network {
	var out []network
	for _, c := range list(n) {
		one := d.one("cluster", get(c, "cidr"))
		prefix := get(c, "hostPrefix")
		one.host, one.hostAt = 23, one.at
		if one.err == nil && one.prefix.Addr().Is6() {
			one.host = 64
		}
		if prefix != nil {
			one.hostAt = d.at(prefix)
			host, err := strconv.Atoi(prefix.Value)
			if err != nil {
				host = -1
			}
			one.host = host
		}
		out = append(out, one)
	}
	return out
}

// installConfig reads networks and machine numbers for openshift-install, with its defaults.
func (t *collector) installConfig(d document) {
	fixed := func(name, cidr string) []network {
		return []network{{name: name, prefix: netip.MustParsePrefix(cidr), host: 23, at: d.at(nil), hostAt: d.at(nil)}}
	}
	n := networks{cluster: fixed("cluster", defaultCluster), machine: fixed("machine", defaultMachine), service: fixed("service", defaultService)}
	if c := d.clusters(d.get("networking", "clusterNetwork")); len(c) > 0 {
		n.cluster = c
	}
	if m := d.get("networking", "machineCIDR"); m != nil {
		n.machine = []network{d.one("machine", m)}
	}
	if m := list(d.get("networking", "machineNetwork")); len(m) > 0 {
		n.machine = nil
		for _, c := range m {
			n.machine = append(n.machine, d.one("machine", get(c, "cidr")))
		}
	}
	if s := list(d.get("networking", "serviceNetwork")); len(s) > 0 {
		n.service = nil
		for _, c := range s {
			n.service = append(n.service, d.one("service", c))
		}
	}
	if k := d.get("networking", "networkType"); k != nil {
		n.kind = fact.Answer{Value: k.Value, At: d.at(k)}
	}
	n.join, n.transit = d.switches("networking", "ovnKubernetesConfig")
	t.networks["install"] = n

	t.controlPlane = d.replicas(d.get("controlPlane"), d.get("controlPlane"))
	if pools := list(d.get("compute")); len(pools) > 0 {
		sum := 0.0
		for _, p := range pools {
			a := d.replicas(p, d.get("compute"))
			if a.Unknown != "" {
				t.workers = a
				return
			}
			sum += a.Value.(float64)
		}
		t.workers = fact.Answer{Value: sum, At: d.at(d.get("compute"))}
		return
	}
	t.workers = fact.Answer{Value: 3.0, At: d.at(nil)}
}

// replicas returns the number of machines of a pool, by default three.
func (d document) replicas(pool, at *yaml.Node) fact.Answer {
	n := get(pool, "replicas")
	if n == nil {
		return fact.Answer{Value: 3.0, At: d.at(at)}
	}
	v, err := strconv.ParseUint(n.Value, 10, 31)
	if err != nil {
		return fact.Answer{Unknown: d.at(n) + ": replicas is not a number", At: d.at(n)}
	}
	return fact.Answer{Value: float64(v), At: d.at(n)}
}

// network reads a Network of the cluster's configuration, or of its operator.
func (t *collector) network(d document) {
	from := "operator"
	if strings.HasPrefix(d.text("apiVersion"), "config.") {
		from = "config"
	}
	n := networks{cluster: d.clusters(d.get("spec", "clusterNetwork"))}
	for _, s := range list(d.get("spec", "serviceNetwork")) {
		n.service = append(n.service, d.one("service", s))
	}
	for _, k := range []*yaml.Node{d.get("spec", "networkType"), d.get("spec", "defaultNetwork", "type")} {
		if k != nil {
			n.kind = fact.Answer{Value: k.Value, At: d.at(k)}
		}
	}
	n.join, n.transit = d.switches("spec", "defaultNetwork", "ovnKubernetesConfig")
	t.networks[from] = n
	t.number(d, "overlay_mtu", "spec", "defaultNetwork", "ovnKubernetesConfig", "mtu")
	t.number(d, "overlay_mtu", "spec", "defaultNetwork", "openshiftSDNConfig", "mtu")
	if c := d.get("spec", "defaultNetwork", "ovnKubernetesConfig", "ipsecConfig"); c != nil {
		t.give("ipsec", "Full", d.at(c)) // before modes existed, the key alone enabled IPsec
		t.words(d, "ipsec", "spec", "defaultNetwork", "ovnKubernetesConfig", "ipsecConfig", "mode")
	}
}

// switches returns OVN-Kubernetes's internal networks that are set.
func (d document) switches(keys ...string) (join, transit []network) {
	at := func(more ...string) *yaml.Node { return d.get(append(append([]string{}, keys...), more...)...) }
	for _, n := range []*yaml.Node{at("v4InternalSubnet"), at("ipv4", "internalJoinSubnet")} {
		if n != nil {
			join = []network{d.one("OVN-Kubernetes's join switch", n)}
		}
	}
	if n := at("ipv4", "internalTransitSwitchSubnet"); n != nil {
		transit = []network{d.one("OVN-Kubernetes's transit switch", n)}
	}
	return join, transit
}

// finishNetworks combines the documents' networks and answers the inputs about them.
func (t *collector) finishNetworks() {
	if len(t.networks) == 0 {
		return
	}
	var n networks
	var kinds []string
	for _, from := range order {
		more := t.networks[from]
		for _, l := range []struct{ to, from *[]network }{{&n.cluster, &more.cluster}, {&n.machine, &more.machine}, {&n.service, &more.service}, {&n.join, &more.join}, {&n.transit, &more.transit}} {
			if len(*l.to) == 0 {
				*l.to = *l.from
			}
		}
		if n.kind.Value == nil {
			n.kind = more.kind
		}
		if k, ok := more.kind.Value.(string); ok && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) > 0 {
		t.give("network_types", kinds, n.kind.At)
	}
	if n.kind.Value != nil {
		t.give("network_type", n.kind.Value, n.kind.At)
	}
	t.parts(n.cluster)
	t.room("machine_addresses", n.machine)
	t.room("service_addresses", n.service)
	every := append(append(append([]network{}, n.cluster...), n.machine...), n.service...)
	at := ""
	if len(every) > 0 {
		at = every[0].at
	}
	if len(n.cluster) == 0 {
		return // only an operator's MTU
	}
	own := func(given []network, name, cidr string) []network {
		if n.kind.Value != ovn {
			return nil
		}
		if len(given) > 0 {
			return given
		}
		return []network{{name: name, prefix: netip.MustParsePrefix(cidr)}}
	}
	transit := own(n.transit, "OVN-Kubernetes's transit switch", transitSwitch)
	t.overlaps("overlaps", append(every, own(n.join, "OVN-Kubernetes's join switch", joinSwitch)...), at, nil)
	t.overlaps("overlaps_transit", every, at, transit)
}

// overlaps answers with the overlapping pairs of networks: within every, or between every and others.
func (t *collector) overlaps(input string, every []network, at string, others []network) {
	var both []string
	for i, a := range every {
		if a.err != nil {
			t.unclear(input, a.at, a.err)
			return
		}
		with := others
		if others == nil {
			with = every[i+1:]
		}
		for _, b := range with {
			switch {
			case b.err != nil:
				t.unclear(input, b.at, b.err)
				return
			case a.prefix.Overlaps(b.prefix):
				both = append(both, fmt.Sprintf("%s %s and %s %s", a.name, a.prefix, b.name, b.prefix))
				if len(both) == 1 {
					at = a.at
				}
			}
		}
	}
	if others == nil && input == "overlaps_transit" {
		return // no such switch
	}
	t.give(input, strings.Join(both, ", "), at)
}

// parts answers with the number of nodes for which the cluster networks have a subnet, and with
// the pods per subnet. Networks of one family add up; a node has a subnet of each family.
func (t *collector) parts(all []network) {
	if len(all) == 0 {
		return
	}
	sum := map[bool]float64{} // by whether the network is IPv4
	addresses := math.Inf(1)
	for _, n := range all {
		if n.err != nil {
			for _, input := range []string{"cluster_cidr", "host_prefix", "nodes_max", "addresses_per_node"} {
				t.unclear(input, n.at, n.err)
			}
			return
		}
		bits := n.prefix.Addr().BitLen()
		if n.host < n.prefix.Bits() || n.host > bits {
			for _, input := range []string{"host_prefix", "nodes_max", "addresses_per_node"} {
				t.unclear(input, n.hostAt, internaltext.Errorf("want a host prefix from %d to %d", n.prefix.Bits(), bits))
			}
			return
		}
		sum[n.prefix.Addr().Is4()] += math.Exp2(float64(n.host - n.prefix.Bits()))
		// Pods cannot have the network, broadcast and node addresses.
		addresses = min(addresses, math.Exp2(float64(bits-n.host))-3)
	}
	most := math.Inf(1)
	for _, n := range sum {
		most = min(most, n)
	}
	first := all[0]
	t.give("cluster_cidr", first.prefix.String(), first.at)
	t.give("host_prefix", float64(first.host), first.hostAt)
	t.give("nodes_max", most, first.hostAt)
	t.give("addresses_per_node", max(0, addresses), first.hostAt)
}

// room answers with the total number of addresses in networks.
func (t *collector) room(input string, all []network) {
	sum, known := 0.0, false
	for _, n := range all {
		if n.err != nil {
			t.unclear(input, n.at, n.err)
			return
		}
		if n.prefix.Addr().Is4() {
			sum, known = sum+max(0, math.Exp2(float64(32-n.prefix.Bits()))-2), true
		}
	}
	if known {
		t.give(input, sum, all[0].at)
	}
}
