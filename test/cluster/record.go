package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var record = flag.Bool("record", false, "write each test that has passed, with the release and the day, into "+runsFile)

// runsFile lists the tests that have passed on each release, with the day of the last run.
// docs/kubernetes-releases.md is generated from it.
const runsFile = "runs.json"

// released is a release of Kubernetes with the day on which each test last passed on it.
type released struct {
	Release    string            `json:"release"`    // "1.37"
	Kubernetes string            `json:"kubernetes"` // "v1.37.2"
	Etcd       string            `json:"etcd"`
	Tests      map[string]string `json:"tests"`
}

// recordLock is held while a test of this process reads and writes runsFile.
var recordLock sync.Mutex

// recordPass adds the calling test to runsFile when it has ended, unless it failed or was skipped.
// It must be called before any cleanup that can fail the test. dir has the programs of the release.
func recordPass(t *testing.T, dir string) {
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if err := writePass(dir, t.Name()); err != nil {
			t.Errorf("-record: %v", err)
		}
	})
}

func writePass(dir, test string) error {
	now, err := releaseOf(dir)
	if err != nil {
		return err
	}
	recordLock.Lock()
	defer recordLock.Unlock()
	var all []released
	text, err := os.ReadFile(runsFile)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all = withPass(all, now, test, time.Now().UTC().Format(time.DateOnly))
	if text, err = json.MarshalIndent(all, "", "\t"); err != nil {
		return err
	}
	return os.WriteFile(runsFile, append(text, '\n'), 0o644)
}

// withPass adds a test to the records of its release. It removes records of another version of the
// release or of etcd.
func withPass(all []released, now released, test, day string) []released {
	i := slices.IndexFunc(all, func(r released) bool { return r.Release == now.Release })
	if i < 0 {
		all, i = append(all, now), len(all)
	} else if all[i].Kubernetes != now.Kubernetes || all[i].Etcd != now.Etcd {
		all[i] = now
	}
	if all[i].Tests == nil {
		all[i].Tests = map[string]string{}
	}
	all[i].Tests[test] = day
	slices.SortFunc(all, func(a, b released) int { return cmp.Compare(a.Release, b.Release) })
	return all
}

// releaseOf returns the release that the programs themselves report.
func releaseOf(dir string) (r released, err error) {
	if r.Kubernetes, err = versionOf(filepath.Join(dir, "kubelet")); err != nil {
		return r, err
	}
	if r.Etcd, err = versionOf(filepath.Join(dir, "etcd")); err != nil {
		return r, err
	}
	r.Release = strings.TrimPrefix(r.Kubernetes[:strings.LastIndexByte(r.Kubernetes, '.')], "v")
	return r, nil
}

// versionOf returns the version that a program prints, such as v1.37.2.
func versionOf(program string) (string, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	version := regexp.MustCompile(`\d+\.\d+\.\d+\S*`).Find(line)
	if version == nil {
		return "", fmt.Errorf("%s --version: no version in %q", program, line)
	}
	return "v" + string(version), nil
}
