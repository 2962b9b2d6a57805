package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
)

// document is a KubeletConfiguration or a map in one; its members keep the order of the files.
type document struct {
	names   []string
	members map[string]value
}

// value is a member of a document: a scalar or a list as text, a map, or null.
type value struct {
	told
	null   bool
	opaque bool      // a list of maps or an empty list, which flags cannot express; for reservedMemory the text has its sums
	items  int       // number of items of an opaque list
	fields *document // members of a map, otherwise nil
}

func (d *document) set(name string, v value) {
	if d.members == nil {
		d.members = map[string]value{}
	}
	if _, ok := d.members[name]; !ok {
		d.names = append(d.names, name)
	}
	d.members[name] = v
}

func (d *document) remove(name string) {
	delete(d.members, name)
	d.names = slices.DeleteFunc(d.names, func(n string) bool { return n == name })
}

// patch merges a drop-in into the document like a JSON merge patch (RFC 7396; kubelet 1.28 to 1.37,
// cmd/kubelet/app/server.go, mergeKubeletConfigurations): null removes a member, a map is merged
// member by member, any other value replaces the old one.
func (d *document) patch(by document) {
	for _, name := range by.names {
		v, old := by.members[name], d.members[name]
		switch {
		case v.null:
			d.remove(name)
		case v.fields == nil:
			d.set(name, v)
		default:
			merged := value{told: told{at: v.at}, fields: &document{}}
			if old.fields != nil {
				merged.fields = old.fields
				if len(v.fields.names) == 0 {
					merged.at = old.at // the drop-in sets none of its members
				}
			}
			merged.fields.patch(*v.fields)
			d.set(name, merged)
		}
	}
}

// setDefaults removes values that the kubelet replaces with defaults: null, and 0 for options whose
// zero means unset. An explicit kubeAPIQPS of 0 stays. Source: kubelet 1.34 and 1.37,
// pkg/kubelet/apis/config/v1beta1/defaults.go, SetDefaults_KubeletConfiguration.
func (d *document) setDefaults() {
	for _, name := range slices.Clone(d.names) {
		unset, ok := replacedByDefault[name]
		if v := d.members[name]; v.null || ok && v.fields == nil && !v.opaque && unset(v.value) {
			d.remove(name)
		}
	}
	// serializeImagePulls defaults to false if images are pulled in parallel.
	if _, ok := d.members["serializeImagePulls"]; ok {
		return
	}
	serial := told{"true", "the kubelet's default"}
	if v, ok := d.members["maxParallelImagePulls"]; ok {
		if n, err := strconv.Atoi(v.value); err == nil && n > 1 {
			serial = told{"false", v.at}
		}
	}
	d.set("serializeImagePulls", value{told: serial})
}

// replacedByDefault maps each option to a test whether its default replaces a value.
var replacedByDefault = map[string]func(text string) bool{
	"maxPods": isZero, "kubeAPIBurst": isZero,
	"cpuManagerPolicy": isEmpty, "memoryManagerPolicy": isEmpty, "topologyManagerPolicy": isEmpty, "topologyManagerScope": isEmpty,
	"containerLogMaxSize": isEmpty, "cgroupDriver": isEmpty, "cpuManagerReconcilePeriod": isZeroTime,
	"podPidsLimit": func(text string) bool { n, err := strconv.ParseInt(text, 10, 64); return err == nil && n < 0 },
}

func isZero(text string) bool  { return text == "0" }
func isEmpty(text string) bool { return text == "" }
func isZeroTime(text string) bool {
	d, err := time.ParseDuration(text)
	return err == nil && d == 0
}

// options returns the members in the form of flags, each with its position. It omits empty values
// and those that flags cannot express.
func (d document) options() map[string]told {
	out := map[string]told{}
	for _, name := range d.names {
		v := d.members[name]
		if v.fields != nil {
			v.value = v.fields.flat()
			v.opaque = v.value == ""
		}
		if !v.opaque && !v.null {
			out[name] = v.told
		}
	}
	return out
}

// plain returns the document as decoded JSON, with scalars and lists as text.
func (d document) plain() map[string]any {
	out := map[string]any{}
	for _, name := range d.names {
		switch v := d.members[name]; {
		case v.null:
		case v.fields != nil:
			out[name] = v.fields.plain()
		case v.opaque:
			out[name] = make([]any, v.items)
		default:
			out[name] = v.value
		}
	}
	return out
}

// flat returns a map as "a=b,c=d", or "" if a flag could not express it.
func (d document) flat() string {
	var parts []string
	for _, name := range d.names {
		v := d.members[name]
		if v.fields != nil || v.opaque {
			return ""
		}
		parts = append(parts, name+"="+v.value)
	}
	return strings.Join(parts, ",")
}

// loadAll merges a kubelet's files, the main one first. With versioned (1.32 and later) each
// drop-in patches the files' configuration, and defaults are added last. Without it, drop-ins patch
// each other, and the result is merged into the main file's configuration including defaults. There
// null removes only values of earlier drop-ins, and an explicit zero stays. fills is true if the
// release applies mergeDefaultEvictionSettings. Source: kubelet 1.29.14 and 1.31.14,
// cmd/kubelet/app/server.go, mergeKubeletConfigurations; tested by TestConfigMerge of
// test/admission.
func loadAll(h *host.Host, configs []string, versioned, fills bool) (document, error) {
	var merged, over document
	for n, name := range configs {
		text, err := h.Files.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && n == 0 && name == standardConfig:
			continue // "" means that all options are on the command line
		case err != nil:
			return document{}, err
		}
		doc, err := readConfig(string(text), name)
		if err == nil {
			err = doc.loads(name, versioned || n == 0)
		}
		if err == nil && n == 0 {
			err = doc.nullTimes()
		}
		switch {
		case err != nil:
			return document{}, err
		case n == 0:
			doc.setDefaults() // the main file gets its defaults before the drop-ins
			if fills {
				doc.fillEviction()
			}
			merged = doc
		case versioned:
			merged.patch(doc)
		default:
			over.patch(doc)
		}
	}
	if !versioned {
		merged.setDefaults() // without a main file
		for _, name := range namesInMemory {
			over.remove(name)
		}
		merged.patch(over)
		return merged, nil
	}
	merged.setDefaults()
	return merged, nil
}

// namesInMemory are members that kubelets before 1.32 ignore in drop-ins, because their name in
// memory differs from that in the file. Source: k8s.io/kubernetes v1.29.14 and v1.31.14,
// pkg/kubelet/apis/config/types.go.
var namesInMemory = []string{"resolvConf"}

// readConfig parses a KubeletConfiguration in YAML or JSON. An empty file has no members.
func readConfig(text, name string) (document, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return document{}, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return document{}, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return document{}, fmt.Errorf("%s:%d: want a map with keys of a KubeletConfiguration", name, root.Line)
	}
	left := conf.MaxYAMLSteps
	out, err := readMap(root, name, &left, 0)
	if err != nil {
		return document{}, err
	}
	return *out, nil
}

// loads returns an error for a file with which the kubelet does not start: each file, including
// drop-ins, must have a version and kind. kinds is false for older releases, to which namesKind
// applies. Source: kubelet 1.34.4, pkg/kubelet/kubeletconfig/configfiles; tested by TestConfigKinds
// of test/admission.
func (d document) loads(name string, kinds bool) error {
	if !kinds {
		return d.namesKind(name)
	}
	for _, want := range []struct{ member, value string }{{"apiVersion", "kubelet.config.k8s.io/v1beta1"}, {"kind", "KubeletConfiguration"}} {
		if v, ok := d.members[want.member]; !ok || v.value != want.value {
			return fmt.Errorf("%s: the kubelet does not start with this file; add %s: %s", cmp.Or(v.at, name), want.member, want.value)
		}
	}
	return nil
}

// times are the duration fields that must not be null in the main file; in a drop-in null removes
// them. Source: k8s.io/kubelet v0.29.14 to v0.37.2, config/v1beta1/types.go: the fields of type
// metav1.Duration that are not pointers.
var times = []string{
	"syncFrequency", "fileCheckFrequency", "httpCheckFrequency", "streamingConnectionIdleTimeout", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency",
	"imageMinimumGCAge", "imageMaximumGCAge", "volumeStatsAggPeriod", "cpuManagerReconcilePeriod", "runtimeRequestTimeout", "evictionPressureTransitionPeriod",
	"shutdownGracePeriod", "shutdownGracePeriodCriticalPods",
}

// nullTimes returns an error for a null duration, with which the kubelet does not start.
func (d document) nullTimes() error {
	for _, name := range times {
		if v, ok := d.members[name]; ok && v.null {
			return fmt.Errorf("%s: %s is null; want a time, or the kubelet does not start", v.at, name)
		}
	}
	return nil
}

// namesKind returns an error for a drop-in that kubelets before 1.32 reject.
func (d document) namesKind(name string) error {
	if v, ok := d.members["kind"]; !ok || v.value == "" {
		return fmt.Errorf("%s: the kubelet does not start with this file; add apiVersion and kind", cmp.Or(v.at, name))
	}
	return nil
}

func readMap(n *yaml.Node, name string, left *int, depth int) (*document, error) {
	all, err := conf.Pairs(n, left)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case depth > maxDepth:
		return nil, fmt.Errorf("%s:%d: maps are nested more than %d deep", name, n.Line, maxDepth)
	}
	out := &document{}
	for _, p := range all {
		v, err := readValue(conf.Aliased(p.Value), name, left, depth)
		if err != nil {
			return nil, err
		}
		v.at = name + ":" + strconv.Itoa(p.Key.Line)
		if depth == 0 {
			if is := otherType(fieldTypes[p.Key.Value], conf.Aliased(p.Value)); is != "" {
				return nil, fmt.Errorf("%s: %s is %s; want %s, or the kubelet does not start", v.at, p.Key.Value, is, fieldTypes[p.Key.Value])
			}
		}
		out.set(p.Key.Value, v)
	}
	return out, nil
}

// Types of fields in a KubeletConfiguration, and of values in its maps.
const (
	aNumber  = "a number"
	aBoolean = "true or false"
	aText    = "a text (in quotes)"
)

// fieldTypes maps fields to their types (k8s.io/kubelet 0.34, config/v1beta1). The kubelet converts
// no types: it does not start with the number in systemReserved: {cpu: 1}.
var fieldTypes = map[string]string{
	"maxPods": aNumber, "podsPerCore": aNumber, "kubeAPIQPS": aNumber, "kubeAPIBurst": aNumber, "podPidsLimit": aNumber, "containerLogMaxFiles": aNumber,
	"protectKernelDefaults": aBoolean, "failSwapOn": aBoolean, "serializeImagePulls": aBoolean,
	"cpuManagerPolicy": aText, "topologyManagerPolicy": aText, "topologyManagerScope": aText, "memoryManagerPolicy": aText,
	"cpuManagerReconcilePeriod": aText, "containerLogMaxSize": aText, "cgroupDriver": aText, "reservedSystemCPUs": aText,
	"systemReserved": aText, "kubeReserved": aText, "evictionHard": aText, "cpuManagerPolicyOptions": aText, "topologyManagerPolicyOptions": aText,
}

// otherType returns the type of a node, or of a value in its map, if the kubelet certainly rejects
// it; otherwise "".
func otherType(want string, n *yaml.Node) string {
	if want == "" {
		return ""
	}
	if n.Kind == yaml.MappingNode {
		for i := 1; i < len(n.Content); i += 2 {
			if v := conf.Aliased(n.Content[i]); v.Kind == yaml.ScalarNode {
				if is := otherType(want, v); is != "" {
					return is
				}
			}
		}
		return ""
	}
	is := ""
	switch text := scalar(n); {
	case n.Kind != yaml.ScalarNode:
		return ""
	case n.Tag == "!!int" || n.Tag == "!!float":
		is = aNumber
	case n.Tag == "!!bool" || n.Style == 0 && (text == "true" || text == "false"):
		is = aBoolean
	case n.Tag == "!!str" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		is = aText
	}
	if is == want {
		return ""
	}
	return is
}

func readValue(n *yaml.Node, name string, left *int, depth int) (v value, err error) {
	switch n.Kind {
	case yaml.ScalarNode:
		v.value, v.null = scalar(n), n.Tag == "!!null"
	case yaml.MappingNode:
		v.fields, err = readMap(n, name, left, depth+1)
	case yaml.SequenceNode:
		var parts []string
		for _, c := range n.Content {
			if c = conf.Aliased(c); c.Kind != yaml.ScalarNode {
				return value{told: told{value: sumOfReservations(n, left)}, opaque: true, items: len(n.Content)}, nil
			}
			parts = append(parts, scalar(c))
		}
		v.value, v.opaque = strings.Join(parts, ","), len(parts) == 0
	}
	return v, err
}

// scalar returns a scalar's text as in JSON. The kubelet reads YAML 1.1: 0x6e is 110, and an
// unquoted yes is true.
func scalar(n *yaml.Node) string {
	var number int64
	switch {
	case n.Tag == "!!null":
		return ""
	case n.Tag == "!!int" && n.Decode(&number) == nil:
		return strconv.FormatInt(number, 10)
	case n.Tag == "!!bool":
		return strings.ToLower(n.Value)
	case n.Style == 0:
		switch strings.ToLower(n.Value) {
		case "yes", "on":
			return "true"
		case "no", "off":
			return "false"
		}
	}
	return n.Value
}
