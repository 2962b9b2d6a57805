// Package openshift answers what rules ask of the documents that a cluster is
// installed and set up with: those that lie in the directory that is audited, and
// in its manifests/ and openshift/, as openshift-install has them.
package openshift

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

// directories are where documents are looked for.
var directories = []string{"/", "/manifests", "/openshift"}

// Documents are capped: a directory can be anybody's.
const (
	maxFiles = 500
	maxBytes = 1 << 20
)

// The sets.
const (
	kubelets = "openshift.kubelet"
	checks   = "openshift.health_check"
)

// Source is the table of what the documents say.
func Source() platform.Source {
	s := platform.Source{Prefix: "openshift", Sets: []string{kubelets, checks}, Open: open}
	for _, in := range []rule.Input{
		{Name: "documents", Type: rule.Number, Doc: "documents of a cluster in the directory; absent where there is none"},
		{Name: "cluster_cidr", Type: rule.Text, Doc: "network of the pods, of install-config.yaml"},
		{Name: "host_prefix", Type: rule.Number, Doc: "prefix of each node's part of it"},
		{Name: "network_type", Type: rule.Text},
		{Name: "workers", Type: rule.Number, Doc: "worker machines that are installed"},
		{Name: "control_plane", Type: rule.Number, Doc: "control plane machines"},
		{Name: "nodes_max", Type: rule.Number, Doc: "parts of the cluster network"},
		{Name: "addresses_per_node", Type: rule.Number, Doc: "addresses for pods in each part"},
		{Name: "machine_addresses", Type: rule.Number, Doc: "addresses of the machine network"},
		{Name: "overlaps", Type: rule.Text, Doc: "the networks that overlap; empty where none do"},
		{Name: "overlay_mtu", Type: rule.Number, Unit: "bytes", Doc: "MTU inside the overlay"},
		{Name: "monitoring.document", Type: rule.Truth, Doc: "whether cluster monitoring is configured"},
		{Name: "monitoring.retention_days", Type: rule.Number, Unit: "d"},
		{Name: "monitoring.prometheus_bytes", Type: rule.Number, Unit: "bytes", Doc: "volume of each Prometheus; 0 for none"},
		{Name: "kubelet.*.max_pods", Type: rule.Number},
		{Name: "kubelet.*.pods_per_core", Type: rule.Number},
		{Name: "kubelet.*.qps", Type: rule.Number, Unit: "1/s"},
		{Name: "kubelet.*.burst", Type: rule.Number},
		{Name: "kubelet.*.cpu_manager", Type: rule.Text},
		{Name: "kubelet.*.topology", Type: rule.Text},
		{Name: "health_check.*.api", Type: rule.Text, Doc: "apiVersion"},
		{Name: "health_check.*.max_unhealthy", Type: rule.Text},
		{Name: "health_check.*.role", Type: rule.Text, Doc: "role of the machines"},
	} {
		in.Name = "openshift." + in.Name
		s.Inputs = append(s.Inputs, in)
	}
	return s
}

// told is what the documents say.
type told struct {
	answers map[string]rule.Answer
	items   map[string][]string
	// unknown says why what is absent may only not have been read.
	unknown string
}

// Answer implements platform.Answers.
func (t *told) Answer(input string) rule.Answer {
	if a, ok := t.answers[input]; ok {
		return a
	}
	return rule.Answer{Unknown: t.unknown}
}

// Items implements platform.Answers.
func (t *told) Items(set string) (names []string, unknown string) { return t.items[set], t.unknown }

func (t *told) give(input string, value any, at string) {
	t.answers["openshift."+input] = rule.Answer{Value: value, At: at}
}

func (t *told) unclear(input, at string, why error) {
	t.answers["openshift."+input] = rule.Answer{Unknown: fmt.Sprintf("%s: %v", at, why), At: at}
}

func open(_ context.Context, s *platform.Subject) platform.Answers {
	t := &told{answers: map[string]rule.Answer{}, items: map[string][]string{}}
	docs, unknown := documents(s.Host)
	for _, d := range docs {
		t.take(d)
	}
	found := 0
	for _, d := range docs {
		if d.kind() != "" {
			found++
		}
	}
	if found > 0 {
		t.give("documents", float64(found), docs[0].file)
		t.unknown = unknown
	}
	return t
}

// document is one YAML document and where it is.
type document struct {
	file string
	*yaml.Node
}

// documents reads those of the directory. unknown says what could not be read.
func documents(h *host.Host) (docs []document, unknown string) {
	files := 0
	for _, dir := range directories {
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrNotRecorded) {
				unknown = fmt.Sprintf("%s cannot be read: %v", dir, err)
			}
			continue
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" || e.IsDir() {
				continue
			}
			if files++; files > maxFiles {
				return docs, fmt.Sprintf("more than %d files: the rest was not read", maxFiles)
			}
			if info, err := h.Files.Stat(name); err == nil && info.Size() > maxBytes {
				unknown = fmt.Sprintf("%s has more than %d bytes and was not read", name, maxBytes)
				continue
			}
			text, err := h.Files.ReadFile(name)
			if err != nil {
				unknown = fmt.Sprintf("%s cannot be read: %v", name, err)
				continue
			}
			more, err := parse(name, string(text))
			if err != nil {
				unknown = err.Error()
			}
			docs = append(docs, more...)
		}
	}
	return docs, unknown
}

// parse reads the documents of a file.
func parse(name, text string) (docs []document, err error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for len(docs) < maxFiles {
		n := &yaml.Node{}
		if err := dec.Decode(n); err != nil {
			if errors.Is(err, io.EOF) {
				return docs, nil
			}
			return docs, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(n.Content) == 1 {
			docs = append(docs, document{name, n.Content[0]})
		}
	}
	return docs, nil
}

// kind is what sort of document it is, as this package takes it; "" for none of
// its own.
func (d document) kind() string {
	kind, api := d.text("kind"), d.text("apiVersion")
	switch {
	case kind == "" && d.get("networking") != nil && d.get("controlPlane") != nil:
		return "InstallConfig"
	case kind == "KubeletConfig" && strings.HasPrefix(api, "machineconfiguration.openshift.io/"),
		kind == "MachineHealthCheck",
		kind == "Network" && strings.HasPrefix(api, "operator.openshift.io/"),
		kind == "ConfigMap" && d.text("metadata", "name") == "cluster-monitoring-config":
		return kind
	}
	return ""
}

// get finds a node by the keys on the way; nil if there is none.
func (d document) get(keys ...string) *yaml.Node { return get(d.Node, keys...) }

func get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if n = follow(n); n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return follow(n)
}

// follow is the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text is a scalar; "" if there is none.
func (d document) text(keys ...string) string {
	if n := d.get(keys...); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// at is the place of a node, or of the document where there is none.
func (d document) at(n *yaml.Node) string {
	if n == nil {
		n = d.Node
	}
	return fmt.Sprintf("%s:%d", d.file, n.Line)
}
