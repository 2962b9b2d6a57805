package override

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// readSysfsutils reads sysfs.conf(5): "path/below/sys = value". sysfs.conf comes first, then
// sysfs.d sorted by name (sysfsutils' init script).
func readSysfsutils(r *reader) {
	files := []string{"/etc/sysfs.conf"}
	if found, err := host.Glob(r.host.Files, "/etc/sysfs.d/*.conf"); err == nil {
		files = append(files, found...)
	}
	void := ""
	if !r.exists("/etc/init.d/sysfsutils") && r.unitFile("sysfsutils.service") == "" {
		void = "sysfsutils, which applies this file, is not installed"
	}
	for _, f := range files {
		text, ok := r.file(f)
		if !ok {
			continue
		}
		lines, problems := parseSysfsConf(text)
		r.invalid(f, problems)
		for _, l := range lines {
			r.addPath(Claim{
				Source: Sysfsutils, File: f, Line: l.line, Text: l.text, Administrator: true, Void: void,
				Value: setting.Text(l.value), When: "at boot by sysfsutils",
			}, "/sys/"+l.key, 0)
		}
	}
}

// parseSysfsConf returns the assignments. Keys are paths below /sys. Lines with "mode" and "owner"
// set no value.
func parseSysfsConf(text string) ([]sysctlLine, []Problem) {
	var out []sysctlLine
	var problems []Problem
	for n, raw := range systemdLines(text) {
		l, _, _ := strings.Cut(raw, "#")
		l = strings.Trim(l, spaces)
		if l == "" {
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		key, value = strings.Trim(key, spaces), strings.Trim(value, spaces)
		if f := strings.Fields(key); len(f) == 2 && (f[0] == "mode" || f[0] == "owner") {
			continue
		}
		key = strings.TrimPrefix(path.Clean("/"+key), "/")
		if !ok || key == "" || value == "" || strings.ContainsAny(key, " \t") {
			problems = append(problems, Problem{Line: n, What: fmt.Sprintf("%q: want PATH = VALUE, the path below /sys", clip(l))})
			continue
		}
		out = append(out, sysctlLine{line: n, text: l, key: key, value: value})
	}
	return out, problems
}

// governorFiles are files with shell assignments, read by services that set only the frequency
// governor.
var governorFiles = []struct {
	file, unit, initScript string
}{
	{"/etc/default/cpupower", "cpupower.service", ""},              // Arch
	{"/etc/sysconfig/cpupower", "cpupower.service", ""},            // Fedora, RHEL
	{"/etc/default/cpufrequtils", "", "/etc/init.d/cpufrequtils"},  // Debian
	{"/etc/default/cpupower-service.conf", "cpupower.service", ""}, // linux-cpupower of later releases
}

const everyPolicy = "/sys/devices/system/cpu/cpufreq/policy*/"

func readCpupower(r *reader) {
	for _, g := range governorFiles {
		text, ok := r.file(g.file)
		if !ok {
			continue
		}
		void, condition := "", ""
		if g.unit != "" {
			void, condition = r.needsUnit(g.unit, "this file")
		}
		if void == "" && g.initScript != "" && !r.exists(g.initScript) {
			void = g.initScript + ", which applies this file, is not installed"
		}
		for _, a := range parseShellVars(text) {
			for attr, value := range governorValues(a.key, a.value) {
				r.addPath(Claim{
					Source: Cpupower, File: g.file, Line: a.line, Text: a.text, Administrator: true, Void: void, Condition: condition,
					Value: setting.Text(value), When: "at boot by " + strings.TrimSuffix(path.Base(g.unit+g.initScript), ".service"),
				}, everyPolicy+attr, 0)
			}
		}
	}
}

var frequency = text.LazyRegexp(`^([0-9.]+)([kKmMgG]?)(?:[hH][zZ])?$`)

// governorValues converts one variable to cpufreq attributes. Frequencies are parsed like
// cpupower-frequency-set(1) and returned in kHz, as in sysfs.
func governorValues(key, value string) map[string]string {
	out := map[string]string{}
	set := func(attr, v string) {
		if v != "" && v != "0" {
			out[attr] = v
		}
	}
	switch strings.ToUpper(key) {
	case "GOVERNOR":
		set("scaling_governor", strings.Trim(value, `'"`))
	case "MAX_SPEED", "MAX_FREQ":
		set("scaling_max_freq", kiloHertz(value))
	case "MIN_SPEED", "MIN_FREQ":
		set("scaling_min_freq", kiloHertz(value))
	case "CPUPOWER_START_OPTS":
		words := strings.Fields(value)
		for i, w := range words {
			opt, v, glued := strings.Cut(w, "=")
			if !glued && i+1 < len(words) {
				v = words[i+1]
			}
			switch opt {
			case "-g", "--governor":
				set("scaling_governor", v)
			case "-u", "--max":
				set("scaling_max_freq", kiloHertz(v))
			case "-d", "--min":
				set("scaling_min_freq", kiloHertz(v))
			}
		}
	}
	return out
}

func kiloHertz(s string) string {
	m := frequency().FindStringSubmatch(strings.Trim(s, `'"`))
	if m == nil {
		return ""
	}
	digits, zeros := m[1], map[string]int{"": 0, "k": 0, "m": 3, "g": 6}[strings.ToLower(m[2])]
	whole, fraction, _ := strings.Cut(digits, ".")
	if strings.Contains(fraction, ".") || len(fraction) > zeros {
		return ""
	}
	return strings.TrimLeft(whole+fraction+strings.Repeat("0", zeros-len(fraction)), "0")
}

// parseShellVars parses NAME=value lines as a shell does, without expansion.
func parseShellVars(text string) []sysctlLine {
	var out []sysctlLine
	for n, raw := range systemdLines(text) {
		l := strings.Trim(raw, spaces)
		key, value, ok := strings.Cut(strings.TrimPrefix(l, "export "), "=")
		if !ok || strings.HasPrefix(l, "#") || key == "" || strings.ContainsAny(key, " \t\"'$") {
			continue
		}
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') {
			if end := strings.IndexByte(value[1:], value[0]); end >= 0 {
				value = value[1 : 1+end]
			}
		} else if v, _, cut := strings.Cut(value, " #"); cut {
			value = v
		}
		out = append(out, sysctlLine{line: n, text: l, key: key, value: strings.TrimSpace(value)})
	}
	return out
}

// kubeletTunables lists the sysctls that the kubelet writes at its start, or only checks under
// protectKernelDefaults (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables; values in
// k8s.io/component-helpers/node/util/sysctl).
var kubeletTunables = []struct{ name, value string }{
	{"vm.overcommit_memory", "1"},
	{"vm.panic_on_oom", "0"},
	{"kernel.panic", "10"},
	{"kernel.panic_on_oops", "1"},
	{"kernel.keys.root_maxkeys", "1000000"},
	{"kernel.keys.root_maxbytes", "25000000"},
}

// KubeletSysctls returns the names of the sysctls that a kubelet sets.
func KubeletSysctls() []string {
	var names []string
	for _, t := range kubeletTunables {
		names = append(names, t.name)
	}
	return names
}

// kubelets lists the services that contain a kubelet, each with its default configuration file and
// the configuration's key.
var kubelets = []struct{ unit, config, key string }{
	{"kubelet.service", "/var/lib/kubelet/config.yaml", "protectKernelDefaults"},
	{"k3s.service", "/etc/rancher/k3s/config.yaml", "protect-kernel-defaults"},
	{"k3s-agent.service", "/etc/rancher/k3s/config.yaml", "protect-kernel-defaults"},
	{"rke2-server.service", "/etc/rancher/rke2/config.yaml", "protect-kernel-defaults"},
	{"rke2-agent.service", "/etc/rancher/rke2/config.yaml", "protect-kernel-defaults"},
}

var (
	configFlag  = text.LazyRegexp(`--config[= ]"?([^\s"']+)`)
	protectFlag = text.LazyRegexp(`--protect-kernel-defaults(?:=(\w+))?`)
)

// readKubelet adds claims for the sysctls that a kubelet sets.
func readKubelet(r *reader) {
	for _, k := range kubelets {
		unit := r.unitFile(k.unit)
		if unit == "" {
			continue
		}
		c := Claim{Source: Kubelet, File: unit, When: "each time " + k.unit + " starts"}
		if !r.unitEnabled(k.unit) && !r.unitRunning(k.unit) {
			c.Void = k.unit + " is neither enabled nor running"
		}
		config, protects := k.config, false
		for _, f := range append([]string{unit}, r.kubeletFiles(k.unit)...) {
			text, ok := r.file(f)
			if !ok {
				continue
			}
			for n, l := range systemdLines(text) {
				if strings.HasPrefix(strings.TrimSpace(l), "#") {
					continue
				}
				if m := configFlag().FindStringSubmatch(l); m != nil && strings.HasPrefix(m[1], "/") {
					config = m[1]
				}
				if m := protectFlag().FindStringSubmatch(l); m != nil {
					protects = m[1] == "" || m[1] == "true"
					c.File, c.Line, c.Text = f, n, strings.TrimSpace(l)
				}
			}
		}
		if c.Line == 0 { // a flag takes precedence over the file
			if line, text, on, ok := r.yamlBool(config, k.key); ok {
				c.File, c.Line, c.Text, protects = config, line, text, on
			}
		}
		c.Administrator = !strings.HasPrefix(c.File, "/usr/") && !strings.HasPrefix(c.File, "/lib/")
		if protects && c.Void == "" {
			c.Void = "only checked: with " + k.key + " the kubelet does not start if the value differs"
		}
		for _, t := range kubeletTunables {
			c.Setting = setting.Setting{Kind: "sysctl", Name: t.name}
			c.Value = setting.Text(t.value)
			r.add(c, 0)
		}
	}
}

// kubeletFiles returns the unit's drop-ins and the argument files of kubeadm and the packages.
func (r *reader) kubeletFiles(unit string) []string {
	var out []string
	for _, d := range slices.Backward(unitDirs) {
		if found, err := host.Glob(r.host.Files, d+"/"+unit+".d/*.conf"); err == nil {
			out = append(out, found...)
		}
	}
	if unit == "kubelet.service" {
		for _, f := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
			if r.exists(f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// yamlBool returns a top-level boolean, as text, and its line.
func (r *reader) yamlBool(file, key string) (line int, text string, on, ok bool) {
	b, found := r.file(file)
	if !found {
		return 0, "", false, false
	}
	var doc map[string]yaml.Node // includes merged mappings
	if err := yaml.Unmarshal([]byte(b), &doc); err != nil {
		r.problem(file, 0, err.Error())
		return 0, "", false, false
	}
	value, ok := doc[key]
	if !ok {
		return 0, "", false, false
	}
	line = value.Line
	if value.Kind == yaml.AliasNode {
		value = *value.Alias
	}
	if err := value.Decode(&on); err != nil {
		r.problem(file, value.Line, fmt.Sprintf("%s: %v", key, err))
	}
	return line, key + ": " + value.Value, on, true
}
