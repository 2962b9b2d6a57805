package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Limit is a soft and a hard limit of setrlimit(2); math.Inf(1) means unlimited.
type Limit struct {
	Soft, Hard float64
	At         string // FILE:LINE, or a path below /proc
}

// Limit returns the limit that the unit's files set. For "NOFILE" this is the last valid
// LimitNOFILE= (systemd ignores invalid and empty ones), or else DefaultLimitNOFILE= of
// systemd-system.conf(5). ok is false if neither is set; the built-in default then applies.
func (u *Unit) Limit(name string) (l Limit, ok bool) {
	return lastLimit(u.lines, "Service", "Limit"+name, func() (Limit, bool) {
		return lastLimit(u.reader.manager(), "Manager", "DefaultLimit"+name, func() (Limit, bool) { return Limit{}, false })
	})
}

func lastLimit(lines []line, section, key string, none func() (Limit, bool)) (Limit, bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].section != section || lines[i].key != key {
			continue
		}
		if l, err := ParseLimit(lines[i].value); err == nil {
			l.At = lines[i].at()
			return l, true
		}
	}
	return none()
}

// ParseLimit parses "1024", "1024:524288", "64M" or "infinity"
// (systemd.exec(5)), but not time units.
func ParseLimit(text string) (Limit, error) {
	soft, hard, two := strings.Cut(text, ":")
	if !two {
		hard = soft
	}
	var l Limit
	var err error
	if l.Soft, err = limitValue(soft); err == nil {
		l.Hard, err = limitValue(hard)
	}
	if err != nil || l.Soft > l.Hard {
		return Limit{}, fmt.Errorf("%q is not a limit; use N, SOFT:HARD or infinity", text)
	}
	return l, nil
}

func limitValue(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if s == "infinity" {
		return math.Inf(1), nil
	}
	factor := 1.0
	if i := strings.IndexByte("KMGTPE", last(s)); i >= 0 {
		factor = math.Pow(1024, float64(i+1))
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return float64(n) * factor, err
}

func last(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// manager returns the lines of systemd's own configuration.
func (r *Reader) manager() []line {
	files := []string{"/etc/systemd/system.conf"}
	found := map[string]string{}
	for _, d := range []string{"/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"} {
		dir := d + "/systemd/system.conf.d"
		for _, e := range r.list(dir).entries {
			if _, hidden := found[e.Name()]; !hidden && strings.HasSuffix(e.Name(), ".conf") {
				found[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(found)) {
		files = append(files, found[n])
	}
	var out []line
	for _, f := range files {
		if text, err := r.host.Files.ReadFile(f); err == nil {
			out = append(out, parse(f, text)...)
		}
	}
	return out
}

// Processes returns the process ids in the unit's control group in ascending order. The list
// is empty if the unit is not running.
func (u *Unit) Processes() ([]string, error) {
	files := u.reader.host.Files
	group := u.slice() + "/" + u.Name
	var missing error
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		text, err := files.ReadFile(root + "/" + group + "/cgroup.procs")
		switch {
		case err == nil:
			pids := strings.Fields(string(text))
			slices.SortFunc(pids, func(a, b string) int {
				if len(a) != len(b) {
					return len(a) - len(b)
				}
				return strings.Compare(a, b)
			})
			return pids, nil
		case !errors.Is(err, fs.ErrNotExist):
			missing = err
		}
	}
	return nil, missing
}

// slice returns the path of the unit's slice: a-b.slice is below a.slice.
// Instances of a template share a slice.
func (u *Unit) slice() string {
	name := ""
	if v, ok := u.Last("Service", "Slice"); ok {
		name = u.expand(v.Text)
	} else if template(u.Name) != "" {
		prefix, _, _ := strings.Cut(u.Name, "@")
		name = "system-" + strings.ReplaceAll(prefix, "-", `\x2d`) + ".slice"
	} else {
		name = "system.slice"
	}
	base := strings.TrimSuffix(name, ".slice")
	if base == "-" || base == "" {
		return ""
	}
	var parts []string
	for i := range len(base) {
		if base[i] == '-' {
			parts = append(parts, base[:i]+".slice")
		}
	}
	return path.Join(append(parts, name)...)
}

// Running returns a limit of the unit's first process. name is the limit's name in /proc: "Max
// open files". ok is false if the unit is not running.
func (u *Unit) Running(name string) (l Limit, ok bool, err error) {
	pids, err := u.Processes()
	if err != nil || len(pids) == 0 {
		return Limit{}, false, err
	}
	l, err = LimitOf(u.reader.host, pids[0], name)
	if errors.Is(err, fs.ErrNotExist) {
		return Limit{}, false, nil // the process has ended
	}
	return l, err == nil, err
}

// LimitOf returns a limit of a process. name is the limit's name in /proc: "Max open files".
func LimitOf(h *host.Host, pid, name string) (Limit, error) {
	p := "/proc/" + pid + "/limits"
	text, err := h.Files.ReadFile(p)
	if err != nil {
		return Limit{}, err
	}
	l, err := parseLimits(string(text), name)
	l.At = p
	return l, err
}

// parseLimits parses /proc/PID/limits (proc_pid_limits(5)).
func parseLimits(text, name string) (Limit, error) {
	for row := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(row, name+" ")
		if !ok {
			continue
		}
		w := strings.Fields(rest)
		if len(w) < 2 {
			break
		}
		var l Limit
		for i, to := range []*float64{&l.Soft, &l.Hard} {
			if w[i] == "unlimited" {
				*to = math.Inf(1)
				continue
			}
			n, err := strconv.ParseUint(w[i], 10, 64)
			if err != nil {
				return Limit{}, fmt.Errorf("%s: cannot read %.60q", name, strings.TrimSpace(row))
			}
			*to = float64(n)
		}
		return l, nil
	}
	return Limit{}, fmt.Errorf("the line %q is missing", name)
}
