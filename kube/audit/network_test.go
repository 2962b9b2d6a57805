package audit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]float64{"10.244.1.0/24": 253, "10.128.0.0/23": 509, "10.244.1.0/24 fd00::/64": 253, "fd00::/120": 253, "10.0.0.0/31": 0} {
		if got, err := addresses(strings.Fields(text)); err != nil || got != want {
			t.Errorf("%s: %g %v, want %g", text, got, err, want)
		}
	}
	if _, err := addresses([]string{"10.0.0.0"}); err == nil {
		t.Error("no network is one")
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"kube-controller-manager --cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=true":                  "256 true <nil>",
		"--cluster-cidr 10.244.0.0/16 --node-cidr-mask-size 26":                                            "1024 true <nil>",
		"--cluster-cidr=10.0.0.0/16,fd00::/56":                                                             "256 true <nil>",
		"--cluster-cidr=10.0.0.0/16,fd00::/60 --node-cidr-mask-size-ipv6=64 --node-cidr-mask-size-ipv4=25": "16 true <nil>",
		"--cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=false":                                         "0 false <nil>",
		"--leader-elect": "0 false <nil>",
		"":               "0 false <nil>",
		"--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=12":   "0 false node networks of /12 do not fit into --cluster-cidr=10.244.0.0/16",
		"--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=many": "0 false --node-cidr-mask-size=many is not a number",
		"--cluster-cidr=here": `0 false --cluster-cidr=here: "here" is not a network`,
	} {
		n, known, err := parts(strings.Fields(text))
		if got := fmt.Sprintf("%g %v %v", n, known, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add("--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=24")
	f.Add("--cluster-cidr=fd00::/56,10.0.0.0/8 --node-cidr-mask-size-ipv6 64")
	f.Fuzz(func(t *testing.T, text string) {
		n, known, err := parts(strings.Fields(text))
		if known && (err != nil || n < 1 || math.IsInf(n, 0) || n != math.Trunc(n)) || !known && n != 0 {
			t.Errorf("%g %v %v", n, known, err)
		}
	})
}

func TestNetwork(t *testing.T) {
	c := &Cluster{
		Controller: []string{"--cluster-cidr=10.244.0.0/22"},
		Nodes: []Node{
			{Name: "a", Ready: true, CIDRs: []string{"10.244.0.0/24"}, MaxPods: 110}, {Name: "b", CIDRs: []string{"10.244.1.0/24"}, MaxPods: 500},
			{Name: "c", MaxPods: 500}, {Name: "d", CIDRs: []string{"odd"}},
		},
		Counts: []Count{{What: "nodes", N: 6000}, {What: "pods_per_node", N: 50, Where: "a"}, {What: "namespaces", Unread: "may not be listed"}, {What: "secrets", N: 1 << 20}},
	}
	want(t, judged(t, c, nil), map[string]rule.State{
		"O02.cluster": rule.Warned, "O03.node a": rule.Passed, "O03.node b": rule.Failed, "O03.node c": rule.NotApplicable, "O03.node d": rule.Unknown,
		"O66.objects nodes": rule.Warned, "O66.objects pods_per_node": rule.Passed, "O66.objects namespaces": rule.Unknown, "O66.objects secrets": rule.NotApplicable,
	})
	want(t, judged(t, &Cluster{Unread: map[Part]string{OfNodes: "forbidden"}, Controller: c.Controller}, nil), map[string]rule.State{
		"O02.cluster": rule.Unknown, "O03.node": rule.Unknown, "O61": rule.Unknown, "O65": rule.Unknown,
	})
	want(t, judged(t, c, map[string]string{"O03.node": rule.Disabled + "Calico (--disable)", "O65": rule.Disabled + "why (--disable)"}), map[string]rule.State{"O03.node": rule.NotApplicable, "O65": rule.NotApplicable})
}
