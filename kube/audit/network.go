package audit

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/platform"
)

// ownAddresses is the number of addresses in a node's range that pods cannot get: network address,
// broadcast address, and the node's own.
const ownAddresses = 3

// addresses returns the number of pods for which a node's ranges have addresses; each pod needs one
// per IP family.
func addresses(cidrs []string) (float64, error) {
	least := math.Inf(1)
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a network", text)
		}
		least = min(least, math.Exp2(float64(p.Addr().BitLen()-p.Bits()))-ownAddresses)
	}
	return max(0, least), nil
}

// parts returns how many nodes the controller manager's cluster networks can serve. known is false
// if it assigns no ranges. The default node masks are 24 and 64 bits (kube-controller-manager,
// nodeipam_controller).
func parts(args []string) (n float64, known bool, err error) {
	flags := map[string]string{}
	for i, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		if name, is := strings.CutPrefix(name, "--"); is {
			flags[name] = value
		}
	}
	if flags["allocate-node-cidrs"] == "false" || flags["cluster-cidr"] == "" {
		return 0, false, nil
	}
	bits := map[bool]int{true: 24, false: 64} // by IP family: true is IPv4
	for _, f := range []struct {
		flag     string
		families []bool
	}{{"node-cidr-mask-size", []bool{true, false}}, {"node-cidr-mask-size-ipv4", []bool{true}}, {"node-cidr-mask-size-ipv6", []bool{false}}} {
		if flags[f.flag] == "" {
			continue
		}
		n, err := strconv.Atoi(flags[f.flag])
		if err != nil {
			return 0, false, fmt.Errorf("--%s=%s is not a number", f.flag, flags[f.flag])
		}
		for _, family := range f.families {
			bits[family] = n
		}
	}
	n = math.Inf(1)
	for text := range strings.SplitSeq(flags["cluster-cidr"], ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return 0, false, fmt.Errorf("--cluster-cidr=%s: %q is not a network", flags["cluster-cidr"], text)
		}
		node := bits[p.Addr().Is4()]
		if node < p.Bits() || node > p.Addr().BitLen() {
			return 0, false, fmt.Errorf("node networks of /%d do not fit into --cluster-cidr=%s", node, text)
		}
		n = min(n, math.Exp2(float64(node-p.Bits())))
	}
	return n, true, nil
}

// network sets the answers about nodes and the cluster network.
func (c *Cluster) network(a *platform.Known) {
	const flags = "arguments of the controller manager"
	if why := c.Unread[OfNodes]; why != "" {
		a.Unlisted(platform.Nodes, why)
		a.Unclear("cluster.node_count", "nodes", why)
	} else {
		a.Give("cluster.node_count", float64(len(c.Nodes)), "nodes")
	}
	switch n, known, err := parts(c.Controller); {
	case err != nil:
		a.Unclear("cluster.node_parts", flags, err.Error())
	case known:
		a.Give("cluster.node_parts", n, flags)
	}
	for _, n := range c.Nodes {
		a.Add(platform.Nodes, n.Name)
		in, at := "cluster.node."+n.Name, "node "+n.Name
		a.Give(in+".max_pods", float64(n.MaxPods), at)
		a.Give(in+".cores", n.Cores, at)
		a.Give(in+".ready", n.Ready, at)
		if len(n.CIDRs) == 0 {
			continue
		}
		if room, err := addresses(n.CIDRs); err != nil {
			a.Unclear(in+".addresses", at, err.Error())
		} else {
			a.Give(in+".addresses", room, at)
		}
	}
}

// counts sets the answers about numbers of objects.
func (c *Cluster) counts(a *platform.Known, set, in string) {
	for _, n := range c.Counts {
		a.Add(set, n.What)
		if n.Unread != "" {
			a.Unclear(in+"."+n.What+".count", "the whole cluster", n.Unread)
			continue
		}
		at := n.Where
		if at == "" {
			at = "the whole cluster"
		}
		a.Give(in+"."+n.What+".count", float64(n.N), at)
		if n.Where != "" && set == platform.Objects {
			a.Give(in+"."+n.What+".where", n.Where, at)
		}
	}
}
