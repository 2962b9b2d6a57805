package rhel6

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// update writes the golden files again (make golden).
var update = os.Getenv("FETTLE_UPDATE_GOLDEN") == "1"

// rhel6Machine is a copied machine with a current kernel and the listed sysctls.
func rhel6Machine(t *testing.T, release string, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	machine.WriteFile(t, dir, "/proc/sys/kernel/osrelease", release+"\n")
	machine.WriteFile(t, dir, "/bin/bash", "")
	machine.WriteFile(t, dir, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	for _, f := range files {
		machine.WriteFile(t, dir, f, "0\n")
	}
	return dir
}

// today are sysctls of Linux 6.12.
var today = []string{
	"/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/swappiness", "/proc/sys/vm/laptop_mode",
	"/proc/sys/vm/dirty_writeback_centisecs", "/proc/sys/kernel/nmi_watchdog", "/proc/sys/kernel/shmmax",
	"/proc/sys/kernel/numa_balancing", "/proc/sys/kernel/core_pattern", "/proc/sys/net/ipv4/ip_local_port_range",
	"/proc/sys/net/netfilter/nf_conntrack_max", "/sys/block/sda/queue/rq_affinity",
}

// place copies a fixture to /etc/tune-profiles of the machine.
func place(t *testing.T, root, name string) string {
	t.Helper()
	dir := "/etc/tune-profiles/" + name
	entries, err := os.ReadDir(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join("testdata", name, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		machine.WriteFile(t, root, dir+"/"+e.Name(), string(b))
	}
	return dir
}

func importAt(t *testing.T, root, dir string) Result {
	t.Helper()
	r, err := Import(context.Background(), host.Mounted(root), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r Result) file(name string) string {
	for _, f := range r.Files {
		if f.Path == name {
			return f.Data
		}
	}
	return ""
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"throughput-like", "latency-like", "powersave-like", "helpers-only"} {
		t.Run(name, func(t *testing.T) {
			root := rhel6Machine(t, "6.12.4", today...)
			r := importAt(t, root, place(t, root, name))
			got := map[string]string{"tuned.conf": r.file("tuned.conf"), "script.sh": r.file("script.sh")}
			var said strings.Builder
			for _, w := range r.Warnings {
				said.WriteString(w.String())
				said.WriteString("\n")
			}
			said.WriteString("\n")
			for _, w := range r.Translated {
				said.WriteString(origin{w.File, w.Line, w.Text}.String() + " -> " + w.To + "\n")
			}
			got["said.txt"] = said.String()
			for file, text := range got {
				golden := filepath.Join("testdata", name+".golden", file)
				if update {
					if text == "" {
						os.Remove(golden)
						continue
					}
					machine.WriteFile(t, ".", golden, text)
					continue
				}
				want, err := os.ReadFile(golden)
				if err != nil && !(text == "" && errors.Is(err, fs.ErrNotExist)) {
					t.Error(err)
				}
				if diff := cmp.Diff(string(want), text); diff != "" {
					t.Errorf("%s (-want +got):\n%s", golden, diff)
				}
			}
		})
	}
}
