// Package root runs real programs in the cached Debian test root, for tests: each Root is that
// tree under its own writable overlay, in private mount, process and (if requested) network
// namespaces. Kernel settings are read-only, replaced by a simulated machine, or live. Only
// tests import it.
package root

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Bind makes a directory or file of this machine visible inside a Root.
type Bind struct {
	Source   string // on this machine
	Target   string // inside; the same path as Source when empty
	ReadOnly bool
}

// Options are the options of a Root. The zero value is a Debian whose kernel settings are
// read-only.
type Options struct {
	// Servers uses the root with the servers instead of the first one. Puppet adds Puppet
	// Server and an agent to it, Containers adds containerd, runc and the network plug-ins of
	// containers, and RPM adds rpm and dnf.
	Servers, Puppet, Containers, RPM bool
	// Trixie uses a Debian 13 that has little more than dpkg.
	Trixie bool
	// Over is a directory of Save, which lies over the tree.
	Over  string
	Binds []Bind
	// Env is added to a minimal environment (PATH, HOME, LC_ALL).
	Env []string
	// Files are written over the tree before the Root starts (path inside to content). A file
	// is executable if its content begins with "#!".
	Files map[string]string
	// Machine replaces the kernel's settings with those of a simulated machine.
	Machine *Machine
	// Stubs are programs that only log their calls (see Root.Calls): name to shell text for
	// the answer, which may be empty.
	Stubs map[string]string
	// Live lets programs write to this machine's /proc and /sys, and shows its processes. It
	// requires FETTLE_TEST_DISPOSABLE=1.
	Live bool
	// Within limits the time of a test that runs Inside; 0 means 20 minutes.
	Within time.Duration
	// Net uses this machine's network instead of an empty one, as a Live root does. OwnNet
	// gives a Live root an empty network, too.
	Net, OwnNet bool
	// OwnProcesses hides this machine's processes from a Live root. Everything started in the
	// root then ends with it, even in other namespaces (containers).
	OwnProcesses bool
}

// Root is one running instance of the test root. It ends with its test, together with all
// processes in it.
type Root struct {
	t      testing.TB
	pid    int
	env    []string
	share  string
	upper  string
	enter  []string
	stderr *bytes.Buffer
	// madeBefore are mount points that the set-up created in the overlay.
	madeBefore map[string]bool
}

// New starts an instance.
func New(t testing.TB, o Options) *Root {
	t.Helper()
	Real(t, "runs real programs in the Debian test root")
	if os.Geteuid() != 0 {
		Missing(t, "entering the Debian test root needs root")
	}
	if o.Live {
		Disposable(t)
		if o.Machine != nil {
			t.Fatal("testroot: a root is either Live or has an invented Machine")
		}
	}
	var trees []string // the top one first
	switch {
	case o.Puppet:
		trees = puppet(t)
	case o.Containers:
		trees = containers(t)
	case o.RPM:
		trees = rpm(t)
	case o.Trixie:
		trees = []string{trixie(t)}
	case o.Servers:
		trees = []string{Servers(t)}
	default:
		trees = []string{Dir(t)}
	}
	if o.Over != "" {
		trees = append([]string{o.Over}, trees...)
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		Missing(t, "nsenter (package util-linux) is not installed")
	}
	// The name is short, because Unix socket addresses have at most 108 bytes.
	share, err := os.MkdirTemp("/tmp", "fettle-")
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(share, ".work")
	prepared := t.TempDir()
	r := &Root{t: t, share: share, stderr: new(bytes.Buffer), madeBefore: map[string]bool{}}
	r.env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1",
	}, o.Env...)
	files := map[string]string{"/etc/machine-id": "0123456789abcdef0123456789abcdef\n"}
	if o.Machine != nil {
		r.env = append(r.env, "SYSTEMD_DEVICE_VERIFY_SYSFS=0")
		for name, content := range o.Machine.files() {
			files[name] = content
		}
	}
	for name, body := range o.Stubs {
		files["/usr/sbin/"+name] = stub(filepath.Join(share, "calls"), body)
		for _, tree := range trees {
			if _, err := os.Lstat(filepath.Join(tree, "usr/bin", name)); err == nil {
				files["/usr/bin/"+name] = files["/usr/sbin/"+name]
			}
		}
	}
	for name, content := range o.Files {
		files[name] = content
	}
	for name, content := range files {
		writeTree(t, prepared, name, content)
	}

	args := []string{"-eu", "-c", enterScript, "testroot", strings.Join(trees, ":"), work, prepared, share}
	switch {
	case o.Live:
		args = append(args, "live", "-")
	case o.Machine != nil:
		args = append(args, "fake", o.Machine.Dir)
	default:
		args = append(args, "readonly", "-")
	}
	for _, b := range o.Binds {
		if b.Target == "" {
			b.Target = b.Source
		}
		mode := "rw"
		if b.ReadOnly {
			mode = "ro"
		}
		args = append(args, b.Source, b.Target, mode)
	}
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS)
	r.enter = []string{nsenter, "-m", "-i", "-u"}
	if !o.Live || o.OwnProcesses {
		flags |= syscall.CLONE_NEWPID
		r.enter = append(r.enter, "-p")
	}
	if o.OwnNet || !o.Net && !o.Live {
		flags |= syscall.CLONE_NEWNET
		r.enter = append(r.enter, "-n")
	}
	holder := exec.Command("/bin/sh", args...)
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	holder.Stderr = r.stderr
	// The holder runs until its standard input is closed, so a killed test leaves nothing
	// behind.
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		Missing(t, "cannot make namespaces: %v", err)
	}
	r.pid = holder.Process.Pid
	r.upper = fmt.Sprintf("/proc/%d/root/.upper", r.pid)
	t.Cleanup(func() {
		killAll(r.pid)
		stdin.Close()
		holder.Process.Kill()
		holder.Wait()
		os.RemoveAll(share)
	})
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, ready); err != nil {
		stdin.Close()
		holder.Wait()
		t.Fatalf("testroot: cannot enter the root: %v\n%s", err, r.stderr)
	}
	r.enter = append(r.enter, "-t", fmt.Sprint(r.pid), "-r", "-w")
	before, err := r.Written()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range before {
		r.madeBefore[name] = true
	}
	return r
}

// killAll kills every process in the mount namespace of process pid: without its own process
// namespace (Live), a daemon would outlive its Root.
func killAll(pid int) {
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if ns, err := os.Readlink(filepath.Join(dir, "ns/mnt")); err != nil || ns != mine {
			continue
		}
		if p, err := strconv.Atoi(filepath.Base(dir)); err == nil && p != pid {
			syscall.Kill(p, syscall.SIGKILL)
		}
	}
}

// Command returns a command that runs argv inside, with the Root's environment, in the root
// directory.
func (r *Root) Command(argv ...string) *exec.Cmd {
	c := exec.Command(r.enter[0], append(r.enter[1:len(r.enter):len(r.enter)], argv...)...)
	c.Env = append([]string(nil), r.env...)
	// A daemon that keeps standard output open must not block Wait forever.
	c.WaitDelay = 5 * time.Second
	return c
}

// Run runs argv and returns its output on both streams and its exit code. A program that cannot
// be started fails the test.
func (r *Root) Run(argv ...string) (output string, code int) {
	r.t.Helper()
	out, err := r.Command(argv...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

// Must runs argv and returns its output. It fails the test unless the exit code is 0.
func (r *Root) Must(argv ...string) string {
	r.t.Helper()
	out, code := r.Run(argv...)
	if code != 0 {
		r.t.Fatalf("%s: exit %d\n%s", strings.Join(argv, " "), code, out)
	}
	return out
}

// Setenv adds a variable to the environment of later commands.
func (r *Root) Setenv(name, value string) { r.env = append(r.env, name+"="+value) }

// Share returns a directory that has the same path inside and outside, for sockets and files
// that both sides use.
func (r *Root) Share() string { return r.share }

// Path returns this machine's path of a file inside. Symbolic links in it are resolved on this
// machine, so use it for plain paths.
func (r *Root) Path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", r.pid), name)
}

// Written lists the files that programs created, changed or deleted in the tree since the
// start, except in /run, /tmp, /dev, /proc and /sys.
func (r *Root) Written() ([]string, error) {
	var names []string
	err := filepath.WalkDir(r.upper, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name := strings.TrimPrefix(p, r.upper); !r.madeBefore[name] {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// Save copies what programs have written in the tree into a directory, for Options.Over.
func (r *Root) Save(dir string) {
	r.t.Helper()
	if out, err := exec.Command("cp", "-a", r.upper+"/.", dir).CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
}

// Command runs argv in its own Root with read-only kernel settings.
func Command(t testing.TB, argv ...string) *exec.Cmd {
	t.Helper()
	return New(t, Options{}).Command(argv...)
}

func writeTree(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// enterScript creates the mounts and becomes the process that keeps them. Its arguments: trees,
// work directory, files to lay over the tree, shared directory, readonly|fake|live, machine
// directory, then binds in threes.
const enterScript = `
trees=$1 work=$2 prepared=$3 share=$4 kernel=$5 machine=$6
shift 6
umask 022
mount --make-rprivate /
mkdir -p "$work"
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
cp -a "$prepared/." "$work/upper/"
# What was laid over the tree is not something that a program wrote.
mkdir "$work/lower"; mv "$work/upper" "$work/lower/files"; mkdir "$work/upper"
mount -t overlay -o "lowerdir=$work/lower/files:$trees,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
cd "$work/root"

mount -t proc proc proc
freeze() { [ -e "$1" ] || return 0; mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; }
case $kernel in
live)
	mount --rbind /sys sys
	;;
readonly)
	mount -t sysfs sysfs sys
	mount -o remount,bind,ro sys
	freeze proc/sys; freeze proc/irq; freeze proc/sysrq-trigger
	;;
fake)
	freeze proc/sysrq-trigger
	mount --bind "$machine/sys" sys
	for f in sys irq; do mount --bind "$machine/proc/$f" "proc/$f"; done
	for f in cpuinfo cmdline interrupts meminfo; do
		mount --bind "$machine/proc/$f" "proc/$f"
		mount -o remount,bind,ro "proc/$f"
	done
	;;
esac

mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
for n in null zero full random urandom tty; do : >"dev/$n"; mount --bind "/dev/$n" "dev/$n"; done
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mount -t tmpfs -o mode=1777 tmpfs dev/shm
: >dev/cpu_dma_latency
if [ "$kernel" = live ] && [ -e /dev/cpu_dma_latency ]; then mount --bind /dev/cpu_dma_latency dev/cpu_dma_latency; fi
if [ "$kernel" = fake ] && [ -d "$machine/dev" ]; then cp -a "$machine/dev/." dev/; fi
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/lock run/dbus run/tuned run/udev
mount -t tmpfs -o mode=1777 tmpfs tmp

bind() { # source target mode
	if [ -d "$1" ]; then mkdir -p "./$2"; else mkdir -p "$(dirname "./$2")"; [ -e "./$2" ] || : >"./$2"; fi
	mount --rbind "$1" "./$2"
	[ "$3" = rw ] || mount -o remount,bind,ro "./$2"
}
mkdir -p "./$share"
mount --bind "$share" "./$share"
while [ $# -ge 3 ]; do bind "$1" "$2" "$3"; shift 3; done
mkdir -p .upper
mount --bind "$work/upper" .upper
ip link set lo up 2>/dev/null || true
# As the first process it buries those whose parent has ended: a daemon that
# died is not to look alive to the next one that reads its pid file.
exec chroot . /bin/sh -c 'echo ready; cat >/dev/null; exit'
`
