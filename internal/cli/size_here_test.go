package cli

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// What is left out of a size of PostgreSQL is this machine's, which the answer says;
// what is given is taken as it is.
func TestSizeOfThisMachine(t *testing.T) {
	f := fact.Collect(host.Live())
	total, _ := f.Memory.TotalBytes.Get()
	ram := fmt.Sprintf("%dMiB", total>>20)
	count, _ := f.CPU.Count.Get()
	cpus := fmt.Sprint(count)
	run := func(words ...string) (string, string, int) {
		var out, said strings.Builder
		code := Main("test", append([]string{"size", "postgresql", "--workload", "oltp", "--connections", "20"}, words...), &out, &said)
		return out.String(), said.String(), code
	}
	out, said, code := run()
	if code != 0 || !strings.Contains(out, "--ram ") || !strings.Contains(out, " --cpus "+cpus+"\n") || !strings.Contains(out, "; of this machine --ram ") {
		t.Errorf("exit code %d, %s%s; want this machine's %s and %s", code, said, out, ram, cpus)
	}
	if out, said, code := run("-o", "json"); code != 0 || !strings.Contains(out, `"from": "this machine"`) {
		t.Errorf("exit code %d, %s%s", code, said, out)
	}
	if out, said, code := run("--ram", "16GiB"); code != 0 || !strings.Contains(out, "; of this machine --cpus "+cpus+"\n") || !strings.Contains(out, "16 GiB / 4") {
		t.Errorf("exit code %d, %s%s", code, said, out)
	}
	if out, said, code := run("--ram", "16GiB", "--cpus", "8"); code != 0 || strings.Contains(out, "this machine") {
		t.Errorf("exit code %d, %s%s", code, said, out)
	}
}
