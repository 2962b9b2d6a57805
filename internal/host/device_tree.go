package host

import (
	"io/fs"
	"slices"
	"strings"
)

// DeviceTreeHypervisor returns the hypervisor according to the device tree, and the path that
// identifies it; "" without one. It decides like systemd's detect_vm_device_tree
// (src/basic/virt.c): QEMU without KVM has no hypervisor node, but a node of its configuration
// device.
func (h *Host) DeviceTreeHypervisor() (name, source string) {
	const tree = "/proc/device-tree"
	const node = tree + "/hypervisor/compatible"
	if b, err := h.Files.ReadFile(node); err == nil {
		for _, name := range []string{"kvm", "xen", "vmware"} {
			if strings.Contains(string(b), name) {
				return name, node
			}
		}
		return "other", node
	}
	if _, err := h.Files.Stat(tree + "/hypervisor"); err == nil {
		return "other", tree + "/hypervisor"
	}
	entries, _ := h.Files.ReadDir(tree)
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), "fw-cfg") }) {
		return "qemu", tree
	}
	return "", ""
}
