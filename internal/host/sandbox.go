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

// Sandbox is an isolated view of the machine for a program that must leave no trace. All file
// systems are read-only; some directories are empty, writable and discarded afterwards. The
// program has no network, no capabilities and no access to other processes, and all its
// children end with it.
type Sandbox struct {
	// Empty lists writable directories in addition to alwaysEmpty. Directories
	// that do not exist are ignored.
	Empty []string
	// Names lists host names that resolve to 127.0.0.1. DNS is not available.
	Names []string
}

// alwaysEmpty lists directories that programs commonly write to, or that contain their sockets
// (/run).
var alwaysEmpty = []string{"/tmp", "/var/tmp", "/run", "/dev/shm", "/var/log", "/var/lock", "/var/run"}

// Limits of a sandbox.
const (
	sandboxSize   = "64m" // per empty directory
	maxMirrored   = 5000  // directories recreated within an empty directory
	mirroredDepth = 5
)

// inSandbox calls run on a new thread in the sandbox. Programs that run starts are in the
// sandbox too. user owns the empty directories.
func inSandbox(p *Sandbox, user *User, run func() (Result, error)) (res Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err = p.enter(user); err != nil {
			err = fmt.Errorf("sandbox: %w", err)
			return
		}
		res, err = run()
	}()
	<-done
	return res, err
}

// enter moves the calling thread into the sandbox.
func (p *Sandbox) enter(user *User) error {
	if unix.Geteuid() != 0 {
		return errors.New("only root can create a sandbox")
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	// Allow binding to any port and address, as root may do on the machine. In containers
	// /proc/sys is often a separate read-only mount.
	_ = unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	for name, value := range map[string]string{"ipv4/ip_unprivileged_port_start": "0", "ipv4/ip_nonlocal_bind": "1", "ipv6/ip_nonlocal_bind": "1"} {
		_ = os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) // older kernels lack some of these
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

// tree holds the directories below an emptied directory: relative paths and their modes.
type tree map[string]fs.FileMode

// emptied returns the directories to empty, each with its subdirectories. It resolves links,
// and omits directories that are inside another one.
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
			case err != nil: // removed since
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

// mount mounts an empty file system on dir, with the directories of the tree. user owns it.
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

// mountFlags maps options in mountinfo to mount flags. A read-only remount must preserve these
// flags.
var mountFlags = map[string]uintptr{
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// allReadOnly remounts each mount of this thread read-only. A mount for which that fails is
// unmounted.
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
		at := UnescapeMount(f[4])
		flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
		for o := range strings.SplitSeq(f[5], ",") {
			flags |= mountFlags[o]
		}
		root = root || at == "/"
		err := unix.Mount("", at, "", flags, "")
		if err != nil && at != "/" {
			err = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) {
				err = nil // hidden below another mount
			}
		}
		if err != nil {
			return fmt.Errorf("make %s read-only: %w", at, err)
		}
	}
	if !root {
		return errors.New("the root directory is not a mount point, as in a chroot")
	}
	return nil
}

// UnescapeMount decodes escapes such as \040 (proc_pid_mountinfo(5)).
func UnescapeMount(s string) string {
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

// names adds the sandbox's host names to the thread's /etc/hosts.
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

// dropCapabilities removes all capabilities from programs that this thread starts, even as
// root.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // Linux before 4.3 has none
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the last capability of this kernel
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
