package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestHugePagesProfile: the profile hugepages reserves 2 GiB, whatever the kernel's default size is:
// on an arm64 machine with pages of 64 KiB, 1024 pages of that size would be 512 GiB.
func TestHugePagesProfile(t *testing.T) {
	const pools = "/sys/kernel/mm/hugepages/"
	for _, c := range []struct {
		name, size string // the default one, in kB
		gib        int
		pools      []string // sizes in kB
		want       string   // the only pool that is planned, with 1024 pages; "" if none is
	}{
		{"x86-64", "2048", 768, []string{"2048", "1048576"}, "sysctl:vm.nr_hugepages"},
		{"arm64 with pages of 64 KiB", "524288", 1024, []string{"2048", "524288", "16777216"}, "sysfs:" + pools + "hugepages-2048kB/nr_hugepages"},
		{"arm64 with pages of 64 KiB, small", "524288", 16, []string{"2048", "524288", "16777216"}, "sysfs:" + pools + "hugepages-2048kB/nr_hugepages"},
		{"ppc64 with hash tables", "16384", 768, []string{"16384", "16777216"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fmt.Appendf(nil, "fettle archive v2\n-- file 0444 /proc/meminfo --\nMemTotal: %d kB\nHugepagesize: %s kB\n-- file 0644 /proc/sys/vm/nr_hugepages --\n0\n-- dir 0755 %s --\n", c.gib<<20, c.size, pools[:len(pools)-1])
			for _, size := range c.pools {
				b = fmt.Appendf(b, "-- dir 0755 %shugepages-%skB --\n-- file 0644 %[1]shugepages-%[2]skB/nr_hugepages --\n0\n", pools, size)
			}
			file := filepath.Join(t.TempDir(), "machine.txt")
			if err := os.WriteFile(file, append(b, "-- end --\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			Main("test", []string{"diff", "hugepages", "--root", file, "--output", "json"}, &out, &errs)
			var plan struct {
				Steps []struct {
					Setting, Action string
					Want            any
				}
			}
			if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
				t.Fatalf("%v\n%s\n%s", err, &out, &errs)
			}
			found := ""
			for _, s := range plan.Steps {
				if s.Action == "write" && filepath.Base(s.Setting) != "enabled" {
					found += s.Setting
					if fmt.Sprint(s.Want) != "1024" {
						t.Errorf("%s = %v", s.Setting, s.Want)
					}
				}
			}
			if found != c.want {
				t.Errorf("planned %q, want %q", found, c.want)
			}
		})
	}
}
