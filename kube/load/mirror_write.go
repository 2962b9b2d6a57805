package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadFile is the name of the load file that Write creates.
const LoadFile = "load.yaml"

// document has the fields of a Cluster Loader file that a mirror needs.
type document struct {
	ClusterLoader struct {
		Projects []project `yaml:"projects"`
	} `yaml:"ClusterLoader"`
}

type project struct {
	Num      int       `yaml:"num"`
	BaseName string    `yaml:"basename"`
	IfExists string    `yaml:"ifexists"`
	Objects  []objects `yaml:"objects,omitempty"`
}

type objects struct {
	Num  int    `yaml:"num"`
	File string `yaml:"file"`
}

// ErrNothingToMirror means that no namespace is left to mirror.
var ErrNothingToMirror = errors.New("only system namespaces found; name the namespaces to mirror")

// Write writes the load and its objects into dir, which it creates if necessary, and returns the
// load file's path. It does not overwrite files.
func (m *Mirror) Write(dir string) (string, error) {
	if len(m.Spaces) == 0 {
		return "", ErrNothingToMirror
	}
	files := map[string][]byte{}
	var names []string
	put := func(name string, v any, lead string) error {
		var b bytes.Buffer
		b.WriteString(lead)
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		if err := errors.Join(e.Encode(v), e.Close()); err != nil {
			return err
		}
		files[name] = b.Bytes()
		names = append(names, name)
		return nil
	}
	var l document
	for i, s := range m.Spaces {
		p := project{Num: s.Count, BaseName: fmt.Sprintf("mirror%d-", i), IfExists: "fail"}
		of := map[string]int{}
		for _, g := range s.Groups {
			kind := strings.ToLower(g.Kind)
			file := fmt.Sprintf("mirror%d-%s-%d.yaml", i, kind, of[kind])
			if err := put(file, give(g.Manifest, fmt.Sprintf("%s-%d-${IDENTIFIER}", kind, of[kind])), ""); err != nil {
				return "", err
			}
			of[kind]++
			p.Objects = append(p.Objects, objects{g.Count, file})
		}
		l.ClusterLoader.Projects = append(l.ClusterLoader.Projects, p)
	}
	if err := put(LoadFile, l, "# Counts and sizes of a cluster's namespaces, without their content.\n"); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return "", err
		}
		if _, err = f.Write(files[name]); err != nil {
			return "", errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, LoadFile), nil
}
