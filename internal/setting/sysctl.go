package setting

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// sysctl is the kind of files below /proc/sys. Canonical names have dots as separators. A dot
// inside a component (a VLAN interface) is written as a slash, as in sysctl(8) and
// sysctl.d(5): net.ipv4.conf.eth0/100.rp_filter.
type sysctl struct{ host *host.Host }

const procSys = "/proc/sys/"

// SysctlPath returns the path of a sysctl in either spelling. The first separator, a dot or a
// slash, is the separator of the name (sysctl.d(5)).
func SysctlPath(name string) (string, error) {
	if key, ok := strings.CutPrefix(name, procSys); ok {
		name = key
	} else if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' {
		name = swapSeparators(name)
	}
	for _, c := range strings.Split(name, "/") {
		if c == ".." {
			return "", fmt.Errorf("sysctl %q: %w %s", name, ErrOutside, procSys)
		}
		if c == "" || c == "." {
			return "", fmt.Errorf("sysctl %q: not a name below /proc/sys", name)
		}
	}
	return procSys + name, nil
}

// SysctlName returns the canonical name for a path below /proc/sys.
func SysctlName(path string) string {
	return swapSeparators(strings.TrimPrefix(path, procSys))
}

func swapSeparators(s string) string { return separators.Replace(s) }

var separators = strings.NewReplacer(".", "/", "/", ".")

// sysctlAliases maps second names of a kernel variable to the canonical one.
// mm/hugetlb.c uses one handler for both (the mempolicy variant only places pages
// differently); net/netfilter/nf_conntrack_standalone.c has one address in two tables.
var sysctlAliases = map[string]string{
	"vm.nr_hugepages_mempolicy": "vm.nr_hugepages",
	"net.nf_conntrack_max":      "net.netfilter.nf_conntrack_max",
}

func (k sysctl) Resolve(s Setting) (Setting, error) {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Setting{}, err
	}
	name := SysctlName(p)
	if main, ok := sysctlAliases[name]; ok {
		name = main
	}
	return Setting{"sysctl", name}, nil
}

func (k sysctl) Read(_ context.Context, s Setting) (Value, error) {
	p, err := SysctlPath(s.Name)
	if err != nil {
		return Value{}, err
	}
	b, err := k.host.Files.ReadFile(p)
	if err != nil {
		return absentOr(err)
	}
	return Text(strings.TrimSuffix(string(b), "\n")), nil
}

// line returns the bytes to write for a value. An empty value is written as an empty line,
// because the kernel ignores writes of zero bytes (fs/read_write.c, proc_sys_write).
func line(text string) []byte {
	if text == "" {
		return []byte("\n")
	}
	return []byte(text)
}

func (k sysctl) Write(_ context.Context, s Setting, v Value) error {
	if v.Absent {
		return fmt.Errorf("%s: kernel variables cannot be removed", s)
	}
	if strings.Contains(v.Text, "\n") {
		return fmt.Errorf("%s: a value of several lines cannot be written", s)
	}
	p, err := SysctlPath(s.Name)
	if err != nil {
		return err
	}
	return k.host.Files.Store(p, line(v.Text))
}

func (k sysctl) Equal(a, b Value) bool { return equalFields(a.Text, b.Text) }

func (k sysctl) glob(pattern, kind string) []Setting { return globSettings(k.host, pattern, kind) }

func globSettings(h *host.Host, pattern, kind string) []Setting {
	paths, err := host.Glob(h.Files, pattern)
	if err != nil {
		return nil
	}
	out := make([]Setting, 0, len(paths))
	for _, p := range paths {
		name := p
		if kind == "sysctl" {
			name = SysctlName(p)
		}
		out = append(out, Setting{kind, name})
	}
	return out
}

func (k sysctl) defaultHugePage() string { return DefaultHugePage(k.host) }

func (sysctl) Lifetime() Lifetime { return Runtime }

// ErrOutside is returned for a name that resolves to a path outside its kind's root.
var ErrOutside = errors.New("leads outside")

func below(root, p string) error {
	if c := path.Clean(p); c != strings.TrimSuffix(root, "/") && !strings.HasPrefix(c, root) {
		return fmt.Errorf("%s: %w %s", p, ErrOutside, root)
	}
	return nil
}
