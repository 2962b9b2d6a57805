package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sandbox is a view of the machine for a program of which nothing may stay: all file
// systems are read-only, and what it may write in is empty but for its directories and
// ends with it. It sees no network and no process of others, has no capabilities and
// cannot get any, and all that it has started ends with it.
type Sandbox struct {
	// Empty are directories that the program may write in, in addition to those of
	// alwaysEmpty. One that does not exist is left out.
	Empty []string
	// Names are host names that the program finds, at 127.0.0.1; it can ask no DNS server.
	Names []string
}

// alwaysEmpty are where programs write, and talk to others (sockets in /run).
var alwaysEmpty = []string{"/tmp", "/var/tmp", "/run", "/dev/shm", "/var/log", "/var/lock", "/var/run"}

// Limits of what a private view costs.
const (
	sandboxSize   = "64m" // of each empty directory
	maxMirrored   = 5000  // directories that are made again in an empty one
	mirroredDepth = 5
)

// inSandbox runs the function on a thread of its own that has the view, and never serves
// another goroutine. Programs that run starts there have it too; user owns what is empty.
func inSandbox(p *Sandbox, user *User, run func() (Result, error)) (res Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err = p.enter(user); err != nil {
			err = fmt.Errorf("no private view of the machine for it: %w", err)
			return
		}
		res, err = run()
	}()
	<-done
	return res, err
}

// enter gives the calling thread the view.
func (p *Sandbox) enter(user *User) error {
	if unix.Geteuid() != 0 {
		return errors.New("only root can make one")
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	// In this network any port and any address may be bound, as root may on the machine. In
	// a container /proc/sys is often a read-only mount of its own.
	_ = unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	for name, value := range map[string]string{"ipv4/ip_unprivileged_port_start": "0", "ipv4/ip_nonlocal_bind": "1", "ipv6/ip_nonlocal_bind": "1"} {
		_ = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) // older kernels have not all
	}
	empty, err := emptied(append(slices.Clone(alwaysEmpty), p.Empty...))
	if err != nil {
		return err
	}
	if err := allReadOnly(); err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(empty)) {
		if err := empty[dir].mount(dir, user); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := p.names(); err != nil {
		return err
	}
	if st, err := os.Lstat("/dev/log"); err == nil && st.Mode()&fs.ModeSocket != 0 {
		if err := unix.Mount("/dev/null", "/dev/log", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/dev/log: %w", err)
		}
	}
	return dropCapabilities()
}

// tree are the directories in one that is emptied, by their path in it.
type tree map[string]fs.FileMode

// emptied finds the directories that are emptied, without links and without those that are
// in another one.
func emptied(dirs []string) (map[string]tree, error) {
	out := map[string]tree{}
	var real []string
	for _, dir := range dirs {
		full, err := filepath.EvalSymlinks(dir)
		if st, statErr := os.Stat(full); err == nil && statErr == nil && st.IsDir() && full != "/" {
			real = append(real, full)
		}
	}
	slices.Sort(real)
	last := ""
	for _, dir := range real {
		if last != "" && (dir == last || strings.HasPrefix(dir, last+"/")) {
			continue
		}
		last = dir
		t := tree{}
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, name)
			switch {
			case err != nil && name == dir:
				return err
			case err != nil: // it has ended meanwhile
				return nil
			case !e.IsDir():
				return nil
			case len(t) >= maxMirrored:
				return fs.SkipAll
			case strings.Count(rel, "/") >= mirroredDepth:
				return fs.SkipDir
			}
			if st, err := e.Info(); err == nil {
				t[rel] = st.Mode().Perm()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		out[dir] = t
	}
	return out, nil
}

// mount puts an empty file system with the directories of a tree over one, which user owns.
func (t tree) mount(dir string, user *User) error {
	if err := unix.Mount("fettle", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size="+sandboxSize); err != nil {
		return err
	}
	for _, rel := range slices.Sorted(maps.Keys(t)) {
		name := path.Join(dir, rel)
		if rel != "." {
			if err := os.MkdirAll(name, 0o755); err != nil {
				return err
			}
		}
		if user != nil {
			if err := os.Lchown(name, int(user.UID), int(user.GID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mount flags by their names in mountinfo, which a change to read-only keeps.
var mountFlags = map[string]uintptr{
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// allReadOnly makes each mount of this thread read-only; one that cannot be is taken away.
func allReadOnly() error {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	root := false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		at := unescapeMount(f[4])
		flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
		for _, o := range strings.Split(f[5], ",") {
			flags |= mountFlags[o]
		}
		root = root || at == "/"
		err := unix.Mount("", at, "", flags, "")
		if err != nil && at != "/" {
			err = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) {
				err = nil // another mount covers it: it cannot be reached
			}
		}
		if err != nil {
			return fmt.Errorf("make %s read-only: %w", at, err)
		}
	}
	if !root {
		return errors.New("/ is not a mount of its own (chroot)")
	}
	return nil
}

// unescapeMount undoes \040 and its kind (proc_pid_mountinfo(5)).
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// names gives the thread an /etc/hosts with the names in it.
func (p *Sandbox) names() error {
	if len(p.Names) == 0 {
		return nil
	}
	text, _ := os.ReadFile("/etc/hosts")
	for _, n := range p.Names {
		text = append(text, "\n127.0.0.1 "+n...)
	}
	const own = "/tmp/.hosts"
	if err := os.WriteFile(own, append(text, '\n'), 0o444); err != nil {
		return err
	}
	return unix.Mount(own, "/etc/hosts", "", unix.MS_BIND, "")
}

// dropCapabilities leaves none to what this thread starts: not to root either.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // before Linux 4.3 there are none
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&header, &data[0])
}
