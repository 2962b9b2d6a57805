package memory

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func nodes(files map[string]string) map[string]string {
	for name, f := range map[string][3]string{"node0": {"", "1000", "10 21 30"}, "node1": {"4-7", "9000", "21 10 31"}, "node2": {"8-11", "8000", "30 31 10"}} {
		dir := "sys/devices/system/node/" + name + "/"
		files[dir+"cpulist"] = f[0] + "\n"
		files[dir+"distance"] = f[2] + "\n"
		files[dir+"meminfo"] = "Node " + name[4:] + " MemTotal: 10000000 kB\nNode " + name[4:] + " MemFree: " + f[1] + " kB\n"
		files[dir+"hugepages/hugepages-2048kB/nr_hugepages"] = name[4:] + "\n"
		files[dir+"hugepages/hugepages-2048kB/free_hugepages"] = "0\n"
	}
	return files
}

func names(cells []Cell) (out []string) {
	for _, c := range cells {
		out = append(out, c.String())
	}
	return out
}

func TestPlans(t *testing.T) {
	const GiB, big = 1 << 30, "33554432" // 32 GiB available
	pages64K := plain(big, "[always] madvise never")
	pages64K["sys/kernel/mm/transparent_hugepage/hpage_pmd_size"] = "536870912\n"
	for name, c := range map[string]struct {
		files map[string]string
		asked Asked
		size  int64
		cells string
		left  string // one of them
		fault string
	}{
		"all":            {files: plain(big, "always [madvise] never"), size: GiB, cells: "4k thp hugetlb-2m hugetlb-1g", left: "thp-remote: the machine has one node"},
		"never":          {files: plain(big, "always madvise [never]"), size: GiB, cells: "4k hugetlb-2m hugetlb-1g", left: "thp: transparent huge pages are off (never)"},
		"no THP":         {files: plain(big, ""), size: GiB, cells: "4k hugetlb-2m hugetlb-1g", left: "thp: the kernel has no"},
		"unreserved":     {files: plain(big, "[always] madvise never"), asked: Asked{Unreserved: true}, size: GiB, cells: "4k thp", left: "--no-reserve"},
		"little":         {files: plain("1048576", "[always] madvise never"), size: 128 << 20, cells: "4k thp hugetlb-2m", left: "hugetlb-1g: the page size is 1 GiB"},
		"very little":    {files: plain("65536", "[always] madvise never"), fault: "the measurement needs more than a quarter of the available memory"},
		"too much":       {files: plain(big, "[always] madvise never"), asked: Asked{Bytes: 3 * GiB}, fault: "more than a quarter of the available memory: 9 GiB needed (including 6 GiB reserved"},
		"just not more":  {files: plain(big, "[always] madvise never"), asked: Asked{Bytes: 8 * GiB, Cells: []Cell{{Pages: THP}}}, size: 8 * GiB, cells: "thp"},
		"only reserved":  {files: plain(big, "[always] madvise never"), asked: Asked{Cells: []Cell{{Pages: HugeTLB1G}}}, size: GiB, cells: "hugetlb-1g"},
		"odd":            {files: plain(big, "[always] madvise never"), asked: Asked{Bytes: 3 << 20}, fault: "multiple of 2 MiB"},
		"rounds":         {files: plain(big, "[always] madvise never"), asked: Asked{Rounds: -1}, fault: "--rounds -1"},
		"not here":       {files: plain(big, ""), asked: Asked{Cells: []Cell{{Pages: THP}}}, fault: "nothing can be measured: thp: the kernel has no"},
		"several nodes":  {files: nodes(plain(big, "[always] madvise never")), size: GiB, cells: "4k thp hugetlb-2m hugetlb-1g 4k-remote thp-remote"},
		"64 KiB pages":   {files: pages64K, size: GiB, cells: "hugetlb-2m hugetlb-1g", left: "4k: the pages of this kernel are of 64 KiB\nthp: the transparent huge pages of this kernel are of 512 MiB, not of 2 MiB"},
		"nothing to see": {files: map[string]string{"proc/version": "Linux"}, fault: "the available memory is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Make(machine(t, c.files), c.asked)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("%v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names(p.Cells), " "); p.Bytes != c.size || got != c.cells {
				t.Errorf("%d bytes of %s", p.Bytes, got)
			}
			var left []string
			for _, l := range p.Left {
				left = append(left, l.Cell+": "+l.Why)
			}
			if !strings.Contains(strings.Join(left, "\n"), c.left) {
				t.Errorf("left out: %q", left)
			}
			taken := int64(0)
			for _, r := range p.Reserve {
				taken += (r.To - r.From) * r.Pages.Page()
			}
			if slices.ContainsFunc(p.Cells, func(c Cell) bool { return !c.Pages.reserved() }) {
				taken += p.Bytes
			}
			if available, _ := machine(t, c.files).Memory.AvailableBytes.Get(); taken > available/4 {
				t.Errorf("%d of %d bytes are taken", taken, available)
			}
		})
	}
}

// TestNodes tests that the work runs on the node with CPUs and the most free memory, that remote
// memory is on the furthest node, and that pages are reserved on the work's own node, in addition to
// those that others have reserved.
func TestNodes(t *testing.T) {
	p, err := Make(machine(t, nodes(plain("33554432", "[always] madvise never"))), Asked{})
	if err != nil {
		t.Fatal(err)
	}
	want := Reservation{HugeTLB2M, "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", 1, 513}
	if d := cmp.Diff(want, p.Reserve[0]); d != "" || p.Node != 1 || p.Far != 2 {
		t.Errorf("node %d, far %d\n%s", p.Node, p.Far, d)
	}
	v := p.Task(Cell{THP, Remote}, 3)
	if d := cmp.Diff(Task{Pages: THP, Bytes: 1 << 30, Reads: Reads, CPUs: []int{4, 5, 6, 7}, Node: 2, Seed: 3}, v); d != "" {
		t.Error(d)
	}
	if v := p.Task(p.Cells[0], 3); v.Node != 1 {
		t.Errorf("local memory on node %d", v.Node)
	}
}
