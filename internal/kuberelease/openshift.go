package kuberelease

import (
	"strconv"
	"strings"
)

// openshiftKubernetes is the Kubernetes of each version of OpenShift 4: that of 4.1 and
// 4.2, then one more for each.
// Source: the OpenShift release notes of 4.1 (1.13), 4.2 (1.14), 4.3 (1.16), 4.12 (1.25),
// 4.14 (1.27), 4.16 (1.29) and 4.22 (1.35), "Kubernetes 1.N with CRI-O runtime".
var openshiftKubernetes = map[int]Release{
	1: 13, 2: 14, 3: 16, 4: 17, 5: 18, 6: 19, 7: 20, 8: 21, 9: 22, 10: 23, 11: 24,
	12: 25, 13: 26, 14: 27, 15: 28, 16: 29, 17: 30, 18: 31, 19: 32, 20: 33, 21: 34, 22: 35,
}

// OfOpenShift is the release of Kubernetes in a version of OpenShift, 4.16 or 4.16.9. It
// reports false for those that are not known here.
func OfOpenShift(version string) (Release, bool) {
	rest, ok := strings.CutPrefix(version, "4.")
	if !ok {
		return 0, false
	}
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "-") // 4.22-rc.1
	n, err := strconv.Atoi(minor)
	r, known := openshiftKubernetes[n]
	return r, known && err == nil
}

// openshiftBuild reports whether a version has the build of OpenShift's kubelets:
// 1.27.6+b49f9d1, and not k3s's 1.34.1+k3s1.
func openshiftBuild(version string) bool {
	_, build, _ := strings.Cut(version, "+")
	return len(build) >= 7 && strings.Trim(build, "0123456789abcdef") == ""
}
