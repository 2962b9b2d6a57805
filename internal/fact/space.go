package fact

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// FileSystem is a writable file system on a local disk, with its current usage.
type FileSystem struct {
	Mount     string `json:"mount"`
	SizeBytes int64  `json:"size_bytes"`
	// FreeBytes is the space available to unprivileged users.
	FreeBytes int64 `json:"free_bytes"`
}

// UsedBytes returns the size minus FreeBytes.
func (f FileSystem) UsedBytes() int64 { return f.SizeBytes - f.FreeBytes }

// FileSystems returns the local writable file systems, sorted by mount point. Each is listed
// once, even if it is mounted several times. Network file systems are omitted, because an
// unresponsive server would block the call. If a copy has no measurement, the error satisfies
// host.Unknown.
func FileSystems(h *host.Host) ([]FileSystem, error) {
	r := newReader(h)
	text, n := r.text("/proc/self/mountinfo")
	// A service may see its own mounts, most of them read-only (ProtectSystem= in systemd.exec(5)).
	// With the same root, the table of process 1 is the machine's.
	if all, first := r.text("/proc/1/mountinfo"); !n.known() || first.known() && sameRoot(all, text) {
		text, n = r.mountTable()
	}
	if !n.known() {
		return nil, host.NotRecorded("what is mounted")
	}
	all := []FileSystem{}
	var missing error
	for _, m := range writableDisks(parseMounts(text, n.source)) {
		size, free, err := h.Space(m.point)
		switch {
		case err != nil:
			missing = err
		case size > 0 && size < 1<<62 && free <= size:
			all = append(all, FileSystem{m.point, int64(size), int64(free)})
		}
	}
	if len(all) == 0 && missing != nil {
		return nil, missing
	}
	return all, nil
}

// sameRoot reports whether two tables in the format of mountinfo have the same file system as root.
func sameRoot(a, b string) bool {
	root := func(text string) (last mountEntry) {
		for _, m := range parseMounts(text, "mountinfo") {
			if m.point == "/" {
				last = m
			}
		}
		return last
	}
	x, y := root(a), root(b)
	return x.devNumber != "" && x.devNumber == y.devNumber && x.root == y.root
}

// imageTypes are the types of read-only image file systems (filesystems(5)).
var imageTypes = []string{"squashfs", "iso9660", "udf", "erofs", "cramfs", "romfs"}

// writableDisks returns one writable mount for each disk: the mount of the whole file system,
// or else the mount with the shortest path.
func writableDisks(all []mountEntry) []mountEntry {
	last := map[string]int{} // by mount point; the last mount hides earlier ones
	for i, m := range all {
		last[m.point] = i
	}
	best := map[string]mountEntry{} // by device
	for i, m := range all {
		local := strings.HasPrefix(m.source, "/dev/") || m.devNumber != "" && !strings.HasPrefix(m.devNumber, "0:")
		written := !slices.Contains(m.options, "ro") && !slices.Contains(m.superOptions, "ro")
		if last[m.point] != i || !local || !written || kernelFileSystems[m.fsType] || slices.Contains(imageTypes, m.fsType) || slices.Contains(networkTypes, m.fsType) {
			continue
		}
		device := m.source
		if m.devNumber != "" && !strings.HasPrefix(m.devNumber, "0:") { // Btrfs has a device number for each subvolume
			device = m.devNumber
		}
		if known, ok := best[device]; !ok || known.root != "/" && m.root == "/" || (known.root == "/") == (m.root == "/") && len(m.point) < len(known.point) {
			best[device] = m
		}
	}
	var out []mountEntry
	for _, m := range best {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b mountEntry) int { return strings.Compare(a.point, b.point) })
	return out
}
