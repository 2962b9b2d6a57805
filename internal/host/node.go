package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Node returns a live machine with its root mounted at dir, for a process in a container on
// that machine. Unlike with Mounted, programs run in that root. If dir has this kernel's
// processes, the network devices and tasks are those of this process. Its namespaces must then
// be the machine's (ForeignNamespaces).
func Node(dir string) *Host {
	h := Mounted(dir)
	h.Files = nodeFiles{rootedFiles{dir}}
	if filepath.Clean(dir) != "/" {
		h.Exec = liveExec{root: dir}
	} else {
		h.Exec = liveExec{}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Join(dir, "proc"), &s); err == nil && s.Type == unix.PROC_SUPER_MAGIC {
		h.Net, h.Sched = liveNet{}, liveSched{}
	}
	return h
}

// nodeFiles extends rootedFiles with reading device files, such as /dev/cpu_dma_latency: a
// node's files are trusted.
type nodeFiles struct{ rootedFiles }

func (f nodeFiles) ReadFile(p string) ([]byte, error) {
	at, err := f.walk(p, true)
	if err != nil {
		return nil, err
	}
	b, err := readCapped(f.outer(at))
	return b, f.inner(err, p)
}

// ForeignNamespaces lists the namespaces of this process that differ from those of the machine
// mounted at dir. In a foreign namespace, sysctls would be the container's
// (network_namespaces(7), ipc_namespaces(7)), and only the container's processes visible. The
// list is empty for trees without processes, such as copies.
func ForeignNamespaces(dir string) ([]string, error) {
	var apart []string
	for _, name := range []string{"net", "ipc", "uts", "pid"} {
		theirs, err := os.Readlink(filepath.Join(dir, "proc/1/ns", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("namespaces of the machine at %s: %w", dir, err)
		}
		ours, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return nil, err
		}
		if ours != theirs {
			apart = append(apart, name)
		}
	}
	return apart, nil
}
