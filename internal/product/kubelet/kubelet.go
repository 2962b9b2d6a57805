// Package kubelet reads the configuration of a node's kubelet: the configuration file, its
// drop-ins, and the command line, which takes precedence.
package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/unit"
)

// Product is the kubelet. Its options have the names of KubeletConfiguration
// (kubelet.config.k8s.io/v1beta1).
var Product = product.Product{
	Name: "kubelet",
	Doc:  "the agent of Kubernetes on a node",
	Parameters: []product.Parameter{
		{Name: "maxPods", Type: fact.Number, Default: "110", Doc: "maximum pods of the node"},
		{Name: "podsPerCore", Type: fact.Number, Default: "0", Doc: "maximum pods per CPU; 0 means unlimited"},
		{Name: "cpuManagerPolicy", Type: fact.Text, Default: "none"},
		{Name: "cpuManagerReconcilePeriod", Type: fact.Text, Default: "10s"},
		{Name: "topologyManagerPolicy", Type: fact.Text, Default: "none"},
		{Name: "memoryManagerPolicy", Type: fact.Text, Default: "None"},
		{Name: "kubeAPIQPS", Type: fact.Number, Doc: "requests per second to the API server; default 50 since 1.27, 5 before; 0 means the client's own limit of 5"},
		{Name: "kubeAPIBurst", Type: fact.Number, Doc: "burst of requests to the API server; default 100 since 1.27, 10 before"},
		{Name: "podPidsLimit", Type: fact.Number, Default: "-1", Doc: "maximum processes of a pod; -1 means unlimited"},
		{Name: "containerLogMaxSize", Type: fact.Number, Unit: "bytes", Default: "10Mi", Read: readSize},
		{Name: "containerLogMaxFiles", Type: fact.Number, Default: "5"},
		{Name: "protectKernelDefaults", Type: fact.Truth, Default: "false"},
		{Name: "failSwapOn", Type: fact.Truth, Default: "true"},
		{Name: "cgroupDriver", Type: fact.Text, Default: "cgroupfs"},
		{Name: "serializeImagePulls", Type: fact.Truth, Default: "true"},
		{Name: "reservedSystemCPUs", Type: fact.Text},
		{Name: "systemReserved", Type: fact.Map, Read: readPairs, Doc: "CPU, memory and other resources that pods do not get"},
		{Name: "kubeReserved", Type: fact.Map, Read: readPairs},
		{Name: "evictionHard", Type: fact.Map, Read: readPairs},
	},
	Inputs: append([]fact.Input{
		{Name: "kubelet.version", Type: fact.Text, Doc: "version of the kubelet, such as 1.29.4"},
		{Name: "kubelet.installed", Type: fact.Truth, Doc: "whether the machine is a node with a kubelet"},
		{Name: "kubelet.config", Type: fact.Text, Doc: "the configuration file that the kubelet reads"},
		{Name: "kubelet.memory_faults", Type: fact.List, Doc: "resources whose reservedMemory differs from what the node reserves"},
	}, slices.Concat(releaseInputs, weightInputs)...),
	Find: find,
}

// installed is a machine's kubelet; a machine has only one.
type installed struct {
	host    *host.Host
	files   map[string]told // by option, from the configuration
	flags   map[string]told // by option, from unit files; in force if no kubelet runs
	running map[string]told // by option, from the process's command line
	config  told
	as      kuberelease.Release // that it is treated as; 0 for its own
	version fact.Answer
	own     fact.Answer // actual version of a reported kubelet, whatever release is judged
	// document is the merged configuration. reported is true if the kubelet itself reports it,
	// including defaults.
	document  document
	reported  bool
	openshift bool
	tree      func() *podTree // control groups of pods, read once
	// dropInGate is true if the unit sets dropInVariable. skipped lists the files in --config-dir
	// that the kubelet ignores.
	dropInGate bool
	skipped    []string
}

// dropInVariable must be set for kubelets up to 1.29 that use --config-dir.
const dropInVariable = "KUBELET_CONFIG_DROPIN_DIR_ALPHA"

// told is a value and its source.
type told struct{ value, at string }

// unreadError is returned if a kubelet is installed but a part of its setup is unreadable.
type unreadError struct{ err error }

func (e unreadError) Error() string { return e.err.Error() }

func find(ctx context.Context, h *host.Host) ([]product.Installed, error) { return findAs(ctx, h, 0) }

// findAs returns the machine's kubelet, judged for a release; 0 means its own.
func findAs(ctx context.Context, h *host.Host, as kuberelease.Release) ([]product.Installed, error) {
	i := &installed{host: h, as: as, tree: sync.OnceValue(func() *podTree { return readTree(h) }), flags: map[string]told{}, running: map[string]told{}}
	units, env, err := unitFiles(h)
	if err != nil {
		return nil, err
	}
	args, pid := process(h)
	_, standard := h.Files.Stat(standardConfig)
	openshift := kindOf(h, openshiftConfig)
	if len(units) == 0 && pid == "" && standard != nil && !openshift {
		return nil, nil
	}
	for _, f := range append(units, env...) {
		text, err := h.Files.ReadFile(f)
		if err != nil {
			continue
		}
		readFlags(string(text), f, i.flags)
		i.dropInGate = i.dropInGate || strings.Contains(string(text), dropInVariable)
	}
	if pid != "" {
		flagsOf(args, "the command line of process "+pid, i.running)
	}
	configs := []string{standardConfig}
	if openshift && standard != nil {
		configs = []string{openshiftConfig}
	}
	if c, ok := i.flag("config"); ok {
		configs = []string{c.value}
	}
	if d, ok := i.flag("config-dir"); ok {
		more, err := DropIns(h, d.value)
		if err != nil {
			return nil, unreadError{err}
		}
		configs = append(configs, more...)
		i.skipped = skippedBelow(h, d.value, 0)
	}
	i.config = told{configs[0], configs[0]}
	i.version, i.openshift = version(ctx, h), onOpenShift(h)
	if as != 0 {
		i.version = fact.Answer{Value: as.String(), At: "--for " + as.String()}
	}
	text, _ := i.version.Value.(string)
	release, known := kuberelease.Parse(text)
	loads := func(way string) bool { return !known || kuberelease.Known().Loads(way, release) }
	if i.document, err = loadAll(h, configs, loads(kuberelease.LoaderVersioned), loads(kuberelease.LoaderEviction)); err != nil {
		return nil, unreadError{err}
	}
	i.files = i.document.options()
	return []product.Installed{i}, nil
}

// Reported holds what a node reports about its kubelet.
type Reported struct {
	Config    []byte // KubeletConfiguration from the node's /configz, as JSON
	At        string // name of the source
	Version   string // "" if unreported
	OpenShift bool
	// As is the release for which the kubelet is judged; 0 means its own.
	As kuberelease.Release
}

// Of returns the kubelet of a node from its reported configuration.
func Of(r Reported) (product.Installed, error) {
	doc, err := readConfig(string(r.Config), r.At)
	if kind, ok := doc.members["kind"]; err == nil && ok && kind.value != "KubeletConfiguration" {
		err = fmt.Errorf("%s: kind is %q, want KubeletConfiguration", kind.at, kind.value)
	}
	if err != nil {
		return nil, err
	}
	i := &installed{files: map[string]told{}, flags: map[string]told{}, running: doc.options(), config: told{r.At, r.At}, document: doc, reported: true, openshift: r.OpenShift || kuberelease.KubeletOf(r.Version).OpenShift}
	for name := range i.running {
		i.running[name] = told{i.running[name].value, r.At} // the JSON has only one line
	}
	i.version = fact.Answer{Value: r.Version, At: r.At}
	if r.Version == "" {
		i.version = fact.Answer{Unknown: "the node does not report the version of its kubelet"}
	}
	i.own = i.version
	if r.As != 0 {
		i.version = fact.Answer{Value: r.As.String(), At: "--for " + r.As.String()}
	}
	return i, nil
}

// flag returns a flag of the process, or else of the unit's files; ok is false if neither has it.
func (i *installed) flag(name string) (told, bool) {
	if t, ok := i.running["--"+name]; ok {
		return t, true
	}
	t, ok := i.flags["--"+name]
	return t, ok
}

// Name implements product.Installed.
func (*installed) Name() string { return "" }

// Option implements product.Installed: a flag takes precedence over the files.
func (i *installed) Option(name string) product.Option {
	o := product.Option{File: fact.Absent[string](i.config.at), Running: fact.Absent[string](i.config.at)}
	for _, from := range []map[string]told{i.files, i.flags} {
		t, ok := from[name]
		switch {
		case ok && notNegative[name] && strings.HasPrefix(t.value, "-"):
			o.File = fact.Unknown[string](t.at, fmt.Sprintf("%s of %s must not be negative, or the kubelet does not start", name, t.value))
		case ok:
			o.File = fact.Known(t.value, t.at)
		}
	}
	if t, ok := i.running[name]; ok {
		o.Running = fact.Known(t.value, t.at)
	}
	return o
}

// notNegative are the options for which the kubelet rejects negative values and does not start
// (kubelet 1.34, pkg/kubelet/apis/config/validation/validation.go).
var notNegative = map[string]bool{"maxPods": true, "podsPerCore": true, "kubeAPIQPS": true, "kubeAPIBurst": true}

// Answer implements product.Installed.
func (i *installed) Answer(input string) fact.Answer {
	switch input {
	case "version":
		return i.version
	case "installed":
		return fact.Answer{Value: true, At: i.config.at}
	case "config":
		return fact.Answer{Value: i.config.value, At: i.config.at}
	}
	if input == "memory_faults" {
		return i.memoryFaults()
	}
	if a, ok := i.weightAnswer(input); ok {
		return a
	}
	a, _ := i.byRelease(input)
	return a
}

// readSize parses a Kubernetes quantity to bytes. Unlike a size of fettle, 50M is 50,000,000.
func readSize(text string) (any, error) { return unit.ParseQuantity(strings.TrimSpace(text)) }

// readPairs parses "cpu=500m,memory=1Gi", or with "<" for thresholds, to a map.
func readPairs(text string) (any, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		at := strings.IndexAny(part, "=<")
		if at < 1 {
			return nil, fmt.Errorf("%q: want NAME=VALUE", part)
		}
		out[strings.TrimSpace(part[:at])] = strings.TrimSpace(part[at+1:])
	}
	return out, nil
}
