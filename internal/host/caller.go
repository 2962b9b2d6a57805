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

// Caller is who asked for a change, as the kernel of this machine knows it. It is
// recorded with each transaction.
type Caller struct {
	// UID is the effective user of the process.
	UID int `json:"uid"`
	// LoginUID is who logged in (/proc/PID/loginuid): it stays the same through su
	// and sudo. Null where no login set it, as in a service or a container.
	LoginUID *int   `json:"login_uid,omitempty"`
	Name     string `json:"name"` // of the login user, or else of the effective one
	// Claimed is SUDO_USER where there is no login uid. Any process of root can set
	// it, so it proves nothing.
	Claimed string `json:"claimed,omitempty"`
	// TTY is the controlling terminal, Client the address of the ssh client; empty if
	// unknown or absent.
	TTY    string `json:"tty,omitempty"`
	Client string `json:"client,omitempty"`
	// Via is how the request arrived where it was not a command: D-Bus, socket.
	Via string `json:"via,omitempty"`
	PID int    `json:"pid"`
}

// noLogin is a login uid that was never set.
const noLogin = 1<<32 - 1

// Self is who runs this process.
func Self() Caller {
	c := callerAt("/proc/self", os.Getpid(), os.Geteuid())
	if sudo := os.Getenv("SUDO_USER"); sudo != "" && c.LoginUID == nil && c.UID == 0 {
		c.Claimed = EscapeTruncate(sudo, 64)
	}
	return c
}

// CallerOf is who runs another process of this machine, whose effective user is
// known to be uid. via is how its request arrived.
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

// String is the caller in words: "alice (as root)", or "root (SUDO_USER says alice)"
// where only the environment names another.
func (c Caller) String() string {
	switch as := UserName(c.UID); {
	case c.LoginUID != nil && *c.LoginUID != c.UID:
		return c.Name + " (as " + as + ")"
	case c.Claimed != "" && c.Claimed != as:
		return as + " (SUDO_USER says " + c.Claimed + ")"
	}
	return c.Name
}

// From is where the caller is, in words; empty where that is not known.
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

// UserName is the name of a user by /etc/passwd, or the number.
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

// stat are the StatFields of a process; nil where it has ended.
func stat(proc string) []string {
	b, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return nil
	}
	return StatFields(string(b))
}

// terminal names the controlling terminal by its device number
// (Documentation/admin-guide/devices.txt); empty for none.
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

// maxAncestors bounds the walk to the first process.
const maxAncestors = 64

// sshClient is the other end of the connection that a sshd of root's, above the
// process, holds.
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

// rootAlone reports whether real, effective, saved and file system user are root.
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

// peerOf is the address of the other end of the first established TCP connection
// that a process holds, by the numbers of its descriptors.
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
			// sl local remote st tx:rx tr:when retrnsmt uid timeout inode
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

// procAddress reads the address of /proc/net/tcp: words of 32 bits in the byte order
// of the machine, in hexadecimal digits; empty for what is not one.
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

// sessionClient is the remote host that systemd-logind has recorded for the session
// in whose control group the process is.
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
