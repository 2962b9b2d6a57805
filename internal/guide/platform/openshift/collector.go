package openshift

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// collector collects the answers from all documents.
type collector struct {
	known      platform.Known
	networks   map[string]networks // by the kind of document
	devices    []device
	census     census
	profiles   profiles
	performs   []string // PerformanceProfiles
	performsAt string
	huge       hugepages
	sized      sized
	// machines of install-config.yaml
	workers, controlPlane fact.Answer
	limits                float64 // number of KubeletConfigs with maxPods
	kubelets              []kubeletConfig
}

func newCollector() *collector {
	return &collector{networks: map[string]networks{}, census: newCensus(), profiles: newProfiles()}
}

func (t *collector) give(input string, value any, at string) {
	t.known.Give("openshift."+input, value, at)
}

func (t *collector) unclear(input, at string, why error) {
	t.known.Unclear("openshift."+input, at, fmt.Sprintf("%s: %v", at, why))
}

// answer sets the answer to an input, unless it is absent.
func (t *collector) answer(input string, a fact.Answer) {
	if a.Value != nil || a.Unknown != "" {
		t.known.Put(a, "openshift."+input)
	}
}

// given returns the current answer to an input.
func (t *collector) given(input string) fact.Answer {
	a, _ := t.known.Given("openshift." + input)
	return a
}

// readers are the functions that read a kind of document. interfaceOf makes it an item of the set of
// documents.
var readers = map[string][]func(*collector, document){
	"InstallConfig":      {(*collector).interfaceOf, (*collector).installConfig, (*collector).devicesOf},
	"Network":            {(*collector).interfaceOf, (*collector).devicesOf, (*collector).network},
	"KubeletConfig":      {(*collector).interfaceOf, (*collector).kubelet},
	"MachineHealthCheck": {(*collector).interfaceOf, (*collector).healthCheck},
	"Tuned":              {(*collector).interfaceOf, (*collector).tuned},
	"PerformanceProfile": {(*collector).performanceProfile},
	"MachineConfig":      {(*collector).interfaceOf, (*collector).machineConfig},
	"ClusterVersion":     {(*collector).version},
	"FeatureGate":        {(*collector).interfaceOf, (*collector).featureGate},
	"Node":               {(*collector).node},
	"Monitoring":         {(*collector).interfaceOf, (*collector).monitoring},
}

// take reads a document.
func (t *collector) take(d document) {
	kind := d.kind()
	for _, read := range readers[kind] {
		read(t, d)
	}
	switch {
	case readers[kind] != nil:
	case kind == "ClusterConfig":
		if inner, err := d.within("data", "install-config"); err == nil {
			t.installConfig(inner)
		}
	case kind == "Pod":
		if d.asksForHugePages() {
			t.interfaceOf(d)
			t.pod(d)
		}
		if d.whole {
			t.census.count(kind, d)
		}
	default:
		t.census.count(kind, d)
	}
}

// finish answers the inputs that need all documents.
func (t *collector) finish() {
	t.finishKubelets()
	t.finishCensus()
	t.finishMonitoring()
	t.finishNetworks()
	t.finishMTU()
	t.finishProfiles()
	t.finishHugePages()
	t.give("kubelet_configs", t.limits, "")
	t.known.Sort()
}

// interfaceOf gives a document's kind, apiVersion and namespace. install-config.yaml has no kind.
func (t *collector) interfaceOf(d document) {
	item := t.item(all, d)
	t.give(item+".kind", cmp.Or(d.text("kind"), "InstallConfig"), d.at(d.get("kind")))
	t.give(item+".api", d.text("apiVersion"), d.at(d.get("apiVersion")))
	t.words(d, item+".namespace", "metadata", "namespace")
}

// item adds a document to a set, by its file and name.
func (t *collector) item(set string, d document) string {
	name := d.text("metadata", "name")
	if name == "" {
		name = "line " + strconv.Itoa(d.Line)
	}
	name = strings.TrimPrefix(d.file, "/") + " " + name
	for taken, n := name, 2; t.known.Has(set, name); n++ {
		name = fmt.Sprintf("%s (%d)", taken, n)
	}
	t.known.Add(set, name)
	return strings.TrimPrefix(set, "openshift.") + "." + name
}

// words gives an input the scalar at a path of keys, if present.
func (t *collector) words(d document, input string, keys ...string) {
	switch n := d.get(keys...); {
	case n == nil:
	case n.Kind != yaml.ScalarNode:
		t.unclear(input, d.at(n), fmt.Errorf("%s is not a scalar", strings.Join(keys, ".")))
	default:
		t.give(input, n.Value, d.at(n))
	}
}

// number answers an input with the number at a path of keys, if present. A quoted number is a
// string, which the cluster rejects.
func (t *collector) number(d document, input string, keys ...string) {
	n := d.get(keys...)
	if n == nil {
		return
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.unclear(input, d.at(n), fmt.Errorf("%s is not a number", strings.Join(keys, ".")))
		return
	}
	t.give(input, v, d.at(n))
}

// notText returns the error about an unquoted scalar where the API server requires a string.
func notText(n *yaml.Node) error {
	return fmt.Errorf("%s without quotes is not a string; the API server requires %q", n.Value, n.Value)
}

// duration answers an input with the duration at a path of keys, if present. It must be a string,
// even for 0.
func (t *collector) duration(d document, input string, keys ...string) {
	if n := d.get(keys...); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!str" && n.Value == "0" {
		t.unclear(input, d.at(n), fmt.Errorf("%s: %w", strings.Join(keys, "."), notText(n)))
		return
	}
	t.measure(d, input, goDuration, keys...)
}

// measure gives an input the amount or time at a path of keys, if present.
func (t *collector) measure(d document, input string, read func(string) (float64, error), keys ...string) {
	n := d.get(keys...)
	if n == nil {
		return
	}
	v, err := read(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		t.unclear(input, d.at(n), fmt.Errorf("%s: %w", strings.Join(keys, "."), err))
		return
	}
	t.give(input, v, d.at(n))
}
