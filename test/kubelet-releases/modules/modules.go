// Package modules downloads released modules to read their source: for this program and for
// test/etcd-releases.
package modules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Download returns the directory of each module, by MODULE@VERSION. Without network it returns
// an error if one is not in the cache of modules.
func Download(all []string, network bool) (map[string]string, error) {
	args := append([]string{"mod", "download", "-json"}, all...)
	// Run outside any module: with explicit versions, "go mod download" needs none.
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
