package override

import (
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// sysctlOptions is systemd-sysctl's table of options (src/sysctl/sysctl.c): one entry per
// normalized key, in the order of writing.
type sysctlOptions struct {
	explicit map[string]*option // by key without wildcards
	patterns []sysctlPattern
}

// option is the entry of one key.
type option struct {
	value string
	// excluded is true if the key's last line is "-key" without a value. Then nothing is written
	// for the key, not even a pattern's value.
	excluded bool
	rank     int
	place    string // FILE:LINE of the last line
}

// sysctlPattern is a line whose key has wildcards.
type sysctlPattern struct {
	globs []string
	key   string
	claim Claim
}

const (
	whenSysctl = "at boot by systemd-sysctl"
	// whenSysctlConf is the When of /etc/sysctl.conf if sysctl.d has no link to it.
	whenSysctlConf = "by sysctl -p and sysctl --system; systemd-sysctl itself does not read this file"
)

// readSysctl reads sysctl.d(5) as systemd-sysctl does. Files are sorted by name across the
// directories. A later line replaces earlier ones with the same key. Explicit keys take precedence
// over patterns in any order. /etc/sysctl.conf counts at the position of its link in sysctl.d
// (99-sysctl.conf on Debian and RHEL), or last without a link.
//
// procps's sysctl --system reads the same files in the same order, but reads /etc/sysctl.conf
// again at the end. There it overrides a file called zz.conf; at boot it does not.
func readSysctl(r *reader) {
	t := sysctlTable{reader: r, options: map[string]*option{}}
	seen := map[string]bool{}
	for _, f := range r.confFiles("sysctl.d", ".conf") {
		if f.shadowed == "" {
			seen[f.path] = true
		}
		t.file(f, whenSysctl)
	}
	const conf = "/etc/sysctl.conf"
	real, err := r.host.Files.Resolve(conf)
	if err != nil {
		r.unreadable(conf, err)
	} else if !seen[real] && real != "/dev/null" {
		f := confFile{path: conf, admin: true}
		if real != conf {
			f = confFile{path: real, via: conf, admin: true}
		}
		t.file(f, whenSysctlConf)
	}
	t.finish()
}

// sysctlTable builds the table of options line by line.
type sysctlTable struct {
	*reader
	options map[string]*option // by key, including patterns
	lines   []tableLine
	rank    int
}

type tableLine struct {
	sysctlLine
	claim Claim
	rank  int
}

func (t *sysctlTable) file(f confFile, when string) {
	if f.masked {
		return
	}
	text, ok := t.reader.file(f.path)
	if !ok {
		return
	}
	lines, problems := parseSysctl(text)
	t.invalid(f.path, problems)
	for _, l := range lines {
		c := f.claim(Sysctl, l.line, l.text)
		c.When = when
		c.Value = setting.Text(l.value)
		if l.exclude {
			c.Value = setting.Absent
			if c.Void == "" {
				c.Void = "sets nothing, keeps the existing value"
			}
		}
		tl := tableLine{sysctlLine: l, claim: c}
		if f.shadowed == "" {
			o := t.options[l.key]
			// A line that repeats the value keeps the first line's position.
			if o == nil || o.value != l.value || o.excluded != l.exclude {
				t.rank++
				o = &option{value: l.value, excluded: l.exclude, rank: t.rank}
				t.options[l.key] = o
			}
			o.place = c.Place()
			tl.rank = o.rank
		}
		t.lines = append(t.lines, tl)
	}
}

// finish adds the lines as claims. Call it when the last line of each key is known.
func (t *sysctlTable) finish() {
	out := &t.claims.sysctl
	out.explicit = map[string]*option{}
	for _, l := range t.lines {
		c := l.claim
		o := t.options[l.key]
		if c.Void == "" && o.excluded {
			c.Void = "excluded by " + o.place
		}
		if isPattern(l.key) {
			if globs := t.globs(c.File, l.key); len(globs) > 0 {
				out.patterns = append(out.patterns, sysctlPattern{globs, l.key, t.next(c, l.rank)})
			}
			continue
		}
		if o != nil {
			out.explicit[l.key] = o
		}
		c.Setting = setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + l.key)}
		t.add(c, l.rank)
	}
}

// globs returns the patterns of a key with wildcards, or nil once there are too many.
func (t *sysctlTable) globs(file, key string) []string {
	if !t.pattern(file, 0) {
		return nil
	}
	globs := expandBraces(key)
	if !t.pattern(file, len(globs)) {
		return nil
	}
	return globs
}

// patternsFor returns the pattern claims on one sysctl.
func (o *sysctlOptions) patternsFor(s setting.Setting) []Claim {
	if len(o.patterns) == 0 {
		return nil
	}
	p, err := setting.SysctlPath(s.Name)
	if err != nil {
		return nil
	}
	key := strings.TrimPrefix(p, "/proc/sys/")
	var out []Claim
	for _, pat := range o.patterns {
		if !pat.matches(key) {
			continue
		}
		c := pat.claim
		c.Setting = s
		if e := o.explicit[key]; e != nil && c.Void == "" {
			if e.excluded {
				c.Void = "excluded by " + e.place
			} else {
				c.Void = "a pattern; not applied to this key, which has its own line at " + e.place
			}
		}
		out = append(out, c)
	}
	return out
}

func (p sysctlPattern) matches(key string) bool {
	for _, g := range p.globs {
		if ok, _ := path.Match(g, key); ok && !hiddenMismatch(g, key) {
			return true
		}
	}
	return false
}

// hiddenMismatch reports whether a leading dot prevents a match: glob(3)'s wildcards do not match
// it.
func hiddenMismatch(pattern, key string) bool {
	ps, ks := strings.Split(pattern, "/"), strings.Split(key, "/")
	for i := range min(len(ps), len(ks)) {
		if strings.HasPrefix(ks[i], ".") && !strings.HasPrefix(ps[i], ".") {
			return true
		}
	}
	return false
}

// maxClaimed limits the keys that Sysctls lists: a copy's files are hostile input, and one pattern
// may match thousands.
const maxClaimed = 4096

// Sysctls lists the sysctls that a source claims with effect, sorted by name. A pattern yields the
// matching keys of the machine.
func (c *Claims) Sysctls(files host.Files) []setting.Setting {
	found := map[setting.Setting]bool{}
	for s, claims := range c.direct {
		if _, certain := last(claims, Claim.Certain); s.Kind == "sysctl" && certain {
			found[s] = true
		}
	}
	for _, p := range c.sysctl.patterns {
		for _, g := range p.globs {
			paths, err := host.Glob(files, "/proc/sys/"+g)
			if err != nil {
				continue // reported while reading the files
			}
			for _, p := range paths[:min(len(paths), maxClaimed)] {
				id, err := c.kinds.Resolve(setting.Setting{Kind: "sysctl", Name: setting.SysctlName(p)})
				if err != nil || id.Kind != "sysctl" {
					continue
				}
				if _, ok := c.Winner(id); ok {
					found[id] = true
				}
			}
		}
	}
	out := slices.SortedFunc(maps.Keys(found), func(a, b setting.Setting) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(len(out), maxClaimed)]
}
