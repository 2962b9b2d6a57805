package load

import (
	"bytes"
	"fmt"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/kube/load/format"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// ReadOptions are the options for kube-burner configurations.
type ReadOptions struct {
	// UUID is the benchmark's UUID; "" for a new one. UserData is a file of variables, Set has
	// KEY=VALUE pairs, and AllowMissing makes missing variables empty.
	UUID         string
	UserData     string
	Set          []string
	AllowMissing bool
}

// Read reads a load file of Cluster Loader or kube-burner; "" means the built-in load. Errors name
// file and line.
func Read(file string, o ReadOptions) (*plan.Load, error) {
	if file == "" {
		return format.BuiltIn()
	}
	text, err := format.Here.Read(file)
	if err != nil {
		return nil, err
	}
	return ReadText(file, text, o)
}

// ReadText is like Read, but for a text. file is the name of the text in messages. Named files are
// searched in the working directory, then next to file.
func ReadText(file string, text []byte, o ReadOptions) (*plan.Load, error) {
	if otherLoader(text) {
		return nil, fmt.Errorf("%s: ClusterLoader2 (kubernetes/perf-tests) is not supported; use OpenShift's ClusterLoader (with projects) or kube-burner jobs, or write a load like a cluster with kubectl fettle load mirror --write DIR", file)
	}
	burning := format.Options{Read: format.Here.Read, Env: os.Environ(), UUID: o.UUID, UserData: o.UserData, Set: o.Set, AllowMissing: o.AllowMissing}
	if !loaderForm.Match(text) && (jobsForm.Match(text) || bytes.Contains(text, []byte("{{")) && !projectsForm.Match(text)) {
		return format.ReadKubeBurner(file, text, burning)
	}
	r := &strict.Reader{File: file}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(docs) == 0:
		return nil, fmt.Errorf("%s is empty; want the top-level key ClusterLoader (with projects) or jobs (kube-burner)", file)
	case len(docs) != 1:
		return nil, fmt.Errorf("%s: want one document, found %d", file, len(docs))
	case format.BurnerOwn(docs[0]):
		return format.ReadKubeBurner(file, text, burning)
	case format.ClusterLoaderOwn(docs[0]):
		return format.ReadClusterLoader(file, text, format.Here)
	}
	found := ""
	if docs[0].Kind != yaml.MappingNode {
		found = ", found " + strict.Found(docs[0])
	}
	return nil, fmt.Errorf("%s: want the top-level key ClusterLoader (with projects) or jobs (kube-burner)%s", r.At(docs[0]), found)
}

// Patterns for fields that identify a file's format before {{ }} is replaced.
var (
	loaderForm   = regexp.MustCompile(`(?mi)^\s*["']?ClusterLoader["']?\s*:`)
	projectsForm = regexp.MustCompile(`(?m)^["']?projects["']?\s*:`)
	jobsForm     = regexp.MustCompile(`(?m)^["']?jobs["']?\s*:`)
	stepsForm    = regexp.MustCompile(`(?m)^["']?(steps|tuningSets)["']?\s*:`)
	callForm     = regexp.MustCompile(`\{\{([^}]*[^.\w}])?(DefaultParam|MultiplyInt|MultiplyFloat|AddInt|AddFloat|SubtractInt|SubtractFloat|DivideInt|DivideFloat|MaxInt|MaxFloat|MinInt|MinFloat|RandInt|RandSeed|StructuralMerge|IncludeFile|IncludeEmbeddedFile|YamlQuote)\b`)
)

// otherLoader reports whether a text is a ClusterLoader2 configuration: it has steps
// (clusterloader2/api/types.go), or calls that program's functions (pkg/config).
func otherLoader(text []byte) bool {
	return !loaderForm.Match(text) && !jobsForm.Match(text) && (stepsForm.Match(text) || callForm.Match(text))
}
