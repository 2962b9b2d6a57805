package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestRecord: a test that passes again has the new day, and a new version of a release or
// another etcd begins an empty list; other releases stay.
func TestRecord(t *testing.T) {
	of := func(release, kubernetes, etcd string) released {
		return released{Release: release, Kubernetes: kubernetes, Etcd: etcd}
	}
	var all []released
	all = withPass(all, of("1.37", "v1.37.1", "v3.7.3"), "TestA", "2026-01-01")
	all = withPass(all, of("1.35", "v1.35.4", "v3.6.12"), "TestA", "2026-01-02")
	all = withPass(all, of("1.37", "v1.37.2", "v3.7.3"), "TestA", "2026-01-03")
	all = withPass(all, of("1.37", "v1.37.2", "v3.7.3"), "TestB", "2026-01-03")
	all = withPass(all, of("1.37", "v1.37.2", "v3.7.3"), "TestA", "2026-01-04")
	want := []released{
		{"1.35", "v1.35.4", "v3.6.12", map[string]string{"TestA": "2026-01-02"}},
		{"1.37", "v1.37.2", "v3.7.3", map[string]string{"TestA": "2026-01-04", "TestB": "2026-01-03"}},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("recorded %+v, want %+v", all, want)
	}
	all = withPass(all, of("1.37", "v1.37.2", "v3.7.4"), "TestB", "2026-01-05")
	if want := map[string]string{"TestB": "2026-01-05"}; !reflect.DeepEqual(all[1].Tests, want) {
		t.Errorf("with another etcd: recorded %v, want %v", all[1].Tests, want)
	}
}

// TestReleaseOf: the release is what the programs print, and one that prints none is an error.
func TestReleaseOf(t *testing.T) {
	dir := t.TempDir()
	program := func(name, prints string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("kubelet", "Kubernetes v1.37.2")
	program("etcd", "etcd Version: 3.7.3\nGit SHA: Not provided\nGo Version: go1.26.8")
	r, err := releaseOf(dir)
	if want := (released{Release: "1.37", Kubernetes: "v1.37.2", Etcd: "v3.7.3"}); !reflect.DeepEqual(r, want) || err != nil {
		t.Errorf("got %+v, %v, want %+v", r, err, want)
	}
	program("etcd", "unknown flag")
	if r, err := releaseOf(dir); err == nil {
		t.Errorf("of a program without a version: %+v", r)
	}
}
