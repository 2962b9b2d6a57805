package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Node is a live machine whose root is mounted at dir, for a process in a container
// on it: Mounted, with programs run in that root, and, where dir shows this kernel's
// processes, with the network devices and tasks that this process sees, which have to
// be the machine's (Apart).
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

// nodeFiles is rootedFiles of a machine that is trusted as one's own: its devices are
// read too, as /dev/cpu_dma_latency has to be.
type nodeFiles struct{ rootedFiles }

func (f nodeFiles) ReadFile(p string) ([]byte, error) {
	at, err := f.walk(p, true)
	if err != nil {
		return nil, err
	}
	b, err := readCapped(f.outer(at))
	return b, f.inner(err, p)
}

// ForeignNamespaces lists the namespaces in which this process is not where the machine is whose
// root is mounted at dir: there it would read and write sysctls of its own container
// instead of the machine's (network_namespaces(7), ipc_namespaces(7)), or see no
// processes but its own. A tree without processes, such as a copy, has none.
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
