// Package kuberelease says what the kubelets of the releases of Kubernetes know: the fields
// of their configuration, their feature gates, defaults that changed, and with which
// configurations they do not start. It reads no machine and links nothing of Kubernetes.
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

// String is the release as Kubernetes writes it: 1.36.
func (r Release) String() string { return "1." + strconv.Itoa(int(r)) }

// Parse reads the version of a kubelet: v1.36.3, 1.35.4-1.1, 1.31. It reports false
// for a text that does not begin with a major and a minor number, and for majors other
// than 1.
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

// Gate is a feature gate as a kubelet of one release has it.
type Gate struct {
	Stage   string // alpha, beta, ga, deprecated
	Default bool
	Locked  bool // another value keeps the kubelet from starting
}

// Releases is what the kubelets of all releases know.
type Releases struct {
	Oldest, Newest Release
	fields         map[string][]span
	gates          map[string][]span
	defaults       map[string][]span
	needs          map[string][]span
	loaders        map[string][]span
	etcd           map[string][]span
}

// span is what holds from a release to another, both included.
type span struct {
	first, last Release
	text        string
}

//go:embed releases.txt
var releasesText string

// Known is the table of the releases.
var Known = sync.OnceValue(func() *Releases {
	r, err := readReleases(releasesText)
	if err != nil {
		panic(err) // it is embedded; TestTable reads it
	}
	return r
})

func readReleases(text string) (*Releases, error) {
	r := &Releases{fields: map[string][]span{}, gates: map[string][]span{}, defaults: map[string][]span{}, needs: map[string][]span{}, loaders: map[string][]span{}, etcd: map[string][]span{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		into := map[string]map[string][]span{"field": r.fields, "gate": r.gates, "default": r.defaults, "needs": r.needs, "loader": r.loaders, "etcd": r.etcd}[words[0]]
		switch {
		case words[0] == "release":
			of, ok := Parse(words[1])
			if !ok || r.Newest != 0 && of != r.Newest+1 {
				return nil, fmt.Errorf("%q: releases are to follow each other", line)
			}
			if r.Newest = of; r.Oldest == 0 {
				r.Oldest = of
			}
		case into == nil:
			return nil, fmt.Errorf("%q: want release, field, gate, default, needs, loader or etcd", line)
		}
		for _, word := range words[2:] {
			if into == nil {
				break
			}
			releases, text, _ := strings.Cut(word, ":")
			var s span
			if _, err := fmt.Sscanf(releases, "%d-%d", &s.first, &s.last); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			s.text = text
			into[words[1]] = append(into[words[1]], s)
		}
	}
	return r, nil
}

// at is what holds in a release, or in the nearest one that is known.
func (r *Releases) at(spans []span, of Release) (string, bool) {
	of = r.Nearest(of)
	for _, s := range spans {
		if s.first <= of && of <= s.last {
			return s.text, true
		}
	}
	return "", false
}

// Nearest is the release itself where it is known, and else the oldest or the newest.
func (r *Releases) Nearest(of Release) Release { return min(max(of, r.Oldest), r.Newest) }

// HasField reports whether KubeletConfiguration has a field in a release; 0 stands for any
// of them.
func (r *Releases) HasField(name string, of Release) bool {
	if of == 0 {
		return len(r.fields[name]) > 0
	}
	_, ok := r.at(r.fields[name], of)
	return ok
}

// Fields are the names of KubeletConfiguration's fields in a release; of 0, those of all
// releases.
func (r *Releases) Fields(of Release) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if r.HasField(name, of) {
			out = append(out, name)
		}
	}
	return out
}

// Gate is a feature gate in a release; false where the kubelet does not know it and, named
// in featureGates, does not start.
func (r *Releases) Gate(name string, of Release) (Gate, bool) {
	text, ok := r.at(r.gates[name], of)
	stage, rest, _ := strings.Cut(text, ",")
	on, locked := strings.CutSuffix(rest, ",locked")
	return Gate{Stage: stage, Default: on == "on", Locked: locked}, ok
}

// Gates are the names of the feature gates of a release.
func (r *Releases) Gates(of Release) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		if _, ok := r.at(r.gates[name], of); ok {
			out = append(out, name)
		}
	}
	return out
}

// FieldSpan says in which releases a field is: "1.36 and later", "up to 1.35", "1.30 to
// 1.33"; "" for one that no known release has.
func (r *Releases) FieldSpan(name string) string { return r.spanText(r.fields[name]) }

// GateSpan is FieldSpan for feature gates.
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

// Default is the default of a field where it differs between releases, in words of Go;
// "none" for a field without one.
func (r *Releases) Default(name string, of Release) (string, bool) {
	return r.at(r.defaults[name], of)
}

// Needs are the feature gates without which a gate cannot be on: from 1.35 on a kubelet
// does not start then.
func (r *Releases) Needs(gate string, of Release) []string {
	text, ok := r.at(r.needs[gate], of)
	if !ok {
		return nil
	}
	return strings.Split(text, ",")
}

// Loads reports whether the kubelet of a release reads its files in a way: one of the
// Loader constants.
func (r *Releases) Loads(way string, of Release) bool {
	_, ok := r.at(r.loaders[way], of)
	return ok
}

// Etcd is the version of etcd that kubeadm of a release installs, and the oldest external one
// that it accepts: 3.7.0 and 3.5.24.
func (r *Releases) Etcd(of Release) (installed, least string) {
	installed, _ = r.at(r.etcd["default"], of)
	least, _ = r.at(r.etcd["least"], of)
	return installed, least
}

// Ways in which kubelets read their files.
const (
	// LoaderGate: with --config-dir the environment needs KUBELET_CONFIG_DROPIN_DIR_ALPHA, or
	// the kubelet does not start.
	LoaderGate = "gate"
	// LoaderVersioned: drop-ins are merged into the configuration as a file has it, and
	// defaults fill in what is then not set. Without it they are merged into the one in
	// memory, whose members have other names: null removes nothing, an explicit zero stays.
	LoaderVersioned = "versioned"
	// LoaderKinds: a drop-in has to be a KubeletConfiguration of v1beta1.
	LoaderKinds = "kinds"
	// LoaderEviction: mergeDefaultEvictionSettings fills evictionHard of the main file with
	// the thresholds that it does not have.
	LoaderEviction = "eviction"
	// LoaderSkipped: files in the directory that are not read are logged.
	LoaderSkipped = "skipped"
)
