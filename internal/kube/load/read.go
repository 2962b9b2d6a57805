package load

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/kube/load/burner"
	"fettle.dev/fettle/internal/kube/load/clusterloader"
	"fettle.dev/fettle/internal/kube/load/spec"
	"fettle.dev/fettle/internal/kube/strict"
)

// Read reads the file of a load, Cluster Loader's or kube-burner's; "" is the one that is
// built in. Errors have file and line.
func Read(file string) (*spec.Load, error) {
	if file == "" {
		return clusterloader.BuiltIn()
	}
	text, err := clusterloader.Here.Read(file)
	if err != nil {
		return nil, err
	}
	return ReadText(file, text)
}

// ReadText is Read for a text, which file names in messages. Files that it names are looked
// for in the working directory, and beside file.
func ReadText(file string, text []byte) (*spec.Load, error) {
	if expanded := text; strings.Contains(string(text), "{{") && !strings.Contains(string(text), "ClusterLoader") {
		var err error
		if expanded, err = burner.Expand(file, text, os.Environ()); err != nil {
			return nil, err
		}
		text = expanded
	}
	r := &strict.Reader{File: file}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(docs) != 1:
		return nil, fmt.Errorf("%s: want one document, found %d", file, len(docs))
	case burner.Ours(docs[0]):
		return burner.Read(file, text, burner.Files{Read: clusterloader.Here.Read})
	case clusterloader.Ours(docs[0]):
		return clusterloader.Read(file, text, clusterloader.Here)
	}
	found := ""
	if docs[0].Kind != yaml.MappingNode {
		found = ", found " + strict.Found(docs[0])
	}
	return nil, fmt.Errorf("%s: want ClusterLoader (with projects) or kube-burner's jobs at the top%s", r.At(docs[0]), found)
}
