package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// modules are those that a kubelet's fields, defaults and feature gates are in.
var modules = []string{
	"k8s.io/kubernetes", "k8s.io/kubelet", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver",
	"k8s.io/component-base", "k8s.io/client-go", "k8s.io/controller-manager",
}

// of is the module in the version of a release: k8s.io/apiserver@v0.29.14.
func (r release) of(module string) string {
	if module == "k8s.io/kubernetes" {
		return module + "@v1." + r.version
	}
	return module + "@v0." + r.version
}

// download returns the directory of each module of all releases, as MODULE@VERSION. Without
// network it returns an error if one is not in the cache of modules.
func download(network bool) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, r := range releases {
		for _, m := range modules {
			args = append(args, r.of(m))
		}
	}
	// Outside any module: with versions, "go mod download" needs none.
	outside, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(outside)
	cmd := exec.Command("go", args...)
	cmd.Dir = outside
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "PWD="+outside)
	if !network {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, runErr := cmd.Output()
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Path, Version, Dir, Error string }
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		if m.Error != "" {
			return nil, fmt.Errorf("%s@%s: %s", m.Path, m.Version, m.Error)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	if runErr != nil {
		return nil, fmt.Errorf("go mod download: %w: %s", runErr, strings.TrimSpace(stderr.String()))
	}
	return dirs, nil
}
