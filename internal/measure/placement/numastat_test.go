package placement

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
)

// TestNumastatLayout has the layouts of numastat 2.0.16; TestNumastat compares them with the
// program itself, where it is installed.
func TestNumastatLayout(t *testing.T) {
	files := map[string]string{
		"/proc/7/status": "Name:\tsystemd-journald\n", "/proc/7/cmdline": "/sbin/journal\x00--all\x00",
		"/proc/7/numa_maps": "55bc00 default heap anon=256 N0=256 kernelpagesize_kB=4\n55bd00 default stack anon=1 N2=1 kernelpagesize_kB=4\n55be00 bind:0 huge N0=2 kernelpagesize_kB=2048\n",
		"/proc/8/status":    "Name:\tsh\n", "/proc/8/cmdline": "sh\x00", "/proc/8/numa_maps": "",
	}
	maps.Copy(files, node("0", "0-1", "2048", "10 20"))
	maps.Copy(files, node("2", "2-3", "512", "20 10"))
	h := machine.Mounted(t, files)
	for _, c := range []struct {
		args  string
		width int
		want  string
	}{
		{"", 40, `
                           node0
numa_hit                      75
numa_miss                     25
numa_foreign                   0
interleave_hit                 0
local_node                    90
other_node                    10

                           node2
numa_hit                      75
numa_miss                     25
numa_foreign                   0
interleave_hit                 0
local_node                    90
other_node                    10
`},
		{"-mc", 0, `

Per-node system memory usage (in MBs):
          Node 0 Node 2 Total
          ------ ------ -----
MemTotal       2      0     2
MemFree        2      0     2
`},
		{"-zc 7", 0, `

Per-node process memory usage (in MBs) for PID 7 (systemd-journald)
         Node 0 Node 2 Total
         ------ ------ -----
Huge          4      0     4
Heap          1      0     1
Stack         0      0     0
-------  ------ ------ -----
Total         5      0     5
`},
		{"journal 8", 0, `

Per-node process memory usage (in MBs)
PID                            Node 0          Node 2           Total
--------------------  --------------- --------------- ---------------
7 (systemd-journald)             5.00            0.00            5.00
8 (sh)                           0.00            0.00            0.00
--------------------  --------------- --------------- ---------------
Total                            5.00            0.00            5.00
`},
		{"-z 8", 0, `

Per-node process memory usage (in MBs) for PID 8 (sh)
Table has no non-zero data.
`},
		{"-m 9 nobody", 0, `
Found no processes containing pattern: "nobody"

Per-node process memory usage (in MBs) for PID 9 ((null))

Per-node system memory usage (in MBs):
                          Node 0          Node 2           Total
                 --------------- --------------- ---------------
MemTotal                    2.00            0.50            2.50
MemFree                     2.00            0.50            2.50
`},
	} {
		var out strings.Builder
		if err := Numastat(h, strings.Fields(c.args), c.width, 1, &out, func(string, ...any) {}); err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		if d := cmp.Diff(c.want, "\n"+out.String()); d != "" {
			t.Errorf("numastat %s (-want +got):\n%s", c.args, d)
		}
	}
	for _, bad := range []string{"-x", "-p", "--help", "-cq"} {
		if Numastat(h, strings.Fields(bad), 0, 1, &strings.Builder{}, func(string, ...any) {}) == nil {
			t.Errorf("numastat %s is accepted", bad)
		}
	}
}
