package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/memory"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// TestBenchMemoryOnNodes: on a machine with four nodes memory is measured on the CPU's
// own node and on another, the kernel says that it is there, and pages are reserved on
// the node where they are used.
func TestBenchMemoryOnNodes(t *testing.T) {
	testkitroot.Real(t, "boots a virtual machine")
	program := testkitroot.Program(t, "./cmd/fettle")
	vm := testkitvm.Boot(t, testkitvm.Options{})
	vm.Put(program, "/usr/local/bin/fettle")
	const pools = "cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"
	before := vm.Must(pools)
	out := vm.Must("fettle bench memory --size 32MiB --reads 20000 -o json 2>/dev/null")
	var run evidence.Run
	var b memory.Result
	if err := json.Unmarshal([]byte(out), &run); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(run.Body, &b); err != nil {
		t.Fatal(err)
	}
	t.Log(run.Verdict)
	for _, want := range []string{"4k", "thp", "hugetlb-2m", "4k-remote", "thp-remote"} {
		i := slices.IndexFunc(b.Cells, func(c memory.Summary) bool { return c.Cell == want })
		if i < 0 {
			t.Errorf("%s is not measured: %+v", want, b.Left)
			continue
		}
		if c := b.Cells[i]; c.Placed < 0.9 || c.Huge < 0.9 {
			t.Errorf("%+v", c)
		}
	}
	if !slices.ContainsFunc(b.Comparisons, func(c memory.Comparison) bool { return c.Cell == "thp-remote" && c.Against == "thp" }) {
		t.Errorf("remote memory is compared with nothing: %+v", b.Comparisons)
	}
	if after := vm.Must(pools); strings.TrimSpace(after) != strings.TrimSpace(before) {
		t.Errorf("huge pages of the nodes: %q, before %q", after, before)
	}
}
