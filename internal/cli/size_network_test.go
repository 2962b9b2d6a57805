package cli

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// overlayNode is a node of a cluster as it comes up with an overlay: the device of
// the machine, the tunnel of Open vSwitch, and the port through which pods leave
// (ovn-k8s-mp0 of OVN-Kubernetes, tun0 of OpenShiftSDN), as the kernel shows them.
type overlayNode struct {
	overlay     string
	device, mtu int // bytes
	mbits       int
	offload     bool
}

func (n overlayNode) audit(t *testing.T, c *rule.Catalogue) map[string]rule.Finding {
	t.Helper()
	tunnel, port := "genev_sys_6081", "ovn-k8s-mp0"
	if n.overlay == "vxlan" {
		tunnel, port = "vxlan_sys_4789", "tun0"
	}
	var b strings.Builder
	b.WriteString("fettle archive v2\ntime 2026-11-22T05:00:00Z\n-- dir 0755 /sys/class/net --\n")
	device := func(name, dir string, mtu, mbits int) {
		fmt.Fprintf(&b, "-- link /sys/class/net/%s -> ../../devices/%s/net/%s --\n", name, dir, name)
		for file, text := range map[string]string{"mtu": strconv.Itoa(mtu), "operstate": "up", "carrier": "1", "speed": strconv.Itoa(mbits), "type": "1"} {
			fmt.Fprintf(&b, "-- file 0444 /sys/devices/%s/net/%s/%s --\n%s\n", dir, name, file, text)
		}
	}
	device("ens1f0", "pci0000:00/0000:00:02.0", n.device, n.mbits)
	b.WriteString("-- link /sys/devices/pci0000:00/0000:00:02.0/net/ens1f0/device/driver -> ../../../../../../bus/pci/drivers/mlx5_core --\n")
	device(tunnel, "virtual", 65000, -1)
	device(port, "virtual", n.mtu, -1)
	b.WriteString("-- links --\nens1f0 index=2 kind=device driver=mlx5_core parent=0000:00:02.0\n" + tunnel + " index=3 kind=" + n.overlay + "\n" + port + " index=4 kind=openvswitch\n")
	fmt.Fprintf(&b, "-- net ens1f0 features --\ntx-udp_tnl-segmentation=%s\n-- end --\n", map[bool]string{true: "on", false: "off"}[n.offload])
	h, err := host.ParseArchive("node", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]rule.Finding{}
	for _, f := range c.Check(t.Context(), platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), []string{"kubernetes-node"}, nil) {
		if f.Instance == port {
			out[f.ID] = f
		}
	}
	return out
}

// A node with the MTU that size network gives is one that check has nothing against;
// a larger one, a small one among jumbo frames, and a fast device that does not cut
// the tunnel's packets are found.
func TestSizeNetwork(t *testing.T) {
	c, f, rnd := loadCatalogue(t), sizing.Figures(t), rand.New(rand.NewPCG(1450, 1400))
	seen := map[string]int{}
	for range 60 {
		n := overlayNode{overlay: []string{"vxlan", "geneve"}[rnd.IntN(2)], device: []int{1500, 9000, 8951, 9216, 1000 + rnd.IntN(8500)}[rnd.IntN(5)], mbits: []int{1000, 10000, 25000, 400000}[rnd.IntN(4)]}
		n.offload = n.mbits > 1000
		said := []string{"overlay", n.overlay, "mtu", strconv.Itoa(n.device), "rate", strconv.Itoa(n.mbits / 1000)}
		ipsec := rnd.IntN(2) == 0
		if ipsec {
			said = append(said, "ipsec", "true")
		}
		r, err := sizing.Ask(f, server.NewNetwork(), said...)
		if err != nil {
			t.Fatal(said, err)
		}
		n.mtu = r.Value("network", "overlay_mtu").Value.(int)
		found := func(what string, n overlayNode, id string, want ...rule.State) {
			t.Helper()
			g := n.audit(t, c)[id]
			for _, w := range want {
				if g.State == w {
					seen[id+" "+string(w)]++
					return
				}
			}
			t.Errorf("%v, %s: %s is %s: %v, want %v (%s)", said, what, id, g.State, g.Measured, g.Want, g.Reason)
		}
		found("as sized", n, "O36", rule.Passed)
		found("as sized", n, "O37", rule.Passed, rule.NotApplicable)
		found("as sized", n, "O60", rule.Passed, rule.NotApplicable)
		// Where nothing of a node says that its overlay is encrypted, only what does not
		// fit without IPsec either is found; the documents say it (O36.documents).
		large := n
		large.mtu++
		if ipsec {
			large.mtu += 46
		}
		found("with a packet that is too large", large, "O36", rule.Failed)
		// The source warns of offloads that are missing above 1 Gbit/s, as size does.
		notes := strings.Join(r.Notes, "\n")
		if slow := n.mbits <= 1000; strings.Contains(notes, "tx-udp_tnl-segmentation") == slow {
			t.Errorf("%v: %s", said, notes)
		} else if !slow {
			without := n
			without.offload = false
			found("without offload", without, "O37", rule.Warned)
		}
		if n.device >= 8000 {
			small := n
			small.mtu = 1400
			found("with small packets", small, "O60", rule.Warned)
		}
	}
	for _, want := range []string{"O36 pass", "O36 fail", "O37 pass", "O37 warn", "O37 not-applicable", "O60 pass", "O60 warn", "O60 not-applicable"} {
		if seen[want] < 3 {
			t.Errorf("%s was seen %d times: the test sees one side only: %v", want, seen[want], seen)
		}
	}
}
