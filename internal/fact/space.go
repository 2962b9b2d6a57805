package fact

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// FileSystem is one of this machine's own disks on which data can grow, as full as it
// was at a time.
type FileSystem struct {
	Mount     string `json:"mount"`
	SizeBytes int64  `json:"size_bytes"`
	// FreeBytes is what an ordinary user may still fill.
	FreeBytes int64 `json:"free_bytes"`
}

// UsedBytes is what is no more to be filled.
func (f FileSystem) UsedBytes() int64 { return f.SizeBytes - f.FreeBytes }

// FileSystems measures those that there are, by their mount points: each once,
// wherever else it is mounted. Those of other machines are left out, because one that
// does not answer would hold up who asks, and those that nobody can write. The error
// is host.Unknown where a copy has none measured.
func FileSystems(h *host.Host) ([]FileSystem, error) {
	r := newReader(h)
	text, n := r.text("/proc/self/mountinfo")
	if !n.known() {
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

// imageTypes are file systems that are written once (filesystems(5)).
var imageTypes = []string{"squashfs", "iso9660", "udf", "erofs", "cramfs", "romfs"}

// writableDisks are the mounts of disks that can be written, one for each disk: the one
// that has all of it, else the one with the shortest path.
func writableDisks(all []mountEntry) []mountEntry {
	last := map[string]int{} // by point: what is mounted later hides the rest
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
		if m.devNumber != "" && !strings.HasPrefix(m.devNumber, "0:") { // of Btrfs it is another for each subvolume
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
