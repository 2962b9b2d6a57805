// Package kuberelease lists, for each Kubernetes release, the kubelet's configuration fields,
// feature gates, changed defaults, and the values with which it does not start. Rules and the
// operator use it to judge configurations. It reads nothing from the machine and needs no
// Kubernetes library.
package kuberelease

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Release is a minor version of Kubernetes 1.x.
type Release int

// String returns, for example, "1.36".
func (r Release) String() string { return "1." + strconv.Itoa(int(r)) }

// Parse parses the version of a kubelet: v1.36.3, 1.35.4-1.1, 1.31. It reports
// false if the text does not begin with major version 1 and a minor version.
func Parse(version string) (Release, bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "1.")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	after := rest[len(digits):]
	n, err := strconv.ParseUint(digits, 10, 10)
	if !ok || err != nil || n == 0 || after != "" && !strings.ContainsRune(".-+~", rune(after[0])) {
		return 0, false
	}
	return Release(n), true
}

// Gate is a feature gate of one release.
type Gate struct {
	Stage   string // alpha, beta, ga, deprecated
	Default bool
	Locked  bool // another value keeps the kubelet from starting
}

// Releases holds what the kubelets of all known releases support.
type Releases struct {
	Oldest, Newest Release
	fields         map[string][]span
	gates          map[string][]span
	defaults       map[string][]span
	needs          map[string][]span
	loaders        map[string][]span
	etcd           map[string][]span
	options        map[string][]span // by field and name: "cpuManagerPolicyOptions align-by-socket"
	flags          map[string][]span // by program and name: "kube-apiserver event-ttl"
}

// span is a fact that applies to the releases from first to last, inclusive.
type span struct {
	first, last Release
	text        string
}

//go:embed releases.txt
var releasesText string

// Known returns the table of the known releases.
var Known = sync.OnceValue(func() *Releases {
	r, err := readReleases(releasesText)
	if err != nil {
		panic(err) // the table is embedded; TestTable parses it
	}
	return r
})

func readReleases(text string) (*Releases, error) {
	r := &Releases{fields: map[string][]span{}, gates: map[string][]span{}, defaults: map[string][]span{}, needs: map[string][]span{}, loaders: map[string][]span{}, etcd: map[string][]span{}, options: map[string][]span{}, flags: map[string][]span{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		name, rest := words[1], words[2:]
		if (words[0] == "flag" || words[0] == "option") && len(words) > 3 {
			name, rest = words[1]+" "+words[2], words[3:]
		}
		into := map[string]map[string][]span{"flag": r.flags, "option": r.options, "field": r.fields, "gate": r.gates, "default": r.defaults, "needs": r.needs, "loader": r.loaders, "etcd": r.etcd}[words[0]]
		switch {
		case words[0] == "release":
			of, ok := Parse(words[1])
			switch {
			case !ok:
				return nil, fmt.Errorf("%q: not a release such as 1.31", words[1])
			case r.Newest != 0 && of != r.Newest+1:
				return nil, fmt.Errorf("%q: out of order; want release %s next", words[1], r.Newest+1)
			}
			if r.Newest = of; r.Oldest == 0 {
				r.Oldest = of
			}
		case into == nil:
			return nil, fmt.Errorf("%q: want release, field, gate, default, needs, option, loader, etcd or flag", line)
		}
		for _, word := range rest {
			if into == nil {
				break
			}
			releases, text, _ := strings.Cut(word, ":")
			var s span
			if _, err := fmt.Sscanf(releases, "%d-%d", &s.first, &s.last); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			s.text = text
			into[name] = append(into[name], s)
		}
	}
	return r, nil
}

// at returns the text that applies to a release, or to the nearest known release.
func (r *Releases) at(spans []span, of Release) (string, bool) {
	of = r.Nearest(of)
	for _, s := range spans {
		if s.first <= of && of <= s.last {
			return s.text, true
		}
	}
	return "", false
}

// Nearest returns the release if it is known, otherwise the oldest or newest known one.
func (r *Releases) Nearest(of Release) Release { return min(max(of, r.Oldest), r.Newest) }

// HasField reports whether KubeletConfiguration has a field in a release, or in any release if
// of is 0.
func (r *Releases) HasField(name string, of Release) bool {
	if of == 0 {
		return len(r.fields[name]) > 0
	}
	_, ok := r.at(r.fields[name], of)
	return ok
}

// Fields returns the names of KubeletConfiguration's fields in a release, or in all releases if
// of is 0.
func (r *Releases) Fields(of Release) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if r.HasField(name, of) {
			out = append(out, name)
		}
	}
	return out
}

// Gate returns a feature gate of a release. It reports false if the kubelet does not have it; a
// kubelet whose featureGates names such a gate does not start.
func (r *Releases) Gate(name string, of Release) (Gate, bool) {
	text, ok := r.at(r.gates[name], of)
	stage, rest, _ := strings.Cut(text, ",")
	on, locked := strings.CutSuffix(rest, ",locked")
	return Gate{Stage: stage, Default: on == "on", Locked: locked}, ok
}

// Gates returns the names of the feature gates of a release.
func (r *Releases) Gates(of Release) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		if _, ok := r.at(r.gates[name], of); ok {
			out = append(out, name)
		}
	}
	return out
}

// FieldSpan describes the releases that have a field: "1.36 and later", "up to 1.35", "1.30 to
// 1.33". It returns "" if no known release has it.
func (r *Releases) FieldSpan(name string) string { return r.spanText(r.fields[name]) }

// GateSpan describes the releases that have a feature gate, in FieldSpan's format.
func (r *Releases) GateSpan(name string) string { return r.spanText(r.gates[name]) }

func (r *Releases) spanText(spans []span) string {
	if len(spans) == 0 {
		return ""
	}
	first, last := spans[0].first, spans[len(spans)-1].last
	switch {
	case last == r.Newest:
		return first.String() + " and later"
	case first == r.Oldest:
		return "up to " + last.String()
	case first == last:
		return first.String()
	}
	return first.String() + " to " + last.String()
}

// Default returns the default of a field in Go syntax, if it differs between releases. It
// returns "none" if the field has no default.
func (r *Releases) Default(name string, of Release) (string, bool) {
	return r.at(r.defaults[name], of)
}

// Needs returns the feature gates that a gate requires. From 1.35 on, a kubelet does not start
// without them.
func (r *Releases) Needs(gate string, of Release) []string {
	text, ok := r.at(r.needs[gate], of)
	if !ok {
		return nil
	}
	return strings.Split(text, ",")
}

// Loads reports whether kubelets of a release read their files in the given way, one of the Loader
// constants.
func (r *Releases) Loads(way string, of Release) bool {
	_, ok := r.at(r.loaders[way], of)
	return ok
}

// Etcd returns the etcd version that kubeadm of a release installs, and the oldest external etcd
// that it accepts, such as 3.7.0 and 3.5.24.
func (r *Releases) Etcd(of Release) (installed, least string) {
	installed, _ = r.at(r.etcd["default"], of)
	least, _ = r.at(r.etcd["least"], of)
	return installed, least
}

// Ways in which kubelets read their files.
const (
	// LoaderGate: the kubelet starts with --config-dir only if KUBELET_CONFIG_DROPIN_DIR_ALPHA is
	// set in its environment.
	LoaderGate = "gate"
	// LoaderVersioned: drop-ins are merged into the file's configuration, and defaults are
	// added afterwards. In other releases, drop-ins are merged into the configuration in
	// memory, which has the defaults already and other names of members. There null removes
	// nothing, and an explicit zero stays.
	LoaderVersioned = "versioned"
	// LoaderKinds: a drop-in must be a KubeletConfiguration of v1beta1.
	LoaderKinds = "kinds"
	// LoaderEviction: mergeDefaultEvictionSettings adds missing thresholds to evictionHard of the
	// main file.
	LoaderEviction = "eviction"
	// LoaderSkipped: the kubelet logs which files of the drop-in directory it ignores.
	LoaderSkipped = "skipped"
)
