package host

import (
	"path"
	"slices"
	"strings"
)

// copiedWhole are places that sos copies as a whole, so that what is not there the
// machine has not: each as the plug-ins name it to the manifest, with what they
// leave out (sos 4.x: kernel.py, system.py, processor.py, block.py, memory.py,
// systemd.py).
var copiedWhole = []struct {
	spec    string
	without string // a name in it
}{
	{"/etc/sysctl.d", ""},
	{"/lib/sysctl.d", ""},
	{"/usr/lib/sysctl.d", ""},
	{"/etc/modprobe.d", ""},
	{"/etc/default", ""},
	{"/etc/sysconfig", ""},
	{"/etc/systemd", ""},
	{"/lib/systemd/system", ""},
	{"/etc/tuned", ""},
	{"/etc/redis", ""},
	{"/etc/postgresql", ""},
	{"/run/sysctl.d", ""},
	{"/proc/pressure", ""},
	{"/proc/sys", "flush"},
	{"/sys/devices/system/cpu", ""},
	{"/sys/module/*/parameters", ""},
	{"/sys/block/*/queue", "iosched"},
	{"/sys/kernel/mm/hugepages", ""},
	{"/sys/kernel/mm/ksm", ""},
	{"/sys/kernel/mm/transparent_hugepage", ""},
}

// mostCopied is how many files of /sys sos copies for one place at least:
// it stops at 25 MB, and counts a page for each.
const mostCopied = 5000

// absent is true where the machine has no such file: the place that would have it
// was copied whole, or the package that makes it is not in the whole list.
func (s *sosreport) absent(p string) bool {
	if s.incomplete() != "" {
		return false
	}
	if below(p, "/etc/tuned") && s.lacksPackage("tuned") {
		return true
	}
	if below(p, "/sys/fs/cgroup") && p != "/sys/fs/cgroup" {
		// Nothing is below where no hierarchy is mounted.
		b, err := s.files.ReadFile("/proc/mounts")
		return err == nil && len(b) > 0 && !strings.Contains(string(b), " cgroup")
	}
	m := s.manifest()
	if m == nil {
		return false
	}
	if rest, ok := strings.CutPrefix(p, "/usr/lib/"); ok && s.absent("/lib/"+rest) {
		return true
	}
	for _, w := range copiedWhole {
		n := m.specs[w.spec]
		if n == 0 || n > mostCopied && strings.HasPrefix(w.spec, "/sys/") {
			continue
		}
		depth := strings.Count(w.spec, "/")
		parts := strings.Split(p, "/")
		if len(parts) <= depth+1 {
			continue
		}
		top := strings.Join(parts[:depth+1], "/")
		if ok, _ := path.Match(w.spec, top); ok && (w.without == "" || !slices.Contains(parts[depth+1:], w.without)) {
			return true
		}
	}
	return false
}

// lacksPackage is true where a list of packages that is whole has a package not.
func (s *sosreport) lacksPackage(name string) bool {
	for _, l := range []struct{ file, begin, end string }{
		{"/sos_commands/dpkg/dpkg_-l", "\nii  ", " "},
		{"/installed-rpms", "\n", "-"},
	} {
		b, err := s.files.ReadFile(l.file)
		if text := string(b); err == nil && strings.Count(text, l.begin) > 20 && strings.HasSuffix(text, "\n") {
			return !strings.Contains("\n"+text, l.begin+name+l.end)
		}
	}
	return false
}
