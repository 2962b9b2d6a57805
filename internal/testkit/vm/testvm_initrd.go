package vm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rootModules are the modules that the kernel needs to mount the root disk.
var rootModules = []string{"virtio_pci", "virtio_blk", "crc32c_generic", "ext4"}

// initrd creates an initial RAM disk with the program init and the modules for the root disk,
// with their dependencies, numbered in loading order.
func initrd(tree, init string) ([]byte, error) {
	release, err := filepath.Glob(filepath.Join(tree, "lib/modules/*/modules.dep"))
	if err != nil || len(release) != 1 {
		return nil, fmt.Errorf("want one kernel in %s/lib/modules, have %d", tree, len(release))
	}
	dep, err := os.ReadFile(release[0])
	if err != nil {
		return nil, err
	}
	// Format of modules.dep: "path: dependency dependency", nearest dependency first.
	needs := map[string][]string{}
	for line := range strings.Lines(string(dep)) {
		if module, rest, ok := strings.Cut(line, ":"); ok {
			needs[module] = strings.Fields(rest)
		}
	}
	var order []string
	for _, name := range rootModules {
		found := false
		for module, deps := range needs {
			if strings.ReplaceAll(strings.TrimSuffix(filepath.Base(module), ".ko"), "-", "_") != name {
				continue
			}
			found = true
			slices.Reverse(deps)
			for _, m := range append(deps, module) {
				if !slices.Contains(order, m) {
					order = append(order, m)
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("no module %s in %s", name, release[0])
		}
	}
	var out bytes.Buffer
	for _, dir := range []string{"dev", "modules", "root"} {
		cpio(&out, dir, 0o040755, nil)
	}
	data, err := os.ReadFile(init)
	if err != nil {
		return nil, err
	}
	cpio(&out, "init", 0o100755, data)
	for n, module := range order {
		if data, err = os.ReadFile(filepath.Join(filepath.Dir(release[0]), module)); err != nil {
			return nil, err
		}
		cpio(&out, fmt.Sprintf("modules/%02d.ko", n), 0o100644, data)
	}
	cpio(&out, "TRAILER!!!", 0, nil)
	return out.Bytes(), nil
}

// cpio appends one entry in the "new ASCII" format, which the kernel reads
// (Documentation/driver-api/early-userspace/buffer-format.rst).
func cpio(out *bytes.Buffer, name string, mode int, data []byte) {
	// Fields: inode, mode, uid, gid, links, time, size, four device numbers,
	// length of the name with its zero byte, checksum (unused).
	fmt.Fprintf(out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		out.Len(), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	pad(out)
	out.Write(data)
	pad(out)
}

func pad(out *bytes.Buffer) {
	for out.Len()%4 != 0 {
		out.WriteByte(0)
	}
}
