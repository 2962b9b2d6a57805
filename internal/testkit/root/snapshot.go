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

// changesByItself are places below /proc/sys and /sys whose values move without
// anybody tuning them, or that reading disturbs.
var changesByItself = []string{
	"/proc/sys/fs/binfmt_misc/", "/proc/sys/fs/quota/", "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/random/",
	"/sys/fs/cgroup/", "/sys/kernel/debug/", "/sys/kernel/mm/damon/", "/sys/kernel/mm/lru_gen/", "/sys/kernel/mm/page_idle/",
	"/sys/kernel/security/", "/sys/kernel/slab/", "/sys/kernel/tracing/",
}

// computed are names of attributes that print something else than was written:
// the limits of a bdi in bytes follow the memory that is free.
var computed = []string{"/uevent", "/max_bytes", "/min_bytes"}

// Settings is what this machine has in every file below /proc/sys and /sys that
// can be read and written, and the affinity of every interrupt: path to content,
// of which the first 4 KiB count. Places that move by themselves are left out.
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

// Reread reads the places of a tree anew.
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

// Changed are the places of a tree that are otherwise in another one, gone ones
// included. What only the other one has is not: modules and devices come and go.
func (before Tree) Changed(after Tree) Tree {
	changed := Tree{}
	for p, was := range before {
		if is, ok := after[p]; !ok || is != was {
			changed[p] = was
		}
	}
	return changed
}

// Differences are the lines of Changed for a person, in order.
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

// Tasks is the affinity, scheduling policy, real-time priority and nice value of
// every thread of this machine, by its number and the time of its start, so that
// a number used again is another task.
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
		// proc_pid_stat(5); the name in parentheses may hold anything.
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

// Common leaves out what is not in the other tree as well: tasks end.
func (t Tree) Common(other Tree) Tree {
	both := Tree{}
	for k, v := range t {
		if _, ok := other[k]; ok {
			both[k] = v
		}
	}
	return both
}
