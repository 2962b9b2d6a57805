package trend

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"fettle.dev/fettle/internal/host"
)

// PackageChange is one change of a package.
type PackageChange struct {
	Time   time.Time
	Action string // installed, upgraded, downgraded or removed
	Name   string
	From   string // version before, or ""
	To     string // version after, or ""
}

func (p PackageChange) String() string {
	switch {
	case p.From != "" && p.To != "":
		return fmt.Sprintf("%s %s -> %s", p.Name, p.From, p.To)
	case p.To != "":
		return fmt.Sprintf("%s %s %s", p.Name, p.To, p.Action)
	}
	return fmt.Sprintf("%s %s %s", p.Name, p.From, p.Action)
}

// packageLogs returns the changes of packages in the logs of dpkg and dnf, oldest first. A machine
// without these logs has no changes. Logs that cannot be read are errors.
func packageLogs(h *host.Host) (out []PackageChange, failed error) {
	for _, log := range []struct {
		pattern string
		parse   func(string) []PackageChange
	}{{"/var/log/dpkg.log*", dpkgLog}, {"/var/log/dnf.rpm.log*", dnfLog}} {
		files, err := host.Glob(h.Files, log.pattern)
		if err != nil {
			continue // no /var/log
		}
		for _, name := range files {
			content, err := readLog(h, name)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			out = append(out, log.parse(content)...)
		}
	}
	slices.SortStableFunc(out, func(a, b PackageChange) int { return a.Time.Compare(b.Time) })
	return out, failed
}

func readLog(h *host.Host, name string) (string, error) {
	content, err := h.Files.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // rotated meanwhile
	}
	if err == nil && strings.HasSuffix(name, ".gz") {
		var unpacked io.Reader
		if unpacked, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
			content, err = io.ReadAll(io.LimitReader(unpacked, host.MaxFileSize))
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(content), nil
}

// dpkgLog parses dpkg.log (dpkg(1), --log): "DATE TIME ACTION PACKAGE OLD NEW" in local time.
func dpkgLog(content string) (out []PackageChange) {
	actions := map[string]string{"install": "installed", "upgrade": "upgraded", "remove": "removed"}
	for line := range strings.Lines(content) {
		f := strings.Fields(line)
		if len(f) != 6 || actions[f[2]] == "" || f[4] == f[5] {
			continue
		}
		at, err := time.ParseInLocation("2006-01-02 15:04:05", f[0]+" "+f[1], time.Local)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(f[3], ":") // the architecture
		version := func(v string) string {
			if v == "<none>" {
				return ""
			}
			return v
		}
		out = append(out, PackageChange{Time: at, Action: actions[f[2]], Name: name, From: version(f[4]), To: version(f[5])})
	}
	return out
}

// dnfLog parses dnf.rpm.log of DNF 4: "TIME SUBDEBUG ACTION: NAME-VERSION-RELEASE.ARCH". An upgrade
// has a line with the new version, and later one with the old version.
func dnfLog(content string) (out []PackageChange) {
	newer := map[string]int{} // index of an upgrade whose old version is not known yet
	for line := range strings.Lines(content) {
		f := strings.Fields(line)
		if len(f) != 4 || f[1] != "SUBDEBUG" {
			continue
		}
		at, err := time.Parse("2006-01-02T15:04:05-0700", f[0])
		name, version, ok := nevra(f[3])
		if err != nil || !ok {
			continue
		}
		switch p := (PackageChange{Time: at, Name: name}); f[2] {
		case "Installed:":
			p.Action, p.To = "installed", version
			out = append(out, p)
		case "Upgrade:", "Downgrade:":
			p.Action, p.To = strings.ToLower(strings.TrimSuffix(f[2], ":"))+"d", version
			newer[name] = len(out)
			out = append(out, p)
		case "Upgraded:", "Downgraded:":
			if i, has := newer[name]; has {
				out[i].From = version
				delete(newer, name)
			}
		case "Erase:":
			p.Action, p.From = "removed", version
			out = append(out, p)
		}
	}
	return out
}

// nevra splits NAME-[EPOCH:]VERSION-RELEASE.ARCH.
func nevra(s string) (name, version string, ok bool) {
	if i := strings.LastIndexByte(s, '.'); i > 0 {
		s = s[:i]
	}
	release := strings.LastIndexByte(s, '-')
	if release < 1 {
		return "", "", false
	}
	i := strings.LastIndexByte(s[:release], '-')
	if i < 1 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
