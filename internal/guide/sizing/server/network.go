package server

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// The minimum and maximum MTU of an overlay in bytes: every IPv4 host accepts 576 (RFC 791), and
// no packet exceeds 65535.
const (
	minMTU = 576
	maxMTU = 65535
)

// MaxRate is the highest accepted rate, in Gbit/s: twice the fastest Ethernet port (IEEE
// 802.3df).
const MaxRate = 1600

// Network describes a request for the MTU of an overlay network.
type Network struct {
	Overlay string // vxlan or geneve
	IPsec   bool
	MTU     int     // of the devices below, bytes
	Rate    float64 // Gbit/s

	inputs []*sizing.Input
}

// NetworkFile is the file from which openshift-install reads the MTU.
const NetworkFile = "manifests/cluster-network-03-config.yml"

// NewNetwork returns a request with the defaults.
func NewNetwork() *Network {
	w := &Network{Overlay: "geneve", MTU: 1500, Rate: 1}
	w.inputs = []*sizing.Input{
		sizing.Word(&w.Overlay, "overlay", "protocol of the tunnels between nodes: vxlan (OpenShiftSDN) or geneve (OVN-Kubernetes)", "vxlan", "geneve"),
		sizing.Truth(&w.IPsec, "ipsec", "the traffic between nodes is encrypted"),
		sizing.Count(&w.MTU, "mtu", "MTU of the network devices in bytes: 1500, or 9000 for jumbo frames", minMTU, maxMTU).Because("every IPv4 host accepts packets of 576 bytes, and 65,535 is the longest"),
		sizing.Number(&w.Rate, "rate", "throughput of a node in Gbit/s", 0.001, MaxRate).Because("twice the fastest Ethernet port"),
	}
	return w
}

// Inputs implements sizing.Request.
func (w *Network) Inputs() []*sizing.Input { return w.inputs }

// MTU returns the maximum packet size inside an overlay, in bytes, and the reason. device is the
// devices' MTU in bytes.
func MTU(r *sizing.Result, overlay string, ipsec bool, device int) (mtu int, why string, sources []rule.Source, err error) {
	e := r.Newest("overlay-mtu")
	overhead := e.Number(overlay, "overhead")
	why = internaltext.Sprintf("%d - %s for %s", device, unit.Digits(overhead), overlay)
	if ipsec {
		more := e.Number(overlay, "ipsec")
		overhead += more
		why += fmt.Sprintf(" - %s for IPsec", unit.Digits(more))
	}
	mtu = device - int(overhead)
	if mtu < minMTU {
		return 0, "", nil, sizing.Instead("mtu", minMTU+int(overhead), "%d leaves %d bytes inside the overlay, fewer than the %d that every host accepts", device, mtu, minMTU)
	}
	return mtu, why, e.Sources, nil
}

// Plugin returns the network plug-in of an overlay.
func Plugin(overlay string) string {
	if overlay == "vxlan" {
		return "OpenShiftSDN"
	}
	return "OVNKubernetes"
}

// Size implements sizing.Request.
func (w *Network) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	r := sizing.NewResult(f, "network", "")
	mtu, why, sources, err := MTU(r, w.Overlay, w.IPsec, w.MTU)
	if err = cmp.Or(r.Err(), err); err != nil {
		return nil, err
	}
	r.RecordInputs(w.inputs)
	r.Add(sizing.Value{Group: "network", Name: "overlay_mtu", Value: mtu, Unit: "bytes", Why: why, Sources: sources})
	packets := math.Ceil(w.Rate * 1e9 / 8 / float64(w.MTU))
	r.Add(sizing.Value{Group: "network", Name: "packets", Value: packets, Unit: "1/s", Why: internaltext.Sprintf("%s Gbit/s in packets of %s, each way; each costs CPU unless the device offloads it", unit.Digits(w.Rate), internaltext.Count(w.MTU, "byte"))})
	if w.MTU < 9000 && w.Rate > 1 {
		jumbo, _, _, err := MTU(r, w.Overlay, w.IPsec, 9000)
		if err == nil {
			r.Add(sizing.Value{Group: "network", Name: "overlay_mtu_jumbo", Value: jumbo, Unit: "bytes", Why: internaltext.Sprintf("with jumbo frames of 9000 bytes it is %.0f packets/s; use the largest MTU of devices and switches for throughput, a smaller one for the lowest latency", math.Ceil(w.Rate*1e9/8/9000)), Sources: sources})
		}
	}
	Advise(r, w.Overlay, w.IPsec, w.Rate)
	ipsec := ""
	if w.IPsec && w.Overlay == "geneve" {
		ipsec = "Full"
	}
	r.Files = append(r.Files, NetworkManifest(" It belongs in manifests/ of the directory of\nopenshift-install, between create manifests and create cluster.", Plugin(w.Overlay), w.MTU, mtu, ipsec))
	r.Steps = append(r.Steps,
		sizing.Step{Do: "Set the MTU of the devices on every node and switch", Check: fmt.Sprintf("ping -M do -s %d OTHER-NODE is answered", w.MTU-28)},
		sizing.Step{Do: "Create the manifests, and add the file", Command: "openshift-install create manifests"},
		sizing.Step{Do: "Install the cluster", Command: "openshift-install create cluster", Check: fmt.Sprintf("oc get network.config cluster -o jsonpath={.status.clusterNetworkMTU} prints %d", mtu)},
	)
	r.Headline.Line("MTU %s inside %s on devices with an MTU of %s bytes; %s Gbit/s is %s packets/s each way", r.InHeadline("network", "overlay_mtu"), w.Overlay,
		r.Headline.Count("device_mtu_bytes", w.MTU, ""), r.Headline.Figure("rate_gbit_per_s", w.Rate, ""), r.Headline.Figure("network_packets_per_s", packets, ""))
	if jumbo := r.InHeadline("network", "overlay_mtu_jumbo"); jumbo != "" {
		r.Headline.Line("With jumbo frames of 9,000 bytes: MTU %s, a sixth of the packets", jumbo)
	}
	return r, nil
}

// NetworkManifest returns the file with the MTU inside an overlay. device is the MTU of the
// devices; ipsec is the mode, "on" for a version without modes, or "".
func NetworkManifest(comment, plugin string, device, mtu int, ipsec string) sizing.Artefact {
	text := sizing.Manifest("network.yaml", "The MTU inside the overlay."+comment, map[string]any{"Plugin": plugin, "DeviceMTU": device, "MTU": mtu, "IPsec": ipsec})
	return sizing.Artefact{Name: NetworkFile, What: "the MTU inside the overlay", Checked: "the types of openshift/api", Content: text}
}

// Advise adds the source's advice on fast and encrypted overlays.
func Advise(r *sizing.Result, overlay string, ipsec bool, rate float64) {
	if rate > 1 {
		r.Note("above 1 Gbit/s %s needs network devices that offload it, or the CPU calculates the checksums of all packets and throughput may fall (O37, O48): ethtool -k DEVICE | grep tx-udp_tnl-segmentation. It does not lower latency", overlay)
	}
	if ipsec {
		r.Note("IPsec encrypts before the device sees the packet: some of its offloads cannot be used, throughput falls and CPU use rises (O37)")
		if overlay == "vxlan" {
			r.Note("OpenShiftSDN has no IPsec of its own; this is the nodes' own encryption, whose overhead depends on its cipher")
		}
	}
}
