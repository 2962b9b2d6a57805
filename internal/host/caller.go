package host

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Caller is the user who requested a change, as identified by this machine's kernel.
// Transactions record it.
type Caller struct {
	// UID is the effective user id of the process.
	UID int `json:"uid"`
	// LoginUID is the user id of the login (/proc/PID/loginuid), which su and sudo do not
	// change. It is nil if no login set it, as in a service or container.
	LoginUID *int   `json:"login_uid,omitempty"`
	Name     string `json:"name"` // of the login user, or else of the effective user
	// Claimed is SUDO_USER if there is no login uid. Any root process can set the variable, so
	// it proves nothing.
	Claimed string `json:"claimed,omitempty"`
	// TTY is the controlling terminal, and Client the address of the ssh client. Each is empty
	// if unknown or absent.
	TTY    string `json:"tty,omitempty"`
	Client string `json:"client,omitempty"`
	// Via is how the request arrived if not from a command: D-Bus, socket.
	Via string `json:"via,omitempty"`
	PID int    `json:"pid"`
}

// noLogin is the login uid of processes that no login started.
const noLogin = 1<<32 - 1

// Self returns the caller of this process.
func Self() Caller {
	c := callerAt("/proc/self", os.Getpid(), os.Geteuid())
	if sudo := os.Getenv("SUDO_USER"); sudo != "" && c.LoginUID == nil && c.UID == 0 {
		c.Claimed = EscapeTruncate(sudo, 64)
	}
	return c
}

// CallerOf returns the caller of another process on this machine. uid is the effective user of
// that process. via is how its request arrived.
func CallerOf(pid, uid int, via string) Caller {
	c := callerAt("/proc/"+strconv.Itoa(pid), pid, uid)
	c.Via = via
	return c
}

func callerAt(proc string, pid, uid int) Caller {
	c := Caller{UID: uid, PID: pid, Name: UserName(uid)}
	if b, err := os.ReadFile(proc + "/loginuid"); err == nil {
		if id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil && id != noLogin {
			login := int(id)
			c.LoginUID, c.Name = &login, UserName(login)
		}
	}
	c.TTY = terminal(proc)
	if c.Client = sshClient(proc); c.Client == "" {
		c.Client = sessionClient(proc)
	}
	return c
}

// String returns "alice (as root)", or "root (SUDO_USER says alice)" if only the environment
// names the user.
func (c Caller) String() string {
	switch as := UserName(c.UID); {
	case c.LoginUID != nil && *c.LoginUID != c.UID:
		return c.Name + " (as " + as + ")"
	case c.Claimed != "" && c.Claimed != as:
		return as + " (SUDO_USER says " + c.Claimed + ")"
	}
	return c.Name
}

// From describes the terminal and address of the request, or returns "" if unknown.
func (c Caller) From() string {
	var parts []string
	if c.Via != "" {
		parts = append(parts, c.Via)
	}
	if c.TTY != "" {
		parts = append(parts, c.TTY)
	}
	if c.Client != "" {
		parts = append(parts, "ssh from "+c.Client)
	}
	return strings.Join(parts, ", ")
}

// UserName returns the name of a user in /etc/passwd, or the uid if none exists.
func UserName(uid int) string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return strconv.Itoa(uid)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if f := strings.Split(lines.Text(), ":"); len(f) > 2 && f[2] == strconv.Itoa(uid) {
			return EscapeTruncate(f[0], 64)
		}
	}
	return strconv.Itoa(uid)
}

// stat returns the StatFields of a process, or nil if the process has ended.
func stat(proc string) []string {
	b, err := readCapped(proc + "/stat")
	if err != nil {
		return nil
	}
	return StatFields(string(b))
}

// terminal returns the name of the controlling terminal, derived from its device number
// (Documentation/admin-guide/devices.txt). It returns "" without a terminal.
func terminal(proc string) string {
	f := stat(proc)
	if len(f) < 5 {
		return ""
	}
	n, err := strconv.Atoi(f[4]) // field 7, tty_nr
	if err != nil || n == 0 {
		return ""
	}
	major, minor := n>>8&0xfff, n&0xff|n>>12&0xfff00
	switch {
	case major >= 136 && major <= 143:
		return fmt.Sprintf("pts/%d", (major-136)<<20+minor)
	case major == 4 && minor < 64:
		return fmt.Sprintf("tty%d", minor)
	case major == 4:
		return fmt.Sprintf("ttyS%d", minor-64)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/sys/dev/char/%d:%d/uevent", major, minor)); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
				return EscapeTruncate(name, 64)
			}
		}
	}
	return fmt.Sprintf("terminal %d:%d", major, minor)
}

// maxAncestors limits the number of parent processes that sshClient follows.
const maxAncestors = 64

// sshClient returns the remote address of the nearest ancestor that is an sshd
// running as root.
func sshClient(proc string) string {
	for range maxAncestors {
		f := stat(proc)
		if len(f) < 2 || f[1] == "0" {
			return ""
		}
		proc = "/proc/" + f[1] // field 4, ppid
		comm, err := os.ReadFile(proc + "/comm")
		if err != nil || !strings.HasPrefix(string(comm), "sshd") || !rootAlone(proc) {
			continue
		}
		if client := peerOf(proc); client != "" {
			return client
		}
	}
	return ""
}

// rootAlone reports whether the real, effective, saved and file system user ids are all root.
func rootAlone(proc string) bool {
	b, err := os.ReadFile(proc + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 5 && f[0] == "Uid:" {
			return f[1] == "0" && f[2] == "0" && f[3] == "0" && f[4] == "0"
		}
	}
	return false
}

// peerOf returns the remote address of a process's first established TCP connection in order
// of file descriptors, or "".
func peerOf(proc string) string {
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return ""
	}
	peers := map[string]string{} // inode to address
	for _, name := range []string{"/net/tcp", "/net/tcp6"} {
		b, err := os.ReadFile(proc + name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			// Columns: sl local remote st tx:rx tr:when retrnsmt uid timeout inode.
			if f := strings.Fields(line); len(f) > 9 && f[3] == "01" {
				peers[f[9]] = procAddress(f[2])
			}
		}
	}
	slices.SortFunc(fds, func(a, b os.DirEntry) int {
		x, _ := strconv.Atoi(a.Name())
		y, _ := strconv.Atoi(b.Name())
		return x - y
	})
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok && peers[strings.TrimSuffix(inode, "]")] != "" {
			return peers[strings.TrimSuffix(inode, "]")]
		}
	}
	return ""
}

// procAddress parses an address of /proc/net/tcp, which consists of hexadecimal 32-bit words in
// the machine's byte order. It returns "" if the address is invalid.
func procAddress(text string) string {
	digits, _, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(digits)
	if err != nil || len(b)%4 != 0 {
		return ""
	}
	if littleEndian {
		for i := 0; i < len(b); i += 4 {
			slices.Reverse(b[i : i+4])
		}
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return ""
	}
	return a.Unmap().String()
}

// sessionClient returns the remote host of the process's session as systemd-logind recorded
// it, or "".
func sessionClient(proc string) string {
	b, err := os.ReadFile(proc + "/cgroup")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), "/session-")
	id, _, scope := strings.Cut(rest, ".scope")
	if !ok || !scope || strings.ContainsAny(id, "/.\n") {
		return ""
	}
	b, err = os.ReadFile("/run/systemd/sessions/" + id)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if host, ok := strings.CutPrefix(strings.TrimSpace(line), "REMOTE_HOST="); ok {
			return EscapeTruncate(host, 256)
		}
	}
	return ""
}
