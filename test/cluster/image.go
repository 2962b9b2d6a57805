package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// runtimeReady asks containerd for its version.
func runtimeReady() error {
	if out, err := exec.Command("ctr", "--address", containerdSocket, "version").CombinedOutput(); err != nil {
		return fmt.Errorf("ctr version: %w: %s", err, out)
	}
	return nil
}

// Image gives the node an image, such as "fettle.test/agent:1", that contains only one static
// program, which its containers run. Pods use it with the pull policy Never.
func (c *Cluster) Image(name, program string) {
	c.t.Helper()
	content, err := os.ReadFile(program)
	c.must(err)
	file := filepath.Base(program)
	c.load(name, image{config: map[string]any{"Entrypoint": []string{"/" + file}, "Env": []string{"PATH=/"}, "WorkingDir": "/"}, files: []tarFile{{file, 0o755, content}}})
}

// load gives containerd an image.
func (c *Cluster) load(name string, i image) {
	c.t.Helper()
	file := filepath.Join(c.Dir, "image.tar")
	f, err := os.Create(file)
	c.must(err)
	defer os.Remove(file)
	err = i.write(f, name)
	if closed := f.Close(); err == nil {
		err = closed
	}
	c.must(err)
	ctr := []string{"ctr", "--address", containerdSocket, "--namespace", "k8s.io", "images"}
	run(c.t, append(ctr, "import", file)...)
	if names := strings.Fields(run(c.t, append(ctr, "list", "--quiet")...)); !slices.Contains(names, name) {
		c.t.Fatalf("containerd has no image %s after its import: %v", name, names)
	}
}

// image is the input of an image.
type image struct {
	// config has the execution parameters: Entrypoint, User and so on.
	config map[string]any
	files  []tarFile
}

// write writes an image as `docker save` does (Docker Image Specification v1.2,
// "Combined Image JSON + Filesystem Changeset Format"): a list of images, for each its
// configuration, and the layers, here one.
func (i image) write(w io.Writer, name string) error {
	var layer bytes.Buffer
	if err := writeTar(&layer, i.files...); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS, "config": i.config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	configFile := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{"Config": configFile, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	return writeTar(w, tarFile{"manifest.json", 0o644, manifest}, tarFile{configFile, 0o644, config}, tarFile{"layer.tar", 0o644, layer.Bytes()})
}

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(w io.Writer, files ...tarFile) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
