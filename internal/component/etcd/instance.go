package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/component/conf"
	"fettle.dev/fettle/internal/component/unit"
	"fettle.dev/fettle/internal/host"
)

// told is a value and where it stands.
type told struct{ text, at string }

// instance is one member as the files of a machine set it up.
type instance struct {
	conf.Instance
	unit  *unit.Unit      // nil of a static pod
	flags map[string]told // of the command line: they go before variables
	env   map[string]told // ETCD_ variables, by option
	file  map[string]told // of the configuration file: with one, nothing else counts
	// files are those of variables, in order, or the configuration file.
	files []string
	// unread is why something may be set all the same.
	unread string
}

// pod is true for the static pod of a cluster's node.
func (in *instance) pod() bool { return in.unit == nil }

// option is what the files say of an option.
func (in *instance) option(name string) (t told, ok bool, unknown string) {
	if in.file != nil {
		t, ok = in.file[name]
		return t, ok, in.unread
	}
	if t, ok = in.flags[name]; ok {
		return t, true, ""
	}
	t, ok = in.env[name]
	if ok {
		return t, true, ""
	}
	return t, false, in.unread
}

// manifests are the static pods of kubeadm and of OpenShift, which had another
// name before 4.4.
var manifests = []string{"/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/manifests/etcd-pod.yaml", "/etc/kubernetes/manifests/etcd-member.yaml"}

// instances are the unit's, and those of static pods.
func instances(h *host.Host) ([]*instance, error) {
	var out []*instance
	switch u, err := unit.New(h).Load("etcd.service"); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrNotRecorded):
	case err != nil:
		return nil, err
	case u.Masked:
	default:
		in, err := fromUnit(h, u)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	for _, m := range manifests {
		text, err := h.Files.ReadFile(m)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrNotRecorded) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in, err := fromManifest(m, string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// fromUnit reads the unit, its variables, and the configuration file that these
// name.
func fromUnit(h *host.Host, u *unit.Unit) (*instance, error) {
	in := &instance{Instance: conf.Instance{Name: "etcd"}, unit: u, env: map[string]told{}}
	all, unread := u.Environment()
	if unread != "" {
		in.unread = unread + " is not in this copy, or cannot be read"
	}
	argv, at := u.Command()
	in.flags = readFlags(argv, at)
	for name, v := range all {
		if strings.HasPrefix(name, "ETCD_") {
			in.env[option(name)] = told{v.Text, v.At}
			continue
		}
		for flag, t := range in.flags { // of a variable with arguments
			if t.at == at && strings.Contains(v.Text, "-"+flag) {
				in.flags[flag] = told{t.text, v.At}
			}
		}
	}
	for _, v := range u.All("Service", "EnvironmentFile") {
		name := strings.TrimPrefix(v.Text, "-")
		if name == "/etc/default/%p" { // Debian's
			name = "/etc/default/etcd"
		}
		if _, err := h.Files.Stat(name); err == nil && !slices.Contains(in.files, name) {
			in.files = append(in.files, path.Clean(name))
		}
	}
	config, ok, _ := in.option("config-file")
	if !ok {
		if n := len(in.files); n > 0 {
			in.Main = in.files[n-1]
		}
		return in, nil
	}
	in.Main, in.files, in.file = config.text, []string{config.text}, map[string]told{}
	text, err := h.Files.ReadFile(config.text)
	if err != nil {
		in.unread = fmt.Sprintf("%s: %v", config.text, err)
		return in, nil
	}
	if in.file, err = readFile(config.text, string(text)); err != nil {
		return nil, err
	}
	return in, nil
}

// readFile reads the scalars of a configuration file.
func readFile(name, text string) (map[string]told, error) {
	out := map[string]told{}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(root.Content) == 0 {
		return out, nil
	}
	m := root.Content[0]
	if m.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want keys and values", name, m.Line)
	}
	left := conf.MaxYAMLSteps
	all, err := conf.Pairs(m, &left)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, p := range all {
		if v := conf.Aliased(p.Value); v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
			out[p.Key.Value] = told{v.Value, fmt.Sprintf("%s:%d", name, p.Value.Line)}
		}
	}
	return out, nil
}

// switches are the flags of etcd 3.4 to 3.7 that need no value: after one of them the next
// word is a flag of its own. Source: go.etcd.io/etcd/server v3.5.35, v3.6.12 and v3.7.3,
// embed/config.go and etcdmain/config.go; debug is of 3.4.
var switches = []string{
	"auto-tls", "client-cert-auth", "debug", "discovery-insecure-skip-tls-verify", "discovery-insecure-transport",
	"enable-distributed-tracing", "enable-grpc-gateway", "enable-log-rotation", "enable-pprof", "enable-v2",
	"experimental-compact-hash-check-enabled", "experimental-enable-distributed-tracing",
	"experimental-enable-lease-checkpoint", "experimental-enable-lease-checkpoint-persist",
	"experimental-initial-corrupt-check", "experimental-memory-mlock", "experimental-peer-skip-client-san-verification",
	"experimental-stop-grpc-service-on-defrag", "experimental-txn-mode-write-with-shared-buffer", "force-new-cluster",
	"initial-election-tick-advance", "memory-mlock", "peer-auto-tls", "peer-client-cert-auth",
	"peer-skip-client-san-verification", "pre-vote", "socket-reuse-address", "socket-reuse-port", "strict-reconfig-check",
	"unsafe-no-fsync", "version",
}

// readFlags reads a command line as Go's flags do: "-" and "--" are the same, a
// value stands behind "=" or in the next word, the last one counts.
func readFlags(argv []string, at string) map[string]told {
	out := map[string]told{}
	for i := 1; i < len(argv); i++ {
		name, ok := strings.CutPrefix(argv[i], "-")
		if !ok || name == "" || name == "-" {
			break // the first word that is no flag ends them
		}
		name = strings.TrimPrefix(name, "-")
		name, text, whole := strings.Cut(name, "=")
		switch {
		case whole:
		case slices.Contains(switches, name):
			text = "true"
		case i+1 < len(argv):
			i++
			text = argv[i]
		}
		out[name] = told{text, at}
	}
	return out
}

// fromManifest reads the container etcd of a static pod.
func fromManifest(file, text string) (*instance, error) {
	in := &instance{Instance: conf.Instance{Name: strings.TrimSuffix(path.Base(file), ".yaml") + "-pod", Main: file}, flags: map[string]told{}, env: map[string]told{}, files: []string{file}}
	if in.Name == "etcd-pod-pod" {
		in.Name = "etcd-pod"
	}
	var pod struct {
		Spec struct {
			Containers []struct {
				Name    string      `yaml:"name"`
				Command []yaml.Node `yaml:"command"`
				Args    []yaml.Node `yaml:"args"`
				Env     []struct {
					Name  string    `yaml:"name"`
					Value yaml.Node `yaml:"value"`
				} `yaml:"env"`
			} `yaml:"containers"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	for _, c := range pod.Spec.Containers {
		if c.Name != "etcd" && c.Name != "etcd-member" {
			continue
		}
		for _, e := range c.Env {
			if strings.HasPrefix(e.Name, "ETCD_") && e.Value.Kind == yaml.ScalarNode {
				in.env[option(e.Name)] = told{e.Value.Value, fmt.Sprintf("%s:%d", file, e.Value.Line)}
			}
		}
		var words []string
		at := ""
		for _, n := range append(c.Command, c.Args...) {
			if at == "" {
				at = fmt.Sprintf("%s:%d", file, n.Line)
			}
			if strings.Contains(n.Value, "\n") || strings.Contains(n.Value, " etcd ") {
				words = append(words, script(n.Value)...)
				continue
			}
			words = append(words, n.Value)
		}
		if i := slices.IndexFunc(words, func(w string) bool { return path.Base(w) == "etcd" }); i >= 0 {
			words = words[i:]
		}
		lines := strings.Split(text, "\n")
		for name, t := range readFlags(words, at) {
			for n, line := range lines {
				if strings.Contains(line, "-"+name+"=") {
					t.at = fmt.Sprintf("%s:%d", file, n+1)
				}
			}
			in.flags[name] = t
		}
		return in, nil
	}
	return nil, fmt.Errorf("%s: it has no container etcd", file)
}

// script are the words of the command etcd in a shell's script, as OpenShift's pod
// has one: variables in them stay as they are.
func script(text string) []string {
	words := strings.Fields(strings.ReplaceAll(text, "\\\n", " "))
	for i := len(words) - 1; i >= 0; i-- {
		if path.Base(words[i]) != "etcd" {
			continue
		}
		end := i + 1
		for end < len(words) && strings.HasPrefix(words[end], "-") {
			end++
		}
		if end > i+1 {
			return words[i:end]
		}
	}
	return nil
}

// winner is the line from which an option is taken.
func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	in, err := of(h, main)
	if err != nil {
		return conf.Place{}, false, err
	}
	t, ok, unknown := in.option(key)
	switch {
	case unknown != "" && !ok:
		return conf.Place{}, false, errors.New(unknown)
	case !ok:
		return conf.Place{}, false, nil
	}
	if _, flag := in.flags[key]; flag && in.file == nil {
		return conf.Place{}, false, fmt.Errorf("%s has --%s, and a flag goes before the variable: change it there by hand", t.at, key)
	}
	for _, f := range in.files {
		text, err := h.Files.ReadFile(f)
		if err != nil {
			return conf.Place{}, false, err
		}
		all, err := syntaxOf(h, main).Assignments(string(text))
		if err != nil {
			return conf.Place{}, false, fmt.Errorf("%s:%w", f, err)
		}
		for _, a := range slices.Backward(all) {
			if a.Key == key && t.at == fmt.Sprintf("%s:%d", f, a.Line) {
				return conf.Place{File: f, Assignment: a}, true, nil
			}
		}
	}
	if in.file != nil {
		return conf.Place{}, false, fmt.Errorf("%s sets %s in a way that fettle cannot change: change it by hand", t.at, key)
	}
	// The unit's own Environment=: a variable of the file goes before it.
	return conf.Place{}, false, nil
}

// syntaxOf is YAML for a configuration file.
func syntaxOf(h *host.Host, main string) conf.Syntax {
	if in, err := of(h, main); err == nil && in.file != nil {
		return conf.YAML{}
	}
	return variables{}
}
