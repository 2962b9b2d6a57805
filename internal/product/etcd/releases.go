package etcd

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Release is a minor version of etcd 3.x.
type Release int

// String returns the release as etcd prints it: 3.7.
func (r Release) String() string { return "3." + strconv.Itoa(int(r)) }

// parseRelease parses the release in a version: 3.5.21, v3.4.3, 3.5.21-0, 3.7. It returns false
// unless the text begins with major version 3 and a minor version.
func parseRelease(version string) (Release, bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "3.")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	after := rest[len(digits):]
	n, err := strconv.ParseUint(digits, 10, 10)
	if !ok || err != nil || after != "" && !strings.ContainsRune(".-+~_", rune(after[0])) {
		return 0, false
	}
	return Release(n), true
}

// Releases has the flags and their defaults for each known release of etcd.
type Releases struct {
	Oldest, Newest Release
	versions       map[Release]string
	flags          map[string]*flag
	keys           map[string][]Release
	gates          map[string]string    // feature gates that replaced flags
	features       map[string][]Release // names that feature-gates takes
}

// flag is a flag of the server.
type flag struct {
	kind string // bool, string, int, uint or duration; "ignored" if the flag has no effect
	in   []Release
	def  map[Release]string // as on a command line; missing if the default is calculated
}

// Known returns the table of known releases.
//
//go:embed releases.txt
var releasesText string

// Known returns the table of the releases.
var Known = sync.OnceValue(func() *Releases {
	t, err := readReleases(releasesText)
	if err != nil {
		panic(err) // the table is embedded; TestReleases reads it
	}
	return t
})

func readReleases(text string) (*Releases, error) {
	t := &Releases{versions: map[Release]string{}, flags: map[string]*flag{}, keys: map[string][]Release{}, gates: map[string]string{}, features: map[string][]Release{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch words[0] {
		case "release":
			r, ok := parseRelease(words[1])
			if !ok || len(words) != 4 || len(t.versions) > 0 && r != t.Newest+1 {
				return nil, fmt.Errorf("%q: want consecutive releases", line)
			}
			if len(t.versions) == 0 {
				t.Oldest = r
			}
			t.Newest, t.versions[r] = r, strings.TrimPrefix(words[3], "v")
		case "flag":
			f := &flag{kind: words[2], def: map[Release]string{}}
			for _, word := range words[3:] {
				in, def, known := strings.Cut(word, "=")
				r, ok := parseRelease(in)
				if !ok {
					return nil, fmt.Errorf("%q: %q is not a release", line, in)
				}
				if f.in = append(f.in, r); known {
					f.def[r] = def
				}
			}
			t.flags[words[1]] = f
		case "key", "feature":
			into := map[string]map[string][]Release{"key": t.keys, "feature": t.features}[words[0]]
			for _, word := range words[2:] {
				r, ok := parseRelease(word)
				if !ok {
					return nil, fmt.Errorf("%q: %q is not a release", line, word)
				}
				into[words[1]] = append(into[words[1]], r)
			}
		case "gate":
			t.gates[words[1]] = words[2]
		default:
			return nil, fmt.Errorf("%q: want release, flag, gate, feature or key", line)
		}
	}
	return t, nil
}

// Nearest returns the release if it is known, otherwise the oldest or newest known one.
func (t *Releases) Nearest(r Release) Release { return min(max(r, t.Oldest), t.Newest) }

// Target parses the release for which members are judged. rules is the known release whose rules
// apply: the newest one for newer releases.
func (t *Releases) Target(text string) (to, rules Release, err error) {
	to, ok := parseRelease(text)
	if !ok || to < t.Oldest {
		return 0, 0, fmt.Errorf("%q: want a release of etcd from %s to %s", text, t.Oldest, t.Newest)
	}
	return to, t.Nearest(to), nil
}

// flagIn returns the releases that have a flag.
func (t *Releases) flagIn(name string) []Release {
	if f := t.flags[name]; f != nil {
		return f.in
	}
	return nil
}

// kind returns the type of a flag, or "" if no release has it.
func (t *Releases) kind(name string) string {
	if f := t.flags[name]; f != nil {
		return f.kind
	}
	return ""
}

// successor returns the flag or gate that replaces an experimental flag in a release, or "".
func (t *Releases) successor(name string, r Release) string {
	if gate := t.gates[name]; gate != "" && has(t.flagIn("feature-gates"), r) {
		return "feature-gates=" + gate + "=true or false"
	}
	if plain, ok := strings.CutPrefix(name, "experimental-"); ok && has(t.flagIn(plain), r) {
		return plain
	}
	return ""
}

// needsNoValue reports whether a flag may stand alone, which means true. The next word is then not
// its value.
func (t *Releases) needsNoValue(name string) bool {
	kind := t.kind(name)
	return kind == "bool" || kind == "ignored"
}

// def returns a flag's default in a release, or in the nearest known one; ok is false if it has
// none.
func (t *Releases) def(name string, r Release) (string, bool) {
	f := t.flags[name]
	if f == nil {
		return "", false
	}
	def, ok := f.def[t.Nearest(r)]
	return def, ok
}

// span describes a list of releases: "3.6 and later", "up to 3.6", "3.5 and 3.6". It returns "" for
// an empty list.
func (t *Releases) span(in []Release) string {
	if len(in) == 0 {
		return ""
	}
	first, last := slices.Min(in), slices.Max(in)
	switch {
	case last == t.Newest:
		return first.String() + " and later"
	case first == t.Oldest:
		return "up to " + last.String()
	case first == last:
		return first.String()
	}
	return first.String() + " and " + last.String()
}
