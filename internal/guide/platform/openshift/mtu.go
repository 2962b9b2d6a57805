package openshift

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// device is an MTU of network devices in a document, with its position.
type device struct {
	mtu float64
	at  string
}

// devicesOf records the MTU of devices. A Network has a migration's MTU and the MTU assumed by
// fettle size. install-config.yaml has the MTU of the hosts' interfaces (nmstate).
func (t *collector) devicesOf(d document) {
	note := func(n *yaml.Node) {
		if n == nil {
			return
		}
		if v, err := strconv.ParseUint(n.Value, 10, 17); err == nil && v > 0 {
			t.devices = append(t.devices, device{float64(v), d.at(n)})
		}
	}
	note(d.get("metadata", "annotations", "fettle.dev/device-mtu"))
	note(d.get("spec", "migration", "mtu", "machine", "to"))
	for _, platform := range []string{"baremetal", "vsphere", "none"} {
		for _, host := range list(d.get("platform", platform, "hosts")) {
			for _, nic := range list(get(get(host, "networkConfig"), "interfaces")) {
				note(get(nic, "mtu"))
			}
		}
	}
}

// usual are common MTUs of devices. If the overlay has one of them, that is a mistake, or the
// devices have larger ones.
var usual = []float64{1500, 9000, 9001, 9216}

// finishMTU answers with the devices' MTU, or with the reason why it is unknown if it matters.
func (t *collector) finishMTU() {
	inside, ok := t.given("overlay_mtu").Value.(float64)
	switch {
	case !ok:
	case len(t.devices) > 0:
		// It is unknown which of a host's devices the cluster uses. The largest MTU is the limit
		// for all.
		d := slices.MaxFunc(t.devices, func(a, b device) int { return int(a.mtu - b.mtu) })
		t.give("device_mtu", d.mtu, d.at)
	case slices.Contains(usual, inside):
		overhead := 100.0
		if t.given("network_type").Value == "OpenShiftSDN" {
			overhead = 50
		}
		t.unclear("device_mtu", t.given("overlay_mtu").At, fmt.Errorf("no document contains the MTU of the network devices: %.0f inside the overlay needs devices with %.0f, and is a mistake on devices with %.0f", inside, inside+overhead, inside))
	}
}
