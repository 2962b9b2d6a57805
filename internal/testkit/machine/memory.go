package machine

import (
	"os"
	"sync"
	"syscall"
	"testing"
)

// Memory returns the directory of the memory file system if programs can be run from it and a
// GiB is free there, otherwise "", as os.MkdirTemp expects. A journaling file system takes several
// times as long to create the small files of a machine, and each write of fettle is synced.
var Memory = sync.OnceValue(func() string {
	const dir = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Flags&syscall.MS_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < 1<<30 {
		return ""
	}
	return dir
})

// Dir returns a directory, in memory if possible, that is removed when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(Memory(), "fettle-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
