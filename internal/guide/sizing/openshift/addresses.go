package openshift

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// smallestServices is the prefix of the smallest service network that has a tenth address, which
// the cluster's DNS uses (cluster-dns-operator, "dns-default").
const smallestServices = 28

// standardPrefix is the default host prefix.
const standardPrefix = 23

// subnets returns the number of node subnets in a cluster network, and the number of addresses per
// subnet for pods, without reserved ones.
func subnets(cluster netip.Prefix, hostPrefix, reserved int) (nodes, addresses float64) {
	return sizing.Power(hostPrefix - cluster.Bits()), sizing.Power(32-hostPrefix) - float64(reserved)
}

// prefixFor returns the longest host prefix, at most the standard one, whose subnets have enough
// addresses for a number of pods.
func prefixFor(pods, reserved int) int {
	prefix := standardPrefix
	for sizing.Power(32-prefix) < float64(pods+reserved) {
		prefix--
	}
	return prefix
}

// addresses decides the cluster network and the node subnets, and checks that no networks overlap.
func (p *plan) addresses() error {
	node := p.Table("openshift-kubelet")
	reserved := int(node.Number("reserved_addresses", "value"))
	// Although cores limit the pods too: a node with more cores may be added later, and its subnet
	// cannot grow.
	wanted := p.userPods + p.systemPods
	p.hostPrefix = p.w.HostPrefix
	why := text.Sprintf("%s of users, up to %d system pods, and %d addresses for the node itself", text.Count(p.userPods, "pod"), p.systemPods, reserved)
	if p.userPods == p.maxPods {
		// The source's own example (9.1): 500 user pods need a /22.
		why = text.Sprintf("%s, if all of them are users' pods, up to %d system pods in addition, and %d addresses for the node itself", text.Count(p.maxPods, "pod"), p.systemPods, reserved)
	}
	if p.maxPods > p.podsPerNode {
		why += text.Sprintf("; today's nodes take %d, but a node with more cores may be added", p.podsPerNode)
	}
	longest := prefixFor(wanted, reserved)
	if p.hostPrefix == 0 {
		p.hostPrefix = longest
	} else if sizing.Power(32-p.hostPrefix) < float64(wanted+reserved) {
		return sizing.Instead("host-prefix", longest, "%d gives each node %s addresses for pods, but %d are needed (%s); use at most %d", p.hostPrefix, unit.Digits(max(0, sizing.Power(32-p.hostPrefix)-float64(reserved))), wanted, why, longest)
	}
	sources, err := p.clusterNetwork(reserved)
	if err != nil {
		return err
	}
	most, each := subnets(p.w.ClusterCIDR, p.hostPrefix, reserved)
	p.Add(sizing.Value{Group: "network", Name: "cluster_cidr", Value: p.w.ClusterCIDR.String(), Why: text.Sprintf("%s; it cannot be changed after the installation", text.Count(p.nodes, "node")), Sources: sources})
	p.Add(sizing.Value{Group: "network", Name: "host_prefix", Value: p.hostPrefix, Why: why, Sources: node.Sources})
	p.Add(sizing.Value{Group: "network", Name: "nodes_max", Value: most, Unit: "nodes", Why: text.Sprintf("2^(%d - %d) parts of the cluster network", p.hostPrefix, p.w.ClusterCIDR.Bits())})
	p.Add(sizing.Value{Group: "network", Name: "addresses_per_node", Value: each, Unit: "addresses", Why: text.Sprintf("2^(32 - %d) - %d", p.hostPrefix, reserved)})
	p.Max(sizing.Limit{Name: "nodes of the cluster network", Maximum: most, Wanted: float64(p.nodes), Why: p.w.ClusterCIDR.String() + text.Sprintf(", host prefix %d", p.hostPrefix), Sources: sources})
	p.Max(sizing.Limit{Name: "addresses on a node", Maximum: each, Wanted: float64(wanted), Why: text.Sprintf("host prefix %d", p.hostPrefix), Sources: node.Sources})
	return p.otherNetworks()
}

// clusterNetwork uses the requested network if it is large enough for the nodes, else the smallest
// sufficient one of the catalog.
func (p *plan) clusterNetwork(reserved int) ([]rule.Source, error) {
	e := p.Newest("openshift-cluster-network")
	fits := func(c netip.Prefix) bool {
		if p.hostPrefix <= c.Bits() {
			return p.nodes <= 1 && p.hostPrefix == c.Bits()
		}
		n, _ := subnets(c, p.hostPrefix, reserved)
		return n >= float64(p.nodes)
	}
	if asked := p.w.ClusterCIDR; asked.IsValid() {
		if fits(asked) {
			return e.Sources, nil
		}
		shortest := p.hostPrefix
		for sizing.Power(p.hostPrefix-shortest) < float64(p.nodes) {
			shortest--
		}
		p.w.ClusterCIDR = netip.Prefix{}
		if _, err := p.clusterNetwork(reserved); err != nil {
			return nil, err
		}
		return nil, sizing.Instead("cluster-cidr", p.w.ClusterCIDR, "%s with host prefix %d has parts for %s nodes, not %d: use a network of /%d or larger", asked, p.hostPrefix, unit.Digits(max(0, sizing.Power(p.hostPrefix-asked.Bits()))), p.nodes, max(shortest, 0))
	}
	var known []string
	for i, key := range e.Keys() {
		c, err := netip.ParsePrefix(e.Text(key, "cidr"))
		known = append(known, e.Text(key, "cidr"))
		if err != nil {
			return nil, err
		}
		// The source limits the default network slightly below the arithmetic.
		if fits(c) && (i > 0 || float64(p.nodes) <= e.Number(key, "nodes_max")) {
			p.w.ClusterCIDR = c
			return e.Sources, nil
		}
	}
	return nil, sizing.Bad("cluster-cidr", "none of the networks %s has parts for %s with host prefix %d; set a larger network, or fewer pods per node", strings.Join(known, ", "), text.Count(p.nodes, "node"), p.hostPrefix)
}

// namedNet is a network of the cluster; input is the option that sets it, or "".
type namedNet struct {
	name, input string
	net         netip.Prefix
}

type namedNets []namedNet

// of returns the network of an option, enlarged if necessary for the number of addresses.
func (all namedNets) of(input string, addresses int) namedNet {
	i := slices.IndexFunc(all, func(n namedNet) bool { return n.input == input })
	n := all[i]
	n.net = netip.PrefixFrom(n.net.Addr(), min(n.net.Bits(), 32-bits.Len(uint(addresses-1)))).Masked()
	return n
}

// elsewhere returns the error about a network. It suggests a private network of the same size that
// overlaps no other.
func (all namedNets) elsewhere(n namedNet, format string, args ...any) error {
	for _, private := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} {
		space := netip.MustParsePrefix(private)
		for at := space.Addr(); n.net.Bits() >= space.Bits() && space.Contains(at); {
			free := netip.PrefixFrom(at, n.net.Bits())
			if !slices.ContainsFunc(all, func(o namedNet) bool { return o.input != n.input && o.net.Overlaps(free) }) {
				return sizing.Instead(n.input, free, format, args...)
			}
			next := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(at.AsSlice())+1<<(32-n.net.Bits()))
			at, _ = netip.AddrFromSlice(next)
		}
	}
	return sizing.Bad(n.input, format, args...)
}

// otherNetworks checks that no two networks overlap and that they have enough addresses.
func (p *plan) otherNetworks() error {
	e := p.Table("openshift-networks")
	all := namedNets{{"the cluster network", "cluster-cidr", p.w.ClusterCIDR}}
	for _, key := range e.Keys() {
		n := namedNet{"the network of OVN-Kubernetes's " + strings.TrimPrefix(key, "OVNKubernetes "), "", netip.Prefix{}}
		into := &n.net
		switch key {
		case "machine":
			n.name, n.input, into = "the machine network", "machine-cidr", &p.w.MachineCIDR
		case "service":
			n.name, n.input, into = "the service network", "service-cidr", &p.w.ServiceCIDR
		default:
			if p.network != "OVNKubernetes" {
				continue
			}
		}
		if !into.IsValid() {
			var err error
			if *into, err = netip.ParsePrefix(e.Text(key, "cidr")); err != nil {
				return err
			}
		}
		n.net = *into
		all = append(all, n)
	}
	for i, b := range all {
		for _, a := range all[:i] {
			if !a.net.Overlaps(b.net) {
				continue
			}
			if a.input == "" || b.input != "" && !p.w.given(a.input) && p.w.given(b.input) {
				a, b = b, a
			}
			return all.elsewhere(a, "%s %s overlaps %s %s", a.name, a.net, b.name, b.net)
		}
	}
	for _, n := range all[1:] {
		if n.input != "" {
			p.Add(sizing.Value{Group: "network", Name: map[string]string{"machine-cidr": "machine_cidr", "service-cidr": "service_cidr"}[n.input], Value: n.net.String(), Why: "this network does not overlap the other networks", Sources: e.Sources})
		}
	}
	machines := sizing.Power(32-p.w.MachineCIDR.Bits()) - 2
	if float64(p.nodes) > machines {
		return all.elsewhere(all.of("machine-cidr", p.nodes+2), "%s has addresses for %s machines, not %d", p.w.MachineCIDR, unit.Digits(max(machines, 0)), p.nodes)
	}
	p.Max(sizing.Limit{Name: "addresses of the machine network", Maximum: machines, Wanted: float64(p.nodes), Why: p.w.MachineCIDR.String()})
	if p.w.ServiceCIDR.Bits() > smallestServices {
		return sizing.Instead("service-cidr", netip.PrefixFrom(p.w.ServiceCIDR.Addr(), smallestServices).Masked(), "%s is too small: the cluster's DNS takes the tenth address; use a network of /%d or larger, also for the services of the cluster itself", p.w.ServiceCIDR, smallestServices)
	}
	services := sizing.Power(32-p.w.ServiceCIDR.Bits()) - 2
	if p.w.given("service-cidr") && *p.w.Objects["services"] == 0 {
		p.Note("%s has addresses for %s services, the cluster's own included, and cannot be changed after the installation; --services N checks it for N services", p.w.ServiceCIDR, unit.Digits(services))
	}
	if n := *p.w.Objects["services"]; float64(n) > services {
		return all.elsewhere(all.of("service-cidr", n+2), "%s has addresses for %s services, not %d", p.w.ServiceCIDR, unit.Digits(max(services, 0)), n)
	}
	p.Max(sizing.Limit{Name: "addresses of the service network", Maximum: services, Wanted: float64(*p.w.Objects["services"]), Why: p.w.ServiceCIDR.String()})
	return nil
}

// overlay decides the MTU inside the tunnels.
func (p *plan) overlay() error {
	kind := "geneve"
	if p.network == "OpenShiftSDN" {
		kind = "vxlan"
	}
	mtu, why, sources, err := server.MTU(p.Result, kind, p.w.IPsec, p.w.MTU)
	if err != nil {
		return err
	}
	p.Add(sizing.Value{Group: "network", Name: "type", Value: p.network, Why: "with " + kind + " tunnels"})
	p.Add(sizing.Value{Group: "network", Name: "overlay_mtu", Value: mtu, Unit: "bytes", Why: why, Sources: sources})
	server.Advise(p.Result, kind, p.w.IPsec, p.w.Rate)
	return nil
}
