package fact

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

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
