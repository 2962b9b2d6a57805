package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mounted is a mount of this process's namespace.
type mounted struct{ dir, kind string }

// mounts reads proc_pid_mountinfo(5).
func mounts() []mounted {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var all []mounted
	for line := range strings.Lines(string(text)) {
		mount, filesystem, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(mount), strings.Fields(filesystem)
		if ok && len(f) > 4 && len(g) > 0 {
			all = append(all, mounted{dir: f[4], kind: g[0]})
		}
	}
	return all
}

// hierarchies returns the directories of the hierarchies of control groups.
func hierarchies() []string {
	var dirs []string
	for _, m := range mounts() {
		if (m.kind == "cgroup" || m.kind == "cgroup2") && !slices.Contains(dirs, m.dir) {
			dirs = append(dirs, m.dir)
		}
	}
	return dirs
}

// cgroups returns the directories of all control groups.
func cgroups() []string {
	var dirs []string
	for _, root := range hierarchies() {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

// makeCgroup creates a control group below the root of each hierarchy. A kubelet does not start if
// the control group in its configuration does not exist.
func makeCgroup(name string) error {
	roots := hierarchies()
	if len(roots) == 0 {
		return errors.New("no control groups are mounted on this machine")
	}
	for _, root := range roots {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// A new group of version 1 has no processors and no memory until it is given some.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			all, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue // another hierarchy; with version 2 the root has no such file
			}
			if err := os.WriteFile(filepath.Join(dir, file), all, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup removes a control group and its children from each hierarchy. It waits for processes
// that are ending, at most for the time patience.
func removeCgroup(name string, patience time.Duration) error {
	var last error
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		last = nil
		for _, root := range hierarchies() {
			var dirs []string
			_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) { // the innermost first
				if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
					tasks, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
					last = fmt.Errorf("%s: %w; its processes: %s", dir, err, strings.Join(strings.Fields(string(tasks)), " "))
				}
			}
		}
		if last == nil || time.Now().After(end) {
			return last
		}
	}
}
