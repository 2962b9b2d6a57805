package openshift

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	internaltext "fettle.dev/fettle/internal/text"
)

// directories are searched for documents: the audited directory, and those that
// openshift-install creates in it.
var directories = []string{"/", "/manifests", "/openshift"}

// gathered lists the paths in the output of oc adm must-gather and oc adm inspect that are read.
// Each is a directory of documents or one list, NAME.yaml.
var gathered = []string{
	"cluster-scoped-resources/core/nodes",
	"cluster-scoped-resources/config.openshift.io/clusterversions",
	"cluster-scoped-resources/config.openshift.io/featuregates",
	"cluster-scoped-resources/config.openshift.io/networks",
	"cluster-scoped-resources/operator.openshift.io/networks",
	"cluster-scoped-resources/machineconfiguration.openshift.io/kubeletconfigs",
	"cluster-scoped-resources/performance.openshift.io/performanceprofiles",
	"namespaces/kube-system/core/configmaps",
	"namespaces/openshift-machine-api/machine.openshift.io/machinehealthchecks",
	"namespaces/openshift-monitoring/core/configmaps",
	"namespaces/openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds",
}

// Limits, because a directory may have any origin.
const (
	maxFiles     = 2000
	maxBytes     = 8 << 20  // of one file
	maxAll       = 32 << 20 // of all files
	maxDocuments = 20000
)

// document is a YAML document or an item of a list, with its position.
type document struct {
	file string
	*yaml.Node
	// whole marks an item of a list that has all objects of its kind.
	whole bool
	// object is the name of an object in a running cluster, which has no lines. It is "" for files.
	object string
}

// reader reads the documents of a machine's directories.
type reader struct {
	host  *host.Host
	docs  []document
	files int
	bytes int64
	// problem describes a document that could not be read. ours is true if it belongs to a cluster.
	problem string
	ours    bool
}

// documents reads the documents of the directory, and of a must-gather in it.
func documents(h *host.Host) *reader {
	r := &reader{host: h}
	for _, dir := range directories {
		r.directory(dir)
	}
	for _, base := range r.bases() {
		for _, name := range gathered {
			r.directory(path.Join(base, name))
			if _, err := h.Files.Stat(path.Join(base, name) + ".yaml"); err == nil {
				r.file(path.Join(base, name) + ".yaml")
			}
		}
	}
	return r
}

// bases returns the directories with the layout of a must-gather: the root, one below it
// (named after the image), or one below must-gather.local.NUMBER.
func (r *reader) bases() []string {
	is := func(dir string) bool {
		_, err := r.host.Files.Stat(path.Join(dir, "cluster-scoped-resources"))
		return err == nil
	}
	var out []string
	var look func(dir string, deep bool)
	look = func(dir string, deep bool) {
		if is(dir) {
			out = append(out, dir)
			return
		}
		entries, err := r.host.Files.ReadDir(dir)
		if err != nil {
			return // directory reports the error if it matters
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case !e.IsDir() || len(out) >= 10:
			case deep && strings.HasPrefix(e.Name(), "must-gather"):
				look(name, false)
			case is(name):
				out = append(out, name)
			}
		}
	}
	look("/", true)
	return out
}

func (r *reader) directory(dir string) {
	entries, err := r.host.Files.ReadDir(dir)
	if err != nil {
		if !host.NotFound(err) {
			r.problem = fmt.Sprintf("%s cannot be read: %v", dir, err)
		}
		return
	}
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() {
				r.file(path.Join(dir, e.Name()))
			}
		}
	}
}

// file reads the documents of a file.
func (r *reader) file(name string) {
	if r.files++; r.files > maxFiles {
		r.problem = internaltext.Sprintf("more than %d files: the rest was not read", maxFiles)
		return
	}
	st, err := r.host.Files.Stat(name)
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxBytes || r.bytes+st.Size() > maxAll) {
		r.problem = internaltext.Sprintf("%s not read: not a file, larger than %d bytes, or one of too many files", name, maxBytes)
		return
	}
	text, err := r.host.Files.ReadFile(name)
	if err != nil {
		r.problem = fmt.Sprintf("%s cannot be read: %v", name, err)
		return
	}
	r.bytes += int64(len(text))
	docs, err := parse(name, string(text))
	r.docs = append(r.docs, docs...)
	if err != nil {
		r.problem = err.Error()
		r.ours = r.ours || path.Base(name) == "install-config.yaml" || strings.Contains(string(text), ".openshift.io/")
	}
}

// parse parses the documents of a text. Items of a list are returned as documents.
func parse(name, text string) (docs []document, err error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for range maxDocuments {
		n := &yaml.Node{}
		if err := dec.Decode(n); err != nil {
			if errors.Is(err, io.EOF) {
				return docs, nil
			}
			return docs, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(n.Content) != 1 {
			continue
		}
		left := conf.MaxYAMLSteps
		if line, err := merge(n, &left); err != nil {
			return docs, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		d := document{file: name, Node: conf.Aliased(n.Content[0])}
		items := d.get("items")
		if items == nil || items.Kind != yaml.SequenceNode || !strings.HasSuffix(d.text("kind"), "List") {
			docs = append(docs, d)
			continue
		}
		kind := strings.TrimSuffix(d.text("kind"), "List") // NodeList gives Node, List gives ""
		for _, item := range items.Content {
			if len(docs) >= maxDocuments {
				break
			}
			item = conf.Aliased(item)
			docs = append(docs, document{file: name, Node: named(item, kind, d.text("apiVersion")), whole: true})
		}
	}
	if len(docs) >= maxDocuments {
		return docs, internaltext.Errorf("%s: more than %d documents: the rest was not read", name, maxDocuments)
	}
	return docs, nil
}

// named adds kind and apiVersion to an item of a list, which may omit them if the list has one kind.
func named(item *yaml.Node, kind, api string) *yaml.Node {
	if kind == "" || item.Kind != yaml.MappingNode || get(item, "kind") != nil {
		return item
	}
	n := *item
	scalar := func(s string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Line: item.Line}
	}
	n.Content = append([]*yaml.Node{scalar("kind"), scalar(kind), scalar("apiVersion"), scalar(api)}, item.Content...)
	return &n
}

// get returns the node at a path of keys, or nil.
func (d document) get(keys ...string) *yaml.Node { return get(d.Node, keys...) }

func get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if n = conf.Aliased(n); n == nil || n.Kind != yaml.MappingNode {
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
	if n = conf.Aliased(n); n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	return n
}

// list returns the entries of a sequence, if it is one.
func list(n *yaml.Node) []*yaml.Node {
	if n = conf.Aliased(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out[i] = conf.Aliased(c)
	}
	return out
}

// keys returns the keys of a mapping.
func keys(n *yaml.Node) []string {
	if n = conf.Aliased(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, n.Content[i].Value)
	}
	return out
}

// text returns the scalar at a path of keys, or "".
func (d document) text(keys ...string) string { return openshiftText(d.Node, keys...) }

func openshiftText(n *yaml.Node, keys ...string) string {
	if n := get(n, keys...); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// at returns the position of a node, or of the document.
func (d document) at(n *yaml.Node) string {
	if d.object != "" {
		return d.object
	}
	if n == nil {
		n = d.Node
	}
	return fmt.Sprintf("%s:%d", d.file, n.Line)
}

// within parses a document contained in the text of a key, such as in a ConfigMap. If the text is
// a block, its lines are counted in the outer file.
func (d document) within(keys ...string) (inner document, err error) {
	n := d.get(keys...)
	if n == nil || n.Kind != yaml.ScalarNode {
		return inner, fmt.Errorf("%s is missing", strings.Join(keys, "."))
	}
	all, err := parse(d.at(n), n.Value)
	if err != nil {
		return inner, err
	}
	if len(all) == 0 {
		return document{file: d.file, Node: &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}, object: d.object}, nil
	}
	first := 0 // text in one line has one position
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		first = 1
	}
	seen := map[*yaml.Node]bool{}
	var shift func(*yaml.Node)
	shift = func(m *yaml.Node) {
		if m == nil || seen[m] {
			return
		}
		seen[m] = true
		if first == 1 {
			m.Line += n.Line
		} else {
			m.Line = n.Line
		}
		for _, c := range m.Content {
			shift(c)
		}
	}
	shift(all[0].Node)
	return document{file: d.file, Node: all[0].Node, object: d.object}, nil
}
