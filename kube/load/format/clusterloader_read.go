package format

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/strict"
)

// Defaults of a file.
const (
	clusterloaderDefaultWait = 5 * time.Minute
	defaultTimeout           = 10 * time.Minute // of a step and of a synchronization
	defaultPort              = 9090
)

// Files provides the files and variables that a load names.
type Files struct {
	// Read returns the content of a file, by its absolute or relative path.
	Read func(name string) ([]byte, error)
	// Env returns environment variables, for parameters without a value.
	Env func(name string) (string, bool)
}

// Here is this process's files and environment.
var Here = Files{Read: readHere, Env: os.LookupEnv}

// readHere reads a file of at most strict.MaxFile bytes.
func readHere(name string) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case st.Mode()&fs.ModeNamedPipe != 0: // for example from a shell's <(COMMAND)
		return readPipe(name)
	case st.IsDir():
		return nil, fmt.Errorf("%s is a directory; want a regular file", name)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a file nor a pipe", name)
	case st.Size() > strict.MaxFile:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, strict.MaxFile>>20)
	}
	return os.ReadFile(name)
}

// readPipe reads at most strict.MaxFile bytes of a pipe. A pipe without a writer counts as empty.
func readPipe(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, strict.MaxFile+1))
	if err == nil && len(text) > strict.MaxFile {
		err = fmt.Errorf("%s is larger than %d MiB", name, strict.MaxFile>>20)
	}
	return text, err
}

// ClusterLoaderOwn reports whether a document is a Cluster Loader file.
func ClusterLoaderOwn(doc *yaml.Node) bool {
	return strict.Get(doc, "ClusterLoader") != nil || strict.Get(doc, "projects") != nil
}

//go:embed builtin
var builtin embed.FS

// BuiltIn returns the default load: five applications with two deployments each, using kinds that
// every cluster has.
func BuiltIn() (*plan.Load, error) {
	const name = "default.yaml"
	read := func(name string) ([]byte, error) { return fs.ReadFile(builtin, filepath.Join("builtin", name)) }
	text, err := read(name)
	if err != nil {
		return nil, err
	}
	l, err := ReadClusterLoader(name, text, Files{Read: read, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		return nil, err
	}
	l.File, l.Format = "", "built-in"
	return l, nil
}

// reading reads a file of OpenShift's Cluster Loader (OpenShift 4.4 Scalability and Performance,
// chapter 5), with fettle's extension of the format. It follows the documentation, without the
// errors of the original code, which load's manual page lists.
type reading struct {
	strict.Reader
	Files
	load  *plan.Load
	tuned map[string]*tuningSet
	bases map[string]string // position of each base name
}

// ReadClusterLoader reads a file. The error lists all errors in it and in the files that it names,
// with file and line.
func ReadClusterLoader(name string, text []byte, from Files) (*plan.Load, error) {
	r := &reading{Reader: strict.Reader{File: name}, Files: from, tuned: map[string]*tuningSet{}, bases: map[string]string{}}
	docs := r.Documents(text)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, fmt.Errorf("%s: want one document with ClusterLoader, found %d", name, len(docs))
	}
	var f file
	if doc := docs[0]; strict.Get(doc, "ClusterLoader") == nil && strict.Get(doc, "projects") != nil {
		var b bare
		r.Into(doc, &b)
		f.ClusterLoader = &clusterloaderConfig{At: r.At(doc), Cleanup: b.Cleanup, Projects: b.Projects, TuningSets: b.TuningSets, Quotas: b.Quotas}
	} else {
		r.Into(doc, &f)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if f.ClusterLoader == nil {
		return nil, fmt.Errorf("%s has no top-level key ClusterLoader", name)
	}
	if n := f.ClusterLoader.InFlight; n > plan.MostInFlight {
		r.FaultAt(f.ClusterLoader.At, "inflight: want 1 to %d, found %d", plan.MostInFlight, n)
	}
	r.whole(f.ClusterLoader)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.load, nil
}

func (r *reading) note(at, format string, args ...any) {
	r.load.Notes = append(r.load.Notes, at+": "+text.Sprintf(format, args...))
}

func (r *reading) whole(c *clusterloaderConfig) {
	r.load = &plan.Load{
		Schema: plan.Schema, File: r.File, Format: "cluster-loader",
		Cleanup: c.Cleanup, InFlight: c.InFlight, Seed: uint64(c.Seed), Wait: clusterloaderDefaultWait,
	}
	r.load.Sync = r.sync(c.Sync)
	if c.Wait != nil {
		r.load.Wait = *c.Wait
	}
	if c.Rate != "" {
		var err error
		if r.load.Rate, err = engine.ParseSchedule(c.Rate); err != nil {
			r.FaultAt(c.At, "rate: %w", err)
		}
	}
	for _, n := range c.SLO {
		if n.Kind != yaml.ScalarNode {
			r.Fault(n, "slo: want a threshold such as ready p99 < 5s, found %s", strict.Found(n))
			continue
		}
		r.load.Gates = append(r.load.Gates, plan.Gate{At: r.At(n), Text: n.Value})
	}
	if c.Quotas != nil {
		r.legacy(c.Quotas, "quotas")
	}
	for i := range c.TuningSets {
		t := &c.TuningSets[i]
		switch old := r.tuned[t.Name]; {
		case t.Name == "":
			r.FaultAt(t.At, "a tuning set has no name")
		case old != nil:
			r.FaultAt(t.At, "tuning set %q is already defined at %s", t.Name, old.At)
		default:
			r.tuned[t.Name] = t
		}
	}
	if len(c.Projects) == 0 {
		r.FaultAt(c.At, "ClusterLoader has no projects")
	}
	for i := range c.Projects {
		r.project(&c.Projects[i], c.IfExists)
	}
}

// legacy notes a field of the older loader that the newer one ignores.
func (r *reading) legacy(n *yaml.Node, name string) {
	r.note(r.At(n), "%s ignored (used only by the earlier loader)", name)
}

// none notes a count of 0, which may be the default.
func (r *reading) none(at string, num int, of string) {
	if num == 0 {
		r.note(at, "%s: num is 0 or missing; nothing created", of)
	}
}

func (r *reading) project(p *project, ifExists string) {
	s := plan.Stage{
		At: p.At, Name: p.BaseName, Prefix: p.BaseName, Iterations: p.Num, PerNamespace: 1,
		IfExists: p.IfExists, Labels: p.Labels.Map(),
	}
	if s.IfExists == "" {
		s.IfExists = ifExists
	}
	if s.IfExists == "" {
		s.IfExists = plan.Fail
	}
	if p.NodeSelector != "" {
		s.Annotations = map[string]string{"openshift.io/node-selector": p.NodeSelector}
	}
	switch old := r.bases[p.BaseName]; {
	case p.BaseName == "":
		r.FaultAt(p.At, "a project has no basename")
	case old != "":
		r.FaultAt(p.At, "basename %q is already used by the project at %s", p.BaseName, old)
	case len(p.BaseName) > maxBase:
		r.FaultAt(p.At, "basename: %q has %d characters, at most %d allowed, because a number is appended", p.BaseName, len(p.BaseName), maxBase)
	case !validBase(p.BaseName):
		r.FaultAt(p.At, "basename: %q cannot begin a namespace name; want lower-case letters, digits and -", p.BaseName)
	}
	r.bases[p.BaseName] = p.At
	var t tuningSet
	if p.Tuning != "" {
		if found := r.tuned[p.Tuning]; found != nil {
			t = *found
		} else {
			r.FaultAt(p.At, "unknown tuning set %q%s", p.Tuning, text.Suggest(p.Tuning, slices.Collect(maps.Keys(r.tuned))))
		}
	}
	r.none(p.At, p.Num, "projects")
	r.contents(&s, p.ConfigMaps, "ConfigMap", "data")
	r.contents(&s, p.Secrets, "Secret", "data")
	for i := range p.Templates {
		r.none(p.Templates[i].At, p.Templates[i].Num, "templates")
		r.template(&s, &p.Templates[i], r.pace(t.Templates))
	}
	r.pods(&s, p.Pods, r.pace(t.Pods))
	for i := range p.Objects {
		r.none(p.Objects[i].At, p.Objects[i].Num, "objects")
		r.object(&s, &p.Objects[i], r.pace(t.Templates))
	}
	r.load.Stages = append(r.load.Stages, s)
}

// maxBase is the maximum length of a base name. A name in RFC 1123 has at most 63 letters, and five
// are reserved for a number.
const maxBase = 58

// validBase reports whether base followed by a number is a valid name in RFC 1123.
func validBase(base string) bool { return len(validation.IsDNS1123Label(base+"0")) == 0 }

func (r *reading) pace(p *pace) *plan.Pace {
	if p == nil {
		return nil
	}
	out := &plan.Pace{}
	if s := p.Stepping; s != nil {
		out.Step, out.Pause, out.Timeout = s.StepSize, s.Pause, s.Timeout
		if s.StepSize == 0 && (s.Pause > 0 || s.Timeout > 0) {
			r.FaultAt(s.At, "stepping has no stepsize")
		}
		if out.Timeout == 0 {
			out.Timeout = defaultTimeout
		}
	}
	if p.RateLimit != nil {
		out.Delay = p.RateLimit.Delay
	}
	return out
}

func (r *reading) sync(s *sync) *plan.SyncPoint {
	if s == nil {
		return nil
	}
	out := &plan.SyncPoint{At: s.At, Running: s.Running, Succeeded: s.Succeeded, Selectors: s.Selectors.Map(), Timeout: s.Timeout}
	if out.Timeout == 0 {
		out.Timeout = defaultTimeout
	}
	if s.Server != nil && s.Server.Port > 65535 {
		r.FaultAt(s.At, "sync.server.port: want 1 to 65535, or 0 for %s, found %s", fmt.Sprint(defaultPort), fmt.Sprint(s.Server.Port))
	}
	if s.Server != nil && s.Server.Enabled {
		out.Server, out.Address, out.Port = true, s.Server.Address, s.Server.Port
		if out.Port == 0 {
			out.Port = defaultPort
		}
		if out.Address != "" {
			if _, err := netip.ParseAddr(out.Address); err != nil {
				r.FaultAt(s.At, "sync.server.address: want an IP address, found %q", out.Address)
			}
		}
	}
	if !out.Server && !out.Running && !out.Succeeded {
		if len(out.Selectors) > 0 {
			r.note(s.At, "sync waits for nothing; give selectors, and running: true or succeeded: true")
		}
		return nil
	}
	if whole := r.load.Sync; whole != nil && whole.Server && out.Server && whole.Port == out.Port {
		r.FaultAt(s.At, "sync.server.port: %s is also used by the sync at %s; use another port", fmt.Sprint(out.Port), whole.At)
	}
	return out
}
