package tune

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// level is how well something was tested on a system.
type level string

// The levels. never is the zero value.
const (
	ran      level = "run"       // tests ran it there
	treeOnly level = "tree only" // tests read and wrote files of such a system
	never    level = ""
)

func (l level) String() string {
	if l == never {
		return "never"
	}
	return string(l)
}

// architectures are the columns of the page, by the kernel's machine name.
var architectures = []struct{ machine, name string }{{"x86_64", "amd64"}, {"aarch64", "arm64"}}

// tests are the levels of one system and architecture.
type tests struct{ pkg, values, bootArguments level }

// system is a row of the page docs/tested.md: distributions with the same boot files and packages.
type system struct {
	name string
	ids  []string // os-release(5), ID
	// versions are major versions, or the prefix of VERSION_ID; nil for all.
	versions []string
	// on has the levels by architecture, in the order of architectures.
	on [2]tests
}

var rebuilds = []string{"rhel", "centos", "rocky", "almalinux", "ol"}

// systems lists the tests that were made on each system. A row without levels says that a system is
// known, and that nothing was tested. The page docs/tested.md has the same rows, and the details.
var systems = []system{
	{"Debian 12", []string{"debian"}, []string{"12"}, [2]tests{{ran, ran, ran}, {values: ran, bootArguments: ran}}},
	{"Debian 13", []string{"debian"}, []string{"13"}, [2]tests{{pkg: ran}, {}}},
	{"Ubuntu", []string{"ubuntu"}, nil, [2]tests{}},
	{"RHEL 7 and its rebuilds", rebuilds, []string{"7"}, [2]tests{{values: treeOnly}, {}}},
	{"RHEL 8 and its rebuilds", rebuilds, []string{"8"}, [2]tests{{values: treeOnly, bootArguments: treeOnly}, {}}},
	{"RHEL 9 and its rebuilds", rebuilds, []string{"9"}, [2]tests{{values: treeOnly, bootArguments: treeOnly}, {}}},
	{"RHEL 10 and its rebuilds", rebuilds, []string{"10"}, [2]tests{{values: treeOnly, bootArguments: treeOnly}, {}}},
	{"Fedora", []string{"fedora"}, nil, [2]tests{{values: treeOnly, bootArguments: treeOnly}, {}}},
	{"SLES, openSUSE", []string{"sles", "opensuse-leap", "opensuse-tumbleweed"}, nil, [2]tests{}},
	{"rpm-ostree, bootc", nil, nil, [2]tests{}},
}

// Tested is how well boot arguments were tested on a machine's system.
type Tested struct {
	System        string `json:"system"`         // row of docs/tested.md, or the distribution's own name
	Arch          string `json:"arch"`           // amd64, arm64, or the kernel's name
	BootArguments string `json:"boot_arguments"` // run, tree only or never
}

// String returns a sentence.
func (t Tested) String() string {
	how := map[string]string{
		ran.String(): "tested by running them", treeOnly.String(): "tested on recorded files only", never.String(): "never tested",
	}[t.BootArguments]
	return fmt.Sprintf("kernel arguments on %s, %s: %s (docs/tested.md)", t.System, t.Arch, how)
}

// testedOn returns how well boot arguments were tested on a machine's system.
func testedOn(h *host.Host) *Tested {
	f := fact.Collect(h, "os", "kernel")
	id, _ := f.OS.ID.Get()
	version, _ := f.OS.VersionID.Get()
	machine, _ := f.Kernel.Arch.Get()
	t := &Tested{System: "this system", Arch: machine, BootArguments: never.String()}
	if name, ok := f.OS.Name.Get(); ok {
		t.System = name
	}
	if machine == "" {
		t.Arch = "unknown architecture"
	}
	_, err := h.Files.Lstat("/run/ostree-booted")
	for _, s := range systems {
		if image := s.ids == nil; image != (err == nil) || !image && !s.has(id, version) {
			continue
		}
		t.System = s.name
		for i, a := range architectures {
			if a.machine == machine {
				t.Arch, t.BootArguments = a.name, s.on[i].bootArguments.String()
			}
		}
		break
	}
	return t
}

func (s system) has(id, version string) bool {
	major, _, _ := strings.Cut(version, ".")
	return slices.Contains(s.ids, id) && (s.versions == nil || slices.Contains(s.versions, major))
}
