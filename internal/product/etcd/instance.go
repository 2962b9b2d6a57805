package etcd

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// told is a value and its position, FILE:LINE.
type told struct{ text, at string }

// instance is one etcd member that the machine's files configure.
type instance struct {
	conf.Instance
	unit   *systemd.Unit   // nil for a static pod
	flags  map[string]told // from the command line
	env    map[string]told // ETCD_ variables by option; an empty variable sets nothing
	config *configFile     // if set, etcd ignores flags and variables
	// program is the executable; word is the first word among the flags that is not a flag.
	program string
	word    told
	image   told // of the pod's container
	script  bool // true for a static pod that starts etcd from a shell script
	// files lists the files with variables, in order, or only the configuration file.
	files []string
	// unread is the reason that an option may be set to an unknown value.
	unread string
	// version is the version for which the member is judged, from --for or from a cluster; zero
	// means its own version.
	version fact.Answer
	cluster map[string]fact.Answer // answers from a cluster's API
}

// pod reports whether the member is a static pod of a cluster node.
func (in *instance) pod() bool { return in.unit == nil }

// option returns an option's value in the files, or the reason that it is unknown.
func (in *instance) option(name string) (t told, ok bool, unknown string) {
	if in.config != nil {
		t, ok = in.config.values[name]
		return t, ok, in.unread
	}
	if t, ok = in.flags[name]; ok {
		return t, true, ""
	}
	if t = in.env[name]; t.text != "" {
		return t, true, ""
	}
	return told{}, false, in.unread
}

// Paths implements product.Files.
func (in *instance) Paths() []string { return in.files }

// Value implements product.Files.
func (in *instance) Value(name string) (value, at string, ok bool, err error) {
	t, ok, unknown := in.option(name)
	if unknown != "" {
		err = errors.New(unknown)
	}
	return t.text, t.at, ok, err
}

// manifests are the static pod manifests of kubeadm and of OpenShift, including the name before
// 4.4.
var manifests = []string{"/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/manifests/etcd-pod.yaml", "/etc/kubernetes/manifests/etcd-member.yaml"}

// instances returns the members of the unit and of the static pods.
func instances(h *host.Host) ([]*instance, error) {
	var out []*instance
	switch u, err := systemd.New(h).Load("etcd.service"); {
	case host.NotFound(err):
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
		if host.NotFound(err) {
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

// fromUnit reads the unit, its variables, and the configuration file that these name.
func fromUnit(h *host.Host, u *systemd.Unit) (*instance, error) {
	in := &instance{Instance: conf.Instance{Name: "etcd"}, unit: u, env: map[string]told{}}
	all, unread := u.Environment()
	if unread != "" {
		in.unread = unread + " is not in this copy, or cannot be read"
	}
	argv, at := u.Command()
	if len(argv) > 0 {
		in.program = argv[0]
	}
	in.flags, in.word = readFlags(argv, at)
	for name, v := range all {
		if strings.HasPrefix(name, "ETCD_") {
			in.env[option(name)] = told{v.Text, v.At}
			continue
		}
		for flag, t := range in.flags { // from a variable with arguments
			if t.at == at && strings.Contains(v.Text, "-"+flag) {
				in.flags[flag] = told{t.text, v.At}
			}
		}
	}
	for _, v := range u.All("Service", "EnvironmentFile") {
		name := strings.TrimPrefix(v.Text, "-")
		if name == "/etc/default/%p" { // Debian's default
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
	in.Main, in.files, in.config = config.text, []string{config.text}, &configFile{}
	text, err := h.Files.ReadFile(config.text)
	if err != nil {
		in.unread = fmt.Sprintf("%s: %v", config.text, err)
		return in, nil
	}
	if in.config, err = readFile(config.text, string(text)); err != nil {
		return nil, err
	}
	return in, nil
}

// readFlags parses a command line as Go's flag package does: "-" and "--" are the same, a value
// follows "=" or is the next word, and the last flag counts. The first word that is not a flag
// ends them; etcd does not start with such a word.
func readFlags(argv []string, at string) (out map[string]told, word told) {
	out = map[string]told{}
	for i := 1; i < len(argv); i++ {
		name, ok := strings.CutPrefix(argv[i], "-")
		if !ok || name == "" || name == "-" {
			return out, told{argv[i], at}
		}
		name = strings.TrimPrefix(name, "-")
		name, text, whole := strings.Cut(name, "=")
		switch {
		case whole:
		case Known().needsNoValue(name):
			text = "true"
		case i+1 < len(argv):
			i++
			text = argv[i]
		}
		out[name] = told{text, at}
	}
	return out, told{}
}

// fromManifest reads the etcd container of a static pod's manifest.
func fromManifest(file, text string) (*instance, error) {
	in := &instance{Instance: conf.Instance{Name: strings.TrimSuffix(path.Base(file), ".yaml") + "-pod", Main: file}, flags: map[string]told{}, env: map[string]told{}, files: []string{file}}
	if in.Name == "etcd-pod-pod" {
		in.Name = "etcd-pod"
	}
	var pod struct {
		Spec struct {
			Containers []struct {
				Name    string      `yaml:"name"`
				Image   yaml.Node   `yaml:"image"`
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
		if !IsContainer(c.Name) {
			continue
		}
		for _, e := range c.Env {
			if e.Value.Kind == yaml.ScalarNode {
				in.setVariable(e.Name, told{e.Value.Value, fmt.Sprintf("%s:%d", file, e.Value.Line)})
			}
		}
		in.image = told{c.Image.Value, fmt.Sprintf("%s:%d", file, c.Image.Line)}
		var words []string
		at := ""
		for _, n := range append(c.Command, c.Args...) {
			if at == "" {
				at = fmt.Sprintf("%s:%d", file, n.Line)
			}
			words = append(words, n.Value)
		}
		in.readWords(words, at)
		lines := strings.Split(text, "\n")
		for name, t := range in.flags {
			for n, line := range lines {
				if strings.Contains(line, "-"+name+"=") {
					t.at = fmt.Sprintf("%s:%d", file, n+1)
				}
			}
			in.flags[name] = t
		}
		return in, nil
	}
	return nil, fmt.Errorf("%s: container etcd is missing", file)
}

// IsContainer reports whether a container with this name in a static pod is etcd.
func IsContainer(name string) bool { return name == "etcd" || name == "etcd-member" }

// setVariable records a container's environment variable if etcd reads it.
func (in *instance) setVariable(name string, t told) {
	if strings.HasPrefix(name, "ETCD_") {
		in.env[option(name)] = t
	}
}

// readWords reads a container's command and arguments, which may be a shell script.
func (in *instance) readWords(container []string, at string) {
	var words []string
	for _, w := range container {
		if strings.Contains(w, "\n") || strings.Contains(w, " etcd ") {
			words, in.script = append(words, script(w)...), true
			continue
		}
		words = append(words, w)
	}
	if i := slices.IndexFunc(words, func(w string) bool { return path.Base(w) == "etcd" }); i >= 0 {
		words = words[i:]
	}
	in.flags, in.word = readFlags(words, at)
}

// script returns the words of the etcd command in a shell script, such as OpenShift's. It does not
// resolve variables.
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

// winner returns the line that sets an option; ok is false if no line does.
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
	if in.config != nil && Known().kind(key) == "duration" {
		return conf.Place{}, false, fmt.Errorf("%s gives %s in nanoseconds; change it by hand", main, key)
	}
	if _, flag := in.flags[key]; flag && in.config == nil {
		return conf.Place{}, false, fmt.Errorf("%s has the flag --%s, which takes precedence over the variable; change the flag by hand", t.at, key)
	}
	for _, f := range in.files {
		all, err := conf.PlacesIn(h, syntaxOf(h, main), f)
		if err != nil {
			return conf.Place{}, false, err
		}
		for _, p := range slices.Backward(all) {
			if p.Key == key && t.at == p.String() {
				return p, true, nil
			}
		}
	}
	if in.config != nil {
		return conf.Place{}, false, fmt.Errorf("%s sets %s in a form that fettle cannot change; change it by hand", t.at, key)
	}
	// The unit's own Environment= sets it. A variable of the file overrides that.
	return conf.Place{}, false, nil
}

// syntaxOf returns the syntax of a file: YAML for a configuration file, otherwise variables.
func syntaxOf(h *host.Host, main string) conf.Syntax {
	if in, err := of(h, main); err == nil && in.config != nil {
		return conf.YAML{}
	}
	return variables{}
}
