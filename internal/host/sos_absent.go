package host

import (
	"path"
	"slices"
	"strings"
)

// copiedWhole lists paths that sos copies completely. A file missing there certainly does not
// exist on the machine. Each has its name in the plug-ins and the manifest, and the part that the
// plug-ins omit (sos 4.x: kernel.py, system.py, processor.py, block.py, memory.py, systemd.py).
var copiedWhole = []struct {
	spec    string
	without string // an omitted name
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

// mostCopied is the maximum number of files below /sys for which a copy is complete. sos stops
// at 25 MB and counts a page for each file.
const mostCopied = 5000

// absent reports whether the machine certainly lacks the file: its directory was copied
// completely, or a complete package list lacks the package that creates it.
func (s *sosreport) absent(p string) bool {
	if s.incomplete() != "" {
		return false
	}
	if below(p, "/etc/tuned") && s.lacksPackage("tuned") {
		return true
	}
	if below(p, "/sys/fs/cgroup") && p != "/sys/fs/cgroup" {
		// If no hierarchy is mounted, the directory is empty.
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

// lacksPackage reports whether the report has a complete package list that lacks the package.
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
