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
)

// directories are where documents are looked for: the one that is audited, and
// those that openshift-install makes in it.
var directories = []string{"/", "/manifests", "/openshift"}

// gathered is where oc adm must-gather and oc adm inspect put what is read here,
// as a directory of documents or as one list, NAME.yaml.
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

// Documents are capped: a directory can be anybody's.
const (
	maxFiles     = 2000
	maxBytes     = 8 << 20  // of one file
	maxAll       = 32 << 20 // of all files
	maxDocuments = 20000
)

// document is one YAML document, or an item of a list, and where it is.
type document struct {
	file string
	*yaml.Node
	// whole is true for an item of a list: its neighbours are there too.
	whole bool
	// object is what an object of a running cluster is called, which has no lines; ""
	// for a document of a file.
	object string
}

// reader reads the documents of a machine's directories.
type reader struct {
	host  *host.Host
	docs  []document
	files int
	bytes int64
	// problem says what could not be read; ours is true where that is a
	// document of a cluster.
	problem string
	ours    bool
}

// documents reads those of the directory, and of the must-gather that it is or
// holds.
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

// bases are the directories that have the layout of a must-gather: the root, one
// below it (named after the image), or one below must-gather.local.NUMBER.
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
			return // directory has said so, where it matters
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
		r.problem = fmt.Sprintf("more than %d files: the rest was not read", maxFiles)
		return
	}
	st, err := r.host.Files.Stat(name)
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxBytes || r.bytes+st.Size() > maxAll) {
		r.problem = fmt.Sprintf("%s was not read: it is no file of at most %d bytes, or there are too many", name, maxBytes)
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

// parse reads the documents of a text; the items of a list are documents of
// their own.
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
		d := document{file: name, Node: follow(n.Content[0])}
		items := d.get("items")
		if items == nil || items.Kind != yaml.SequenceNode || !strings.HasSuffix(d.text("kind"), "List") {
			docs = append(docs, d)
			continue
		}
		kind := strings.TrimSuffix(d.text("kind"), "List") // NodeList; "" for List
		for _, item := range items.Content {
			if len(docs) >= maxDocuments {
				break
			}
			item = follow(item)
			docs = append(docs, document{file: name, Node: named(item, kind, d.text("apiVersion")), whole: true})
		}
	}
	if len(docs) >= maxDocuments {
		return docs, fmt.Errorf("%s: more than %d documents: the rest was not read", name, maxDocuments)
	}
	return docs, nil
}

// named is an item of a list of one kind, which need not repeat it.
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
	if n = follow(n); n != nil && n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	return n
}

// follow is the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list is the entries of a sequence; none where there is none.
func list(n *yaml.Node) []*yaml.Node {
	if n = follow(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out[i] = follow(c)
	}
	return out
}

// keys are those of a mapping.
func keys(n *yaml.Node) []string {
	if n = follow(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, n.Content[i].Value)
	}
	return out
}

// text is a scalar; "" if there is none.
func (d document) text(keys ...string) string { return openshiftText(d.Node, keys...) }

func openshiftText(n *yaml.Node, keys ...string) string {
	if n := get(n, keys...); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// at is the place of a node, or of the document where there is none.
func (d document) at(n *yaml.Node) string {
	if d.object != "" {
		return d.object
	}
	if n == nil {
		n = d.Node
	}
	return fmt.Sprintf("%s:%d", d.file, n.Line)
}

// within is a document that is the text of a key of another one, such as a
// ConfigMap's. Its lines are those of the outer file where the text is a block.
func (d document) within(keys ...string) (inner document, err error) {
	n := d.get(keys...)
	if n == nil || n.Kind != yaml.ScalarNode {
		return inner, fmt.Errorf("there is no %s", strings.Join(keys, "."))
	}
	all, err := parse(d.at(n), n.Value)
	if err != nil {
		return inner, err
	}
	if len(all) == 0 {
		return document{file: d.file, Node: &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}, object: d.object}, nil
	}
	first := 0 // a text in one line is where it begins
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
