package kuberelease

import (
	"fmt"
	"strconv"
	"strings"
)

// openshiftKubernetes maps minor versions of OpenShift 4 to Kubernetes releases. Source: the
// OpenShift release notes of 4.1 (1.13), 4.2 (1.14), 4.3 (1.16), 4.12 (1.25), 4.14 (1.27), 4.16
// (1.29) and 4.22 (1.35), "Kubernetes 1.N with CRI-O runtime". From 4.3 on each version has the
// next release.
var openshiftKubernetes = map[int]Release{
	1: 13, 2: 14, 3: 16, 4: 17, 5: 18, 6: 19, 7: 20, 8: 21, 9: 22, 10: 23, 11: 24,
	12: 25, 13: 26, 14: 27, 15: 28, 16: 29, 17: 30, 18: 31, 19: 32, 20: 33, 21: 34, 22: 35,
}

// OfOpenShift returns the Kubernetes release of an OpenShift version, 4.16 or
// 4.16.9. It reports false if the release is unknown.
func OfOpenShift(version string) (Release, bool) {
	minor, ok := openshiftMinor(version)
	r, known := openshiftKubernetes[minor]
	if !ok || !known {
		return 0, false
	}
	return r, true
}

// Newer describes versions of Kubernetes and OpenShift that are newer than all known ones, with the
// versions whose rules apply instead. "" means that a version is unknown.
func Newer(kubernetes, openshift string) (out []string) {
	newest := len(openshiftKubernetes)
	if minor, ok := openshiftMinor(openshift); ok && minor > newest {
		return []string{fmt.Sprintf("OpenShift %s is newer than all known versions; the rules of 4.%d apply", openshift, newest)}
	}
	if r, ok := Parse(kubernetes); ok && r > Known().Newest {
		return []string{fmt.Sprintf("Kubernetes %s is newer than all known versions; the rules of %s apply", kubernetes, Known().Newest)}
	}
	return nil
}

// OpenShiftVersion returns the version in the text of an OpenShift node's /etc/os-release, and its
// line number; "" for other machines.
func OpenShiftVersion(osRelease string) (version string, line int) {
	for text := range strings.Lines(osRelease) {
		line++
		if v, ok := strings.CutPrefix(strings.TrimSpace(text), "OPENSHIFT_VERSION="); ok {
			return strings.Trim(v, `"'`), line
		}
	}
	return "", 0
}

// openshiftMinor returns the N of 4.N, 4.N.9 or 4.N-rc.1. It reports false for other texts.
func openshiftMinor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "4.")
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "-")
	n, err := strconv.ParseUint(minor, 10, 8)
	return int(n), ok && err == nil && n > 0
}

// openshiftBuild reports whether a version has OpenShift's build metadata: true for 1.27.6+b49f9d1,
// false for k3s's 1.34.1+k3s1.
func openshiftBuild(version string) bool {
	_, build, _ := strings.Cut(version, "+")
	return len(build) >= 7 && strings.Trim(build, "0123456789abcdef") == ""
}

// Target is the release for which kubelets are checked.
type Target struct {
	Release string // "1.37", or the requested "4.23" if its Kubernetes release is unknown
	// Rules is the release whose rules apply: for newer releases, the newest known one.
	Rules Release
	// OpenShift is the requested OpenShift version, or "" for a Kubernetes release.
	OpenShift string
}

// Targets returns the texts that Target accepts: the known releases of Kubernetes and the versions
// of OpenShift with one of them, oldest first.
func (r *Releases) Targets() []string {
	var out []string
	for of := r.Oldest; of <= r.Newest; of++ {
		out = append(out, of.String())
	}
	for minor := range len(openshiftKubernetes) + 1 {
		if openshiftKubernetes[minor] >= r.Oldest {
			out = append(out, fmt.Sprintf("4.%d", minor))
		}
	}
	return out
}

// Target parses a Kubernetes release, 1.37, or an OpenShift version, 4.20.
func (r *Releases) Target(text string) (Target, error) {
	newest := len(openshiftKubernetes)
	if minor, ok := openshiftMinor(text); ok {
		of, known := openshiftKubernetes[minor]
		switch {
		case of >= r.Oldest:
			return Target{Release: of.String(), Rules: r.Nearest(of), OpenShift: text}, nil
		case !known && minor > newest:
			return Target{Release: text, Rules: openshiftKubernetes[newest], OpenShift: text}, nil
		}
	}
	if to, ok := Parse(text); ok && to >= r.Oldest {
		return Target{Release: to.String(), Rules: r.Nearest(to)}, nil
	}
	oldest := newest
	for openshiftKubernetes[oldest-1] >= r.Oldest {
		oldest--
	}
	return Target{}, fmt.Errorf("%q: want a release of Kubernetes from %s to %s, or of OpenShift from 4.%d to 4.%d", text, r.Oldest, r.Newest, oldest, newest)
}
