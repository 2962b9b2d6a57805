package eject

import (
	"bytes"
	"encoding/base64"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The formats.
const (
	Files         = "files"
	Ansible       = "ansible"
	MachineConfig = "machineconfig"
)

// Formats lists the formats.
var Formats = []string{Files, Ansible, MachineConfig}

// Convert replaces the files and commands of a result by one file in a format.
func (r *Result) Convert(format string) error {
	var f File
	var err error
	switch r.Format = format; format {
	case Ansible:
		f = File{Path: "eject.yml", What: "playbook with modules of ansible-core only"}
		f.Content, err = r.playbook()
	case MachineConfig:
		f = File{Path: "99-worker-tuning.yaml", What: "MachineConfig of OpenShift 4.6 and later for the role worker"}
		f.Content, err = r.machineConfig()
	default:
		return nil
	}
	f.Settings = len(r.Values)
	for i := range r.Values {
		r.Values[i].By = []string{f.Path}
	}
	r.Files, r.Commands = []File{f}, []Command{}
	return err
}

// object is a YAML mapping with keys in order.
type object []any // key, value, key, value

func (o object) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(o); i += 2 {
		n.Content = append(n.Content, toNode(o[i]), toNode(o[i+1]))
	}
	return n
}

// template is a text that Ansible must not expand.
type template string

func toNode(v any) *yaml.Node {
	n := &yaml.Node{}
	switch v := v.(type) {
	case object:
		return v.node()
	case []any:
		n.Kind = yaml.SequenceNode
		for _, e := range v {
			n.Content = append(n.Content, toNode(e))
		}
		return n
	case template:
		n.SetString(string(v))
		if strings.Contains(string(v), "{{") || strings.Contains(string(v), "{%") || strings.Contains(string(v), "{#") {
			n.Tag = "!unsafe"
		}
		return n
	}
	if err := n.Encode(v); err != nil { // strings, numbers and booleans only
		panic(err)
	}
	return n
}

func marshal(v any) (string, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(toNode(v)); err != nil {
		return "", err
	}
	return out.String(), e.Close()
}

// applied maps the beginning of a path to the handler that applies the file without a reboot.
var applied = []struct{ prefix, handler string }{
	{"/etc/modules-load.d/", "Load the modules"},
	{"/etc/sysctl.d/", "Apply the kernel variables"},
	{"/etc/tmpfiles.d/", "Write the attributes"},
	{"/etc/udev/rules.d/", "Load the udev rules"},
	{"/etc/systemd/system/", "Read the units again"},
}

// playbook returns an Ansible playbook. It uses only modules of ansible-core. The files are copied
// whole instead of one task for each variable (ansible.posix.sysctl), so that they are the same as
// in the other formats.
func (r *Result) playbook() (string, error) {
	var tasks, handlers []any
	command := func(name string, argv ...string) object {
		return object{"name", name, "ansible.builtin.command", object{"argv", literal(argv)}}
	}
	add := func(h object) {
		if !slices.ContainsFunc(handlers, func(o any) bool { return o.(object)[1] == h[1] }) {
			handlers = append(handlers, h)
		}
	}
	var dirs []string
	for _, f := range r.Files {
		if dir := path.Dir(f.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
			tasks = append(tasks, object{"name", template("Make " + dir), "ansible.builtin.file", object{"path", template(dir), "state", "directory", "mode", "0755"}})
		}
		task := object{"name", template("Write " + f.Path), "ansible.builtin.copy", object{
			"dest", template(f.Path), "owner", "root", "group", "root", "mode", "0644", "content", template(f.Content),
		}}
		for _, a := range applied {
			if !strings.HasPrefix(f.Path, a.prefix) {
				continue
			}
			task = append(task, "notify", a.handler)
			switch a.prefix {
			case "/etc/modules-load.d/":
				add(command(a.handler, "/usr/lib/systemd/systemd-modules-load", f.Path))
			case "/etc/sysctl.d/":
				add(command(a.handler, "/usr/lib/systemd/systemd-sysctl", f.Path))
			case "/etc/tmpfiles.d/":
				add(command(a.handler, "systemd-tmpfiles", "--create", f.Path))
			case "/etc/udev/rules.d/":
				add(object{"name", a.handler, "ansible.builtin.command", object{"argv", literal([]string{"udevadm", "control", "--reload"})}, "notify", "Apply the udev rules"})
				add(command("Apply the udev rules", append([]string{"udevadm", "trigger", "--settle", "--action=change"}, r.matches()...)...))
			default:
				add(object{"name", a.handler, "ansible.builtin.systemd", object{"daemon_reload", true}})
			}
		}
		if strings.HasPrefix(f.Path, "/etc/default/grub.d/") {
			task = append(task, "notify", "Make the configuration of GRUB")
		}
		tasks = append(tasks, task)
	}
	for _, c := range r.Commands {
		switch c.Argv[0] {
		case "systemctl": // of r.units
		case "grubby", "rpm-ostree":
			tasks = append(tasks,
				object{"name", "Read the kernel arguments", "ansible.builtin.command", object{"argv", literal(map[string][]string{
					"grubby": {"grubby", "--info=ALL"}, "rpm-ostree": {"rpm-ostree", "kargs"},
				}[c.Argv[0]])}, "register", "kernel_arguments", "changed_when", false, "check_mode", false},
				object{"name", "Add the kernel arguments", "ansible.builtin.command", object{"argv", literal(c.Argv)}, "when", r.missing(c.Argv[0]), "changed_when", true})
		default:
			add(command("Make the configuration of GRUB", c.Argv...))
		}
	}
	for _, u := range r.units {
		word := "Disable "
		if u.enabled {
			word = "Enable "
		}
		tasks = append(tasks, object{"name", template(word + u.name), "ansible.builtin.systemd", object{"name", template(u.name), "enabled", u.enabled}})
	}
	if len(tasks) == 0 {
		tasks = []any{}
	}
	play := object{"name", "Keep the tuning without fettle", "hosts", "all", "gather_facts", false, "become", true, "tasks", tasks}
	if len(handlers) > 0 {
		play = append(play, "handlers", handlers)
	}
	text, err := marshal([]any{play})
	return head + "\n---\n" + text, err
}

// matches returns the arguments of udevadm trigger for the devices of the rules.
func (r *Result) matches() (args []string) {
	for _, s := range r.subsystems {
		args = append(args, "--subsystem-match="+s)
	}
	return args
}

// missing returns a condition of Ansible: a line of the program's output lacks one of the kernel
// arguments. grubby prints a line args="..." for each kernel, rpm-ostree all arguments in one line.
func (r *Result) missing(program string) string {
	lines := "kernel_arguments.stdout_lines"
	if program == "grubby" {
		lines += " | select('match', 'args=')"
	}
	conditions := make([]string, len(r.kernelArguments))
	for i, a := range r.kernelArguments {
		pattern := `(^|[ "])` + regexp.QuoteMeta(a) + `([ "]|$)`
		pattern = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pattern)
		conditions[i] = "(" + lines + " | reject('search', '" + pattern + "') | list | length > 0)"
	}
	return strings.Join(conditions, " or ")
}

// literal returns words that Ansible does not expand.
func literal(argv []string) []any {
	out := make([]any, len(argv))
	for i, a := range argv {
		out[i] = template(a)
	}
	return out
}

func plain(list []string) []any {
	out := make([]any, len(list))
	for i, a := range list {
		out[i] = a
	}
	return out
}

// machineConfig returns a MachineConfig with a configuration of Ignition 3.2.
func (r *Result) machineConfig() (string, error) {
	var files, units []any
	dropIns := map[string][]any{}
	var names []string
	unit := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, f := range r.Files {
		dir, name := path.Split(strings.TrimPrefix(f.Path, "/etc/systemd/system/"))
		switch {
		case strings.HasPrefix(f.Path, "/etc/systemd/system/"):
			u := strings.TrimSuffix(dir, ".d/")
			unit(u)
			dropIns[u] = append(dropIns[u], object{"name", name, "contents", f.Content})
		case strings.HasPrefix(f.Path, "/etc/default/grub"), strings.HasPrefix(f.Path, "/usr/"): // kernelArguments
		default:
			files = append(files, object{
				"path", f.Path, "mode", 0o644, "overwrite", true,
				"contents", object{"source", "data:;base64," + base64.StdEncoding.EncodeToString([]byte(f.Content))},
			})
		}
	}
	enabled := map[string]bool{}
	for _, u := range r.units {
		unit(u.name)
		enabled[u.name] = u.enabled
	}
	for _, name := range names {
		u := object{"name", name}
		if on, ok := enabled[name]; ok {
			u = append(u, "enabled", on)
		}
		if d := dropIns[name]; len(d) > 0 {
			u = append(u, "dropins", d)
		}
		units = append(units, u)
	}
	config := object{"ignition", object{"version", "3.2.0"}}
	if len(files) > 0 {
		config = append(config, "storage", object{"files", files})
	}
	if len(units) > 0 {
		config = append(config, "systemd", object{"units", units})
	}
	spec := object{"config", config}
	if len(r.kernelArguments) > 0 {
		spec = append(spec, "kernelArguments", plain(r.kernelArguments))
	}
	text, err := marshal(object{
		"apiVersion", "machineconfiguration.openshift.io/v1", "kind", "MachineConfig",
		"metadata", object{"labels", object{"machineconfiguration.openshift.io/role", "worker"}, "name", "99-worker-tuning"},
		"spec", spec,
	})
	return head + "\n" + text, err
}
