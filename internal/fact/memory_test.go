package fact

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

// The size of a page: of this program on a mounted machine, by the size of a transparent huge page
// on a copy, by the architecture, or unknown.
func TestPageSize(t *testing.T) {
	const pmd = thpDir + "hpage_pmd_size"
	for _, c := range []struct {
		name    string
		files   map[string]string
		want    int64
		unknown bool
	}{
		{"arm64 with 64 KiB", map[string]string{"/proc/sys/kernel/arch": "aarch64\n", pmd: "536870912\n"}, 64 << 10, false},
		{"arm64 with 16 KiB", map[string]string{"/proc/sys/kernel/arch": "aarch64\n", pmd: "33554432\n"}, 16 << 10, false},
		{"arm64 without huge pages", map[string]string{"/proc/sys/kernel/arch": "aarch64\n"}, 0, true},
		{"ppc64le", map[string]string{"/proc/sys/kernel/arch": "ppc64le\n", pmd: "2097152\n"}, 0, true},
		{"x86-64", map[string]string{"/proc/sys/kernel/arch": "x86_64\n", pmd: "2097152\n"}, 4 << 10, false},
		{"the kernel says it", map[string]string{"/proc/self/auxv": "\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00", pmd: "33554432\n"}, 64 << 10, false},
	} {
		got := Collect(machine.Mounted(t, c.files)).Memory.PageBytes
		if got.Or(0) != c.want || (got.Unknown() != "") != c.unknown {
			t.Errorf("%s: %d (%s), want %d", c.name, got.Or(0), got.Unknown(), c.want)
		}
	}
}

// Since Linux 6.8 the mode of each size decides; the global one applies to
// sizes that inherit it.
func TestModeOfTransparentHugePages(t *testing.T) {
	const always, madvise, never, inherit = "[always] inherit madvise never\n", "always inherit [madvise] never\n", "always inherit madvise [never]\n", "always [inherit] madvise never\n"
	for _, c := range []struct {
		name, global   string
		sizes          map[string]string
		inUse, ownSize string
	}{
		{"no sizes", "always [madvise] never\n", nil, "madvise", ""},
		{"all inherit", "always madvise [never]\n", map[string]string{"2048kB": inherit, "64kB": never}, "never", ""},
		{"one has its own", "always madvise [never]\n", map[string]string{"2048kB": inherit, "64kB": always}, "always", "64kB"},
		{"the large one has its own", "always madvise [never]\n", map[string]string{"2048kB": madvise, "64kB": never}, "madvise", "2048kB"},
		{"no size inherits", "[always] madvise never\n", map[string]string{"2048kB": never, "64kB": never}, "never", ""},
		{"less than the global one", "[always] madvise never\n", map[string]string{"2048kB": inherit, "64kB": madvise}, "always", ""},
	} {
		tree := map[string]string{"/proc/meminfo": "MemTotal: 1 kB\n", thpDir + "enabled": c.global}
		for size, text := range c.sizes {
			tree[thpDir+"hugepages-"+size+"/enabled"] = text
		}
		tree[thpDir+"hugepages-8kB/shmem_enabled"] = never // a size for files only
		f := Collect(machine.Mounted(t, tree))
		thp := f.Memory.THP
		if thp.InUse.Or("") != c.inUse || thp.OwnSize.Or("") != c.ownSize {
			t.Errorf("%s: in use %q, own size %q, want %q and %q", c.name, thp.InUse.Or(""), thp.OwnSize.Or(""), c.inUse, c.ownSize)
		}
	}
}
