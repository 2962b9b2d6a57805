package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStateDirectory(t *testing.T) {
	base := t.TempDir()
	good := filepath.Join(base, "good")
	j, err := Lock(good, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(good, Options{}); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "process") {
		t.Errorf("second lock: %v, want ErrBusy with the process", err)
	}
	j.Close()
	for name, mode := range map[string]os.FileMode{"": 0o700, "journal": 0o600, "lock": 0o600} {
		if st, err := os.Stat(filepath.Join(good, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, want %v (%v)", name, st.Mode().Perm(), mode, err)
		}
	}

	link := filepath.Join(base, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, why := range map[string]string{link: "symbolic link", open: "; if you trust its content: chmod 0700", file: "not a directory"} {
		if _, err := Lock(dir, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want a refusal: %s", dir, err, why)
		}
		if _, err := Read(dir, ""); err == nil {
			t.Errorf("%s: read all the same", dir)
		}
	}
	if os.Geteuid() == 0 {
		theirs := filepath.Join(base, "theirs")
		if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(theirs, Options{}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("directory of somebody else: %v", err)
		}
	}
	// A journal that is a link is not followed.
	sneaky := filepath.Join(base, "sneaky")
	if err := errors.Join(os.Mkdir(sneaky, 0o700), os.Symlink(file, filepath.Join(sneaky, "journal"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(sneaky, Options{}); err == nil {
		t.Error("a journal that is a symbolic link was opened")
	}
}

// TestForeignDirectoryIsLeftAlone tests that a directory that is not fettle's is refused, and stays
// unchanged.
func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	base := t.TempDir()
	full := func(name string, mode os.FileMode, files ...string) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("of somebody\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dirs := map[string]string{
		full("home", 0o700, ".profile"):                ".profile",
		full("spool", 0o755, "lock", "partial"):        "partial", // as apt's
		full("notes", 0o755, "journal", "other"):       "other",
		full("empty", 0o755):                           "chmod 0700",
		full("lost", 0o755, "lock", "journal.damaged"): "chmod 0700",
		"/":                                     "no journal",
		"/proc":                                 "kernel",
		"/proc/self/net/../task":                "kernel",
		"/sys":                                  "kernel",
		"/dev":                                  "kernel",
		"/sys/fettle":                           "kernel",
		"/proc/sys/fettle/state":                "kernel",
		filepath.Join(base, "to-sys", "cgroup"): "kernel",
	}
	if err := os.Symlink("/sys/fs", filepath.Join(base, "to-sys")); err != nil {
		t.Fatal(err)
	}
	for dir, why := range dirs {
		before, missing := os.Stat(dir)
		if missing == nil && int(before.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue // refused because it is root's
		}
		_, err := Lock(dir, Options{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want a refusal: %s", dir, err, why)
		}
		after, err := os.Stat(dir)
		if missing != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was made", dir)
			}
			continue
		}
		if err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s: mode %v, before %v (%v)", dir, after.Mode(), before.Mode(), err)
		}
		if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil && !strings.Contains("spool lost", filepath.Base(dir)) {
			t.Errorf("%s has a lock file now", dir)
		}
	}
}

// TestOwnDirectory tests that fettle's directories are accepted: an empty one, one whose journal
// was removed or is not written yet, and one that other users could read, which is closed again.
func TestOwnDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() {
		t.Helper()
		j, err := Lock(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("mode %v (%v), want 0700", st.Mode(), err)
		}
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)); err != nil {
		t.Fatal(err)
	}
	open()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open()
	if err := errors.Join(os.Rename(filepath.Join(dir, "journal"), filepath.Join(dir, "journal.looked-at")), os.Mkdir(filepath.Join(dir, "accepted"), 0o700), os.Mkdir(filepath.Join(dir, "scenarios"), 0o700)); err != nil {
		t.Fatal(err)
	}
	open()
}

// TestDirectoryThatCannotBeWritten tests that nothing is changed without a journal, and that the
// error says so.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed", "state")
	if err := os.Mkdir(filepath.Dir(dir), 0o555); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(filepath.Dir(dir))), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(12345) // to files this thread is another user, without root's rights
		}
		_, err := Lock(dir, Options{})
		done <- err
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "cannot write state directory "+dir+" (mkdir "+dir+": ") || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v", err)
	}
}

// TestBusyNamesTheProcess tests very short transactions: a second process learns which process
// holds the lock, or gets the lock.
func TestBusyNamesTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, err := Lock(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is in the file yet, as in the first moment of a transaction.
	if err := j.lock.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, Options{}); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "(process ") {
		t.Errorf("%v, want the process", err)
	}
	j.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				switch j, err := Lock(dir, Options{}); {
				case err == nil:
					j.Close()
				case !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "(process "):
					t.Errorf("%v, want the process", err)
				}
			}
		})
	}
	all.Wait()
}
