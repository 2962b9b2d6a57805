package table

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// identities checks one name of a kernel setting: every name has the same identity, at most one
// kind claims the identity, and all of its files lead to it. It returns the first fault, or "".
func identities(kinds setting.Kinds, name string) (id setting.Setting, wrong string) {
	named, err := setting.Parse(name)
	if err != nil {
		return id, err.Error()
	}
	id, err = kinds.Resolve(named)
	if err != nil {
		return id, fmt.Sprintf("%s: %v", name, err)
	}
	own, err := kinds[named.Kind].Resolve(named)
	if err != nil {
		return id, fmt.Sprintf("%s: %v", name, err)
	}
	var claimed []string
	for kind, k := range kinds {
		a, ok := k.(setting.Aliaser)
		if !ok {
			continue
		}
		if alias, ok := a.Alias(own); ok {
			claimed = append(claimed, fmt.Sprintf("kind %s (as %s)", kind, alias))
			if id != alias {
				return id, fmt.Sprintf("%s is %s, and %s for kind %s", name, id, alias, kind)
			}
		}
		if alias, ok := a.Alias(id); ok && id.Kind != own.Kind {
			return id, fmt.Sprintf("%s is %s, which is %s for kind %s", name, id, alias, kind)
		}
	}
	if len(claimed) > 1 {
		slices.Sort(claimed)
		return id, fmt.Sprintf("%s is claimed by %s", name, strings.Join(claimed, " and "))
	}
	if again, err := kinds.Resolve(id); err != nil || again != id {
		return id, fmt.Sprintf("%s is %s, and that is %s (%v)", name, id, again, err)
	}
	for _, file := range kinds.KernelFiles(id) {
		s, err := setting.Parse(file)
		if err != nil {
			return id, err.Error()
		}
		if other, err := kinds.Resolve(s); err != nil || other != id {
			return id, fmt.Sprintf("%s is written through %s too, and that is %s (%v)", id, file, other, err)
		}
	}
	return id, ""
}

// places lists the sysctls and attributes of the machine at root, also through the links to its
// devices.
func places(t *testing.T, h *host.Host, root string) []string {
	t.Helper()
	var out []string
	for _, top := range []string{"/proc/sys", "/sys"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(p string, d fs.DirEntry, err error) error {
			switch name := "/" + strings.TrimPrefix(strings.TrimPrefix(p, root), "/"); {
			case err != nil:
				return nil //nolint:nilerr // a device that has just gone, or a directory of another user
			case d.IsDir() && (name == "/sys/fs/cgroup" || name == "/sys/kernel/debug" || name == "/sys/kernel/tracing"):
				return fs.SkipDir // tens of thousands of files that no kind sees but as they are
			case d.Type().IsRegular():
				out = append(out, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"/sys/class/net/*/*", "/sys/class/bdi/*/*", "/sys/class/block/*/queue/*", "/sys/block/*/queue/*", "/sys/dev/block/*/queue/*", "/sys/block/*/bdi/*"} {
		more, err := host.Glob(h.Files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range more {
			if st, err := h.Files.Stat(p); err == nil && st.Mode().IsRegular() {
				out = append(out, p)
			}
		}
	}
	return out
}

// TestOneIdentityEachOnThisMachine tests that all names of each setting of this machine, of any
// kind, lead to one identity.
func TestOneIdentityEachOnThisMachine(t *testing.T) {
	h := host.Live()
	kinds := Kinds(h)
	names := places(t, h, "/")
	if len(names) < 100 {
		t.Errorf("%d names of places on this machine, want all of them", len(names))
	}
	for _, name := range names {
		if _, wrong := identities(kinds, name); wrong != "" {
			// Devices come and go while tests run: what is wrong stays wrong.
			var gone bool
			root.Eventually(time.Minute, func() bool {
				if _, err := h.Files.Stat(name); err != nil {
					gone = true
					return true
				}
				_, wrong = identities(kinds, name)
				return wrong == ""
			})
			if wrong != "" && !gone {
				t.Error(wrong)
			}
		}
	}
}

// cards are the network devices of a simulated machine.
type cards struct{ host.Net }

func (cards) Link(name string) (host.Link, error) { return host.Link{Name: name}, nil }

func (cards) Params(string, host.NetGroup) ([]host.NetParam, error) { return nil, nil }

// TestOneIdentityEachOnAMachineWithAll does the same on a simulated machine that has every setting
// with a second name. It also tests that names that should have the same identity do.
func TestOneIdentityEachOnAMachineWithAll(t *testing.T) {
	const sda = "/sys/devices/pci0000:00/0000:00:05.0/host0/target0:0:0/0:0:0:0/block/sda"
	m := root.NewMachine(t)
	files := map[string]string{
		"/sys/devices/virtual/bdi/8:0/read_ahead_kb": "128",
		sda + "/dev": "8:0",
	}
	for _, name := range []string{"vm/nr_hugepages", "vm/nr_hugepages_mempolicy", "vm/nr_overcommit_hugepages", "net/nf_conntrack_max", "net/netfilter/nf_conntrack_max",
		"net/netfilter/nf_conntrack_buckets", "kernel/panic", "kernel/panic_on_warn", "kernel/panic_print", "sunrpc/udp_slot_table_entries"} {
		files["/proc/sys/"+name] = "0"
	}
	for _, name := range []string{"nf_conntrack/parameters/hashsize", "kernel/parameters/panic", "kernel/parameters/panic_on_warn", "kernel/parameters/panic_print", "sunrpc/parameters/udp_slot_table_entries"} {
		files["/sys/module/"+name] = "0"
	}
	for _, name := range []string{"nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages"} {
		files["/sys/kernel/mm/hugepages/hugepages-2048kB/"+name] = "0"
		files["/sys/kernel/mm/hugepages/hugepages-1048576kB/"+name] = "0"
	}
	for p, text := range files {
		machine.WriteFile(t, m.Dir, p, text+"\n")
	}
	if err := os.MkdirAll(filepath.Join(m.Dir, "sys/dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../.."+strings.TrimPrefix(sda, "/sys"), filepath.Join(m.Dir, "sys/dev/block/8:0")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	h := host.Mounted(m.Dir)
	h.Net = cards{h.Net}
	kinds := Kinds(h)
	met := map[setting.Setting]map[string]bool{}
	for _, name := range places(t, h, m.Dir) {
		id, wrong := identities(kinds, name)
		if wrong != "" {
			t.Error(wrong)
		}
		if met[id] == nil {
			met[id] = map[string]bool{}
		}
		real, err := h.Files.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		met[id][real] = true
	}
	got := map[string][]string{}
	for id, files := range met {
		if len(files) > 1 || id.Kind != "sysctl" && id.Kind != "sysfs" {
			for f := range files {
				got[id.String()] = append(got[id.String()], path.Base(path.Dir(f))+"/"+path.Base(f))
			}
			slices.Sort(got[id.String()])
		}
	}
	want := map[string][]string{
		"sysctl:kernel.panic":                                             {"kernel/panic", "parameters/panic"},
		"sysctl:kernel.panic_on_warn":                                     {"kernel/panic_on_warn", "parameters/panic_on_warn"},
		"sysctl:kernel.panic_print":                                       {"kernel/panic_print", "parameters/panic_print"},
		"sysctl:net.netfilter.nf_conntrack_buckets":                       {"netfilter/nf_conntrack_buckets", "parameters/hashsize"},
		"sysctl:net.netfilter.nf_conntrack_max":                           {"net/nf_conntrack_max", "netfilter/nf_conntrack_max"},
		"sysctl:sunrpc.udp_slot_table_entries":                            {"parameters/udp_slot_table_entries", "sunrpc/udp_slot_table_entries"},
		"sysctl:vm.nr_hugepages":                                          {"hugepages-2048kB/nr_hugepages", "hugepages-2048kB/nr_hugepages_mempolicy", "vm/nr_hugepages", "vm/nr_hugepages_mempolicy"},
		"sysctl:vm.nr_overcommit_hugepages":                               {"hugepages-2048kB/nr_overcommit_hugepages", "vm/nr_overcommit_hugepages"},
		"sysfs:" + sda + "/queue/read_ahead_kb":                           {"8:0/read_ahead_kb", "queue/read_ahead_kb"},
		"sysfs:/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": {"hugepages-1048576kB/nr_hugepages", "hugepages-1048576kB/nr_hugepages_mempolicy"},
	}
	for _, device := range []string{"eth0", "eth1", "lo"} {
		want["net:"+device+"/mtu"] = []string{device + "/mtu"}
		want["net:"+device+"/txqueuelen"] = []string{device + "/tx_queue_len"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places with more than one name, or with one of another kind (-want +got):\n%s", diff)
	}
}

// thief is a kind that claims the settings of another kind.
type thief struct{ setting.Kind }

func (thief) Alias(s setting.Setting) (setting.Setting, bool) {
	return setting.Setting{Kind: "thief", Name: "mtu"}, strings.HasSuffix(s.Name, "/mtu")
}

func (thief) Resolve(s setting.Setting) (setting.Setting, error) { return s, nil }

// TestTwoIdentitiesAreFound tests that two kinds with the same claim are detected.
func TestTwoIdentitiesAreFound(t *testing.T) {
	const name = "/sys/class/net/eth0/mtu"
	h := machine.Mounted(t, map[string]string{name: "1500\n"})
	h.Net = cards{h.Net}
	kinds := Kinds(h)
	if _, wrong := identities(kinds, name); wrong != "" {
		t.Error(wrong)
	}
	kinds["thief"] = thief{}
	if _, wrong := identities(kinds, name); wrong == "" {
		t.Errorf("%s has two identities, and nobody notices", name)
	}
}
