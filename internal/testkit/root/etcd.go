package root

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Etcd returns the options of a root with the servers and another etcd release than Debian's,
// such as "3.7". test/etcd-releases/build builds it, which takes a minute the first time, so
// tests with it belong to the slow matrix.
func Etcd(t *testing.T, release string) Options {
	t.Helper()
	o := Options{Servers: true}
	if IsInside(t) {
		return o
	}
	Nightly(t, "builds etcd "+release)
	out, err := exec.Command(filepath.Join(Module(t), "test/etcd-releases/build")).Output()
	if err != nil {
		Missing(t, "test/etcd-releases/build: %v", err)
	}
	program := filepath.Join(strings.TrimSpace(string(out)), "etcd-"+release)
	o.Binds = []Bind{{Source: program, Target: "/usr/bin/etcd", ReadOnly: true}}
	return o
}
