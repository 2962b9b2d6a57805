package profile

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// Several lines of virt-what are a list, not an escaped line break.
func TestVirtualisationWords(t *testing.T) {
	v := virtualisation{known: true, virtual: true, text: "kvm\naws\n", source: "/sys/class/dmi/id"}
	if got, want := v.String(), `found "kvm, aws" (/sys/class/dmi/id)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Without DMI the device tree decides, as on arm64.
func TestVirtualisationOfDeviceTree(t *testing.T) {
	const cpuinfo = "processor\t: 0\nFeatures\t: fp asimd\n"
	for _, c := range []struct {
		file, text     string
		known, virtual bool
	}{
		{"/proc/device-tree/hypervisor/compatible", "linux,kvm\x00", true, true},
		{"/proc/device-tree/fw-cfg@9020000/compatible", "qemu,fw-cfg-mmio\x00", true, true},
		{"/proc/device-tree/model", "Acme\x00", false, false},
	} {
		v := virtualisationFiles(machine.Mounted(t, map[string]string{"/proc/cpuinfo": cpuinfo, c.file: c.text}))
		if v.known != c.known || v.virtual != c.virtual {
			t.Errorf("%s: %+v", c.file, v)
		}
	}
}
