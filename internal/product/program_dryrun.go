package product

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// DryRun lets the product's program check its files. The program may create files and run code
// named in the files. It therefore runs as the service's user, in a private view of the machine
// (host.Sandbox).
type DryRun struct {
	Argv, Env []string
	// Unit is the service. The program runs as the unit's User=, or else as User from the files, or
	// else as the user of the Running processes, or else as Otherwise.
	Unit, User, Otherwise string
	Running               Group
	// Files are the configuration files to check.
	Files []string
	// Empty are the directories that the program writes to; it sees them empty.
	Empty []string
	// Names are host names that the program must be able to resolve.
	Names []string
	// Complaint extracts the fault from the program's messages.
	Complaint func(messages string) string
}

// Checked is the result of a dry run.
type Checked struct {
	As       string // the user
	Output   string
	Messages string
	Refused  string // why the program would not start with its files, or ""
}

// dryRunWithin limits a dry run.
const dryRunWithin = 20 * time.Second

// Run makes the check. It returns an error if the check is impossible, for example because the user
// may not read a file that root reads at a real start.
func (d DryRun) Run(ctx context.Context, h *host.Host) (Checked, error) {
	user, name, err := d.user(h)
	if err != nil {
		return Checked{}, err
	}
	c := host.Command{Argv: d.Argv, Env: d.Env, As: &user, Sandbox: &host.Sandbox{Empty: d.Empty, Names: d.Names}, Timeout: dryRunWithin, DiesWithCaller: true}
	res, err := h.Exec.Run(ctx, c)
	if err != nil {
		return Checked{}, err
	}
	out := Checked{As: name, Output: string(res.Stdout), Messages: string(res.Stderr)}
	if res.ExitCode == 0 {
		return out, nil
	}
	out.Refused = cmp.Or(d.Complaint(string(res.Stderr)+string(res.Stdout)), "exit code "+strconv.Itoa(res.ExitCode))
	if why := d.hidden(ctx, h, c, out.Refused); why != "" {
		return Checked{}, fmt.Errorf("the configuration check failed to run as %s in a sandbox (no network, read-only files): %s (%s)", name, why, out.Refused)
	}
	return out, nil
}

// outOfView are messages that the private view or the unprivileged user may cause.
var outOfView = []string{"Permission denied", "Read-only file system", "Operation not permitted", "Cannot assign requested address", "Network is unreachable"}

var pathInText = text.LazyRegexp(`/[^\s'"<>:;,()\[\]]+`)

// hidden returns how the private view or the user causes a complaint, or "" if the files themselves
// are at fault.
func (d DryRun) hidden(ctx context.Context, h *host.Host, c host.Command, complaint string) string {
	for _, p := range pathInText().FindAllString(complaint, -1) {
		if slices.Contains(d.Files, p) {
			continue
		}
		if _, err := h.Files.Stat(p); err != nil {
			continue // invisible to root too
		}
		c.Argv, c.Env = []string{"test", "-r", p}, nil
		if res, err := h.Exec.Run(ctx, c); err == nil && res.ExitCode != 0 {
			return "it cannot read " + p
		}
	}
	for _, m := range outOfView {
		if strings.Contains(complaint, m) {
			return strings.ToLower(m)
		}
	}
	return ""
}

// user returns the user as which the program runs, and the source of that name.
func (d DryRun) user(h *host.Host) (host.User, string, error) {
	name := ""
	if d.Unit != "" {
		if u, err := systemd.New(h).Load(d.Unit); err == nil {
			if v, ok := u.Last("Service", "User"); ok {
				name = v.Text
			}
		}
	}
	if name = cmp.Or(name, d.User); name == "" {
		for _, p := range append(slices.Clone(d.Running.Children), d.Running.Main) {
			if p.PID != 0 {
				return host.User{UID: uint32(p.UID), GID: uint32(p.GID)}, "user " + strconv.Itoa(p.UID), nil //nolint:gosec // ids of the kernel
			}
		}
	}
	name = cmp.Or(name, d.Otherwise)
	user, err := userNamed(h, name)
	return user, name, err
}

// userNamed returns the user with a name or number from /etc/passwd.
func userNamed(h *host.Host, name string) (host.User, error) {
	text, err := h.Files.ReadFile("/etc/passwd")
	if err != nil {
		return host.User{}, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 4 || f[0] != name && f[2] != name {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return host.User{}, fmt.Errorf("/etc/passwd: %s: %w", name, err)
		}
		return host.User{UID: uint32(uid), GID: uint32(gid)}, nil
	}
	return host.User{}, fmt.Errorf("user %s not found", name)
}
