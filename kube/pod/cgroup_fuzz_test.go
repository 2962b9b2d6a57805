package pod

import "testing"

// FuzzProc tests the kernel's files, which contain names that any user can choose.
func FuzzProc(f *testing.F) {
	f.Add("70 (a) R (b) S 1 1 1 0 -1 4194304 0 0 0 0\n", "9:cpuset,cpu:/a:b\n0::/c\n", "Cpus_allowed_list:\t0-3\n", "24 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	f.Add("1 ()", "::", "Cpus_allowed_list:", " - cgroup c cpuset")
	f.Fuzz(func(t *testing.T, stat, groups, status, mounts string) {
		if name, _, err := parseStat(stat); err == nil && len(name) > len(stat) {
			t.Errorf("%q: name %q", stat, name)
		}
		group := groupOf(groups)
		if Class(group) != "" != OfPods(group) {
			t.Errorf("%q is of class %q, and of pods: %t", group, Class(group), OfPods(group))
		}
		_, _ = allowed(status)
		for _, h := range hierarchies(mounts) {
			if h.Version != 1 && h.Version != 2 {
				t.Errorf("%q: %+v", mounts, h)
			}
		}
	})
}
