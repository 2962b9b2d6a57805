package load

import (
	"fmt"
	"os"
	"strings"

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
	if expanded := text; strings.Contains(string(text), "{{") && !strings.Contains(string(text), "ClusterLoader") {
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
	return nil, fmt.Errorf("%s: want ClusterLoader (with projects) or kube-burner's jobs at the top", r.At(docs[0]))
}
