package tune

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestTestedPage compares the page with the table.
func TestTestedPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| system |")
	rule := "|---|"
	for _, a := range architectures {
		fmt.Fprintf(&b, " %s: package | values | kernel arguments |", a.name)
		rule += "---|---|---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, s := range systems {
		fmt.Fprintf(&b, "| %s |", s.name)
		for i := range architectures {
			on := s.on[i]
			fmt.Fprintf(&b, " %s | %s | %s |", on.pkg, on.values, on.bootArguments)
		}
		b.WriteString("\n")
	}
	root.Manual(t, "tested.md", root.Generated{Name: "systems", Text: b.String()})
}

func TestTestedOn(t *testing.T) {
	for _, c := range []struct{ id, version, release, more, want string }{
		{"rhel", "8.10", "4.18.0-553.el8.x86_64", "", "kernel arguments on RHEL 8 and its rebuilds, amd64: tested on recorded files only (docs/tested.md)"},
		{"rocky", "10.0", "6.12.0-55.el10.x86_64", "", "kernel arguments on RHEL 10 and its rebuilds, amd64: tested on recorded files only (docs/tested.md)"},
		{"debian", "12", "6.1.0-13-amd64", "", "kernel arguments on Debian 12, amd64: tested by running them (docs/tested.md)"},
		{"fedora", "43", "6.17.1-300.fc43.s390x", "", "kernel arguments on Fedora, s390x: never tested (docs/tested.md)"},
		{"fedora", "43", "6.17.1-300.fc43.x86_64", "/run/ostree-booted", "kernel arguments on rpm-ostree, bootc, amd64: never tested (docs/tested.md)"},
		{"rhel", "11", "6.20.0-1.el11.x86_64", "", "kernel arguments on Some Linux, x86_64: never tested (docs/tested.md)"},
		{"arch", "", "6.17.1-arch1-1", "", "kernel arguments on Some Linux, unknown architecture: never tested (docs/tested.md)"},
	} {
		files := map[string]string{"/etc/os-release": fmt.Sprintf("ID=%s\nVERSION_ID=%q\nNAME=\"Some Linux\"\n", c.id, c.version), "/proc/sys/kernel/osrelease": c.release + "\n"}
		if c.more != "" {
			files[c.more] = ""
		}
		if got := testedOn(machine.Mounted(t, files)).String(); got != c.want {
			t.Errorf("%s %s: %s\nwant %s", c.id, c.version, got, c.want)
		}
	}
}
