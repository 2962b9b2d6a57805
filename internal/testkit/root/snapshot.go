package root

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// changesByItself are files and directories below /proc/sys and /sys whose values change
// without tuning, or that reading disturbs.
var changesByItself = []string{
	"/proc/sys/fs/binfmt_misc/", "/proc/sys/fs/quota/", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/",
	"/sys/fs/cgroup/", "/sys/kernel/debug/", "/sys/kernel/mm/damon/", "/sys/kernel/mm/lru_gen/", "/sys/kernel/mm/page_idle/",
	"/sys/kernel/security/", "/sys/kernel/slab/", "/sys/kernel/tracing/",
}

// computed are names of attributes that do not read back as written: the limits of a bdi in
// bytes follow the free memory.
var computed = []string{"/uevent", "/max_bytes", "/min_bytes"}

// Settings returns the first 4 KiB of every file below /proc/sys and /sys that can be read and
// written, and the affinity of every interrupt, by path. It omits files that change without
// tuning or do not read back as written.
func Settings() Tree {
	settings := Tree{}
	for _, root := range []string{"/proc/sys", "/sys", "/proc/irq"} {
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if slices.ContainsFunc(changesByItself, func(n string) bool { return p == n || strings.HasPrefix(p+"/", n) }) {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if !d.Type().IsRegular() || slices.ContainsFunc(computed, func(n string) bool { return strings.HasSuffix(p, n) }) {
				return nil
			}
			if st, err := d.Info(); err != nil || st.Mode()&0o222 == 0 || st.Mode()&0o444 == 0 {
				return nil
			}
			if text, err := readSetting(p); err == nil {
				settings[p] = text
			}
			return nil
		})
	}
	return settings
}

// Reread reads the files of a tree again.
func (t Tree) Reread() Tree {
	now := Tree{}
	for p := range t {
		if text, err := readSetting(p); err == nil {
			now[p] = text
		}
	}
	return now
}

func readSetting(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 4096)
	n, err := f.Read(buf)
	return string(buf[:max(n, 0)]), err
}

// Changed returns the files of a tree that differ in, or are missing from, another one. Files
// in the other tree only do not count, because modules and devices come and go.
func (before Tree) Changed(after Tree) Tree {
	changed := Tree{}
	for p, was := range before {
		if is, ok := after[p]; !ok || is != was {
			changed[p] = was
		}
	}
	return changed
}

// Differences formats the result of Changed as sorted lines.
func (before Tree) Differences(after Tree) []string {
	var lines []string
	for p, was := range before.Changed(after) {
		if is, ok := after[p]; ok {
			lines = append(lines, fmt.Sprintf("%s: was %q, is %q", p, was, is))
		} else {
			lines = append(lines, fmt.Sprintf("%s: was %q, is gone", p, was))
		}
	}
	slices.Sort(lines)
	return lines
}

// Tasks returns the affinity, scheduling policy, real-time priority and nice value of every
// thread of this machine. The key includes the start time, so that a reused thread id is
// another task.
func Tasks() Tree {
	tasks := Tree{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue
		}
		// See proc_pid_stat(5): the name in parentheses may contain any byte.
		i := strings.LastIndex(string(stat), ")")
		f := strings.Fields(string(stat[i+1:]))
		if i < 0 || len(f) < 39 {
			continue
		}
		nice, start, priority, policy := f[16], f[19], f[37], f[38]
		affinity := ""
		for line := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				affinity = strings.TrimSpace(v)
			}
		}
		tasks[fmt.Sprintf("task %s since %s", filepath.Base(dir), start)] =
			fmt.Sprintf("affinity %s, policy %s, priority %s, nice %s", affinity, policy, priority, nice)
	}
	return tasks
}

// Common returns the entries whose key is in the other tree as well, because tasks end.
func (t Tree) Common(other Tree) Tree {
	both := Tree{}
	for k, v := range t {
		if _, ok := other[k]; ok {
			both[k] = v
		}
	}
	return both
}
