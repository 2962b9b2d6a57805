package fact

import (
	"errors"
	"math"
	"path"
	"strconv"
	"strings"
)

// OS describes the distribution (os-release(5)).
type OS struct {
	ID        Fact[string]   `json:"id"`
	IDLike    Fact[[]string] `json:"id_like"`
	VersionID Fact[string]   `json:"version_id"`
	Name      Fact[string]   `json:"name"`
	Hostname  Fact[string]   `json:"hostname"`
}

func collectOS(r *reader, f *Facts) {
	source := "/etc/os-release"
	text, n := r.text(source)
	if !n.known() {
		source = "/usr/lib/os-release"
		if t, m := r.text(source); m.known() {
			text, n = t, m
		}
	}
	vars := keyed(text, "=")
	if n.known() && len(vars) == 0 {
		n.unknown = source + " contains no line NAME=VALUE"
	}
	get := func(key string) Fact[string] {
		if !n.known() {
			return Fact[string]{note: n}
		}
		v := vars[key]
		if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		}
		if v == "" {
			return Absent[string](source)
		}
		return Known(v, source)
	}
	f.OS.ID = get("ID")
	f.OS.IDLike = convert(get("ID_LIKE"), strings.Fields)
	f.OS.VersionID = get("VERSION_ID")
	f.OS.Name = firstKnown(get("PRETTY_NAME"), get("NAME"))
	f.OS.Hostname = firstKnown(r.str("/proc/sys/kernel/hostname"), r.mayBeEmpty("/etc/hostname"))
}

// Kernel describes the running kernel.
type Kernel struct {
	Release Fact[string] `json:"release"`
	Version Fact[string] `json:"version"`
	// Arch is the machine name of uname: x86_64, aarch64.
	Arch    Fact[string]  `json:"arch"`
	BootID  Fact[string]  `json:"boot_id"`
	UptimeS Fact[float64] `json:"uptime_s"`
	// CommandLine is redacted. Parameters holds its parameters by name: the last one of a name
	// counts, and a word without "=" has the value "". Words after "--" are for init and omitted.
	CommandLine Fact[string]            `json:"command_line"`
	Parameters  Fact[map[string]string] `json:"parameters"`
	// Preemption is the active model: none, voluntary, full, lazy or rt. It is read from
	// debugfs, or else derived from version and command line.
	Preemption            Fact[string]   `json:"preemption"`
	Tainted               Fact[int64]    `json:"tainted"`
	Clocksource           Fact[string]   `json:"clocksource"`
	ClocksourcesAvailable Fact[[]string] `json:"clocksources_available"`
	// Pressure reports whether pressure stall information is available.
	Pressure    Fact[bool]  `json:"pressure"`
	SysctlCount Fact[int64] `json:"sysctl_count"`
	// SELinux is the mode in force: enforcing, permissive or disabled. SELinuxConfigured is the
	// mode of the next boot, according to /etc/selinux/config.
	SELinux           Fact[string] `json:"selinux"`
	SELinuxConfigured Fact[string] `json:"selinux_configured"`
}

func collectKernel(r *reader, f *Facts) {
	k := &f.Kernel
	version := parsed(r, "/proc/version", func(s string) ([]string, error) {
		w := strings.Fields(s)
		if len(w) < 3 {
			return nil, errors.New("too short")
		}
		return w, nil
	})
	k.Release = firstKnown(r.str("/proc/sys/kernel/osrelease"), convert(version, func(w []string) string { return w[2] }))
	k.Version = r.str("/proc/sys/kernel/version")
	k.Arch = firstKnown(r.str("/proc/sys/kernel/arch"), archOf(k.Release)) // the sysctl exists since 6.1
	k.BootID = r.str("/proc/sys/kernel/random/boot_id")
	k.UptimeS = parsed(r, "/proc/uptime", func(s string) (float64, error) {
		up, _, _ := strings.Cut(s, " ")
		seconds, err := strconv.ParseFloat(up, 64)
		if err != nil || !(seconds >= 0 && seconds <= math.MaxInt64) {
			return 0, notAError("a time")
		}
		return seconds, nil
	})
	k.CommandLine = r.line(commandLine)
	k.Parameters = convert(k.CommandLine, ParseCommandLine)
	k.Preemption = parsed(r, "/sys/kernel/debug/sched/preempt", func(s string) (string, error) { // "none voluntary (full)"
		_, rest, _ := strings.Cut(s, "(")
		word, _, ok := strings.Cut(rest, ")")
		if !ok {
			return "", errors.New("no choice is in brackets")
		}
		return word, nil
	})
	if !k.Preemption.known() {
		k.Preemption = preemption(k)
	}
	k.Tainted = r.int("/proc/sys/kernel/tainted")
	const clock = "/sys/devices/system/clocksource/clocksource0/"
	k.Clocksource = r.str(clock + "current_clocksource")
	k.ClocksourcesAvailable = r.words(clock + "available_clocksource")
	k.Pressure = r.exists("/proc/pressure/cpu")
	k.SysctlCount = r.countFiles("/proc/sys")
	k.SELinux = selinuxMode(r)
	k.SELinuxConfigured = convert(parsed(r, "/etc/selinux/config", func(s string) (string, error) {
		v, ok := keyed(s, "=")["SELINUX"]
		if !ok {
			return "", errors.New("no line SELINUX=MODE")
		}
		return v, nil
	}), strings.ToLower)
}

// selinuxMode reads selinuxfs. The kernel makes the mount point only if SELinux is enabled.
func selinuxMode(r *reader) Fact[string] {
	const enforce = "/sys/fs/selinux/enforce"
	if on, ok := r.exists("/sys/fs/selinux").Get(); ok && !on {
		return Known("disabled", "/sys/fs/selinux")
	}
	return convert(r.flag(enforce), func(on bool) string {
		if on {
			return "enforcing"
		}
		return "permissive"
	})
}

// ParseCommandLine splits a kernel command line into parameters. Blanks in double quotes do
// not separate parameters (lib/cmdline.c, next_arg).
func ParseCommandLine(line string) map[string]string {
	params := map[string]string{}
	quoted := false
	for word := range strings.FieldsFuncSeq(line, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return !quoted && (c == ' ' || c == '\t' || c == '\n')
	}) {
		if word == "--" {
			break
		}
		name, v, _ := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
		params[name] = v
	}
	return params
}

// arches maps the suffixes of kernel releases to machine names.
var arches = map[string]string{
	"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64",
	"ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64", "i686": "i686",
}

func archOf(release Fact[string]) Fact[string] {
	rel, ok := release.Get()
	if !ok {
		return Fact[string]{note: release.note}
	}
	for _, word := range strings.FieldsFunc(rel, func(c rune) bool { return c == '.' || c == '-' || c == '+' }) {
		if a := arches[word]; a != "" {
			return Known(a, release.source)
		}
	}
	return Unknown[string](release.source, "architecture not in /proc/sys/kernel/arch or the kernel release")
}

// preemption derives the model from the command line if the kernel can choose it at boot
// (PREEMPT_DYNAMIC), or else from the version.
func preemption(k *Kernel) Fact[string] {
	v, ok := k.Version.Get()
	if !ok {
		return Fact[string]{note: k.Version.note}
	}
	switch {
	case strings.Contains(v, "PREEMPT_RT"):
		return Known("rt", k.Version.source)
	case strings.Contains(v, "PREEMPT_DYNAMIC"):
		params, ok := k.Parameters.Get()
		if p := params["preempt"]; ok && p != "" {
			return Known(p, k.Parameters.source)
		}
		return Unknown[string](k.Version.source, "chosen at boot; only debugfs shows the choice")
	case strings.Contains(v, "PREEMPT_LAZY"):
		return Known("lazy", k.Version.source)
	case strings.Contains(v, "PREEMPT"):
		return Known("full", k.Version.source)
	}
	return Unknown[string](k.Version.source, "none or voluntary: not distinguishable from the kernel version")
}

// countFiles counts the files below a directory.
func (r *reader) countFiles(root string) Fact[int64] {
	count := int64(0)
	var down func(dir string, depth int) note
	down = func(dir string, depth int) note {
		list, err := r.files.ReadDir(dir)
		n := noteOf(dir, err)
		for _, d := range list {
			if !d.IsDir() {
				count++
			} else if depth < 16 {
				if sub := down(path.Join(dir, d.Name()), depth+1); sub.unknown != "" {
					n.unknown = sub.unknown
				}
			}
		}
		return n
	}
	n := down(root, 0)
	n.source = root
	return withNote(n, count)
}

// Cgroup describes the mounted control groups.
type Cgroup struct {
	// Version is 1 or 2. Hybrid reports whether both are mounted.
	Version     Fact[int64]    `json:"version"`
	Hybrid      Fact[bool]     `json:"hybrid"`
	Controllers Fact[[]string] `json:"controllers"`
}

func collectCgroup(r *reader, f *Facts) {
	text, n := r.mountTable()
	if !n.known() {
		f.Cgroup = Cgroup{Fact[int64]{note: n}, Fact[bool]{note: n}, Fact[[]string]{note: n}}
		return
	}
	var v1 []string
	unified, whole := "", false
	for _, m := range parseMounts(text, n.source) {
		switch m.fsType {
		case "proc":
			whole = true
		case "cgroup2":
			if unified == "" || m.point == "/sys/fs/cgroup" {
				unified = m.point
			}
		case "cgroup":
			for _, o := range m.superOptions {
				if o != "rw" && o != "ro" && !strings.Contains(o, "=") && o != "xattr" && o != "noprefix" && o != "clone_children" && o != "seclabel" {
					v1 = append(v1, o)
				}
			}
		}
	}
	c := &f.Cgroup
	switch {
	case len(v1) > 0:
		c.Version, c.Controllers = Known(int64(1), n.source), Known(v1, n.source)
	case unified != "":
		c.Version = Known(int64(2), n.source)
		c.Controllers = r.anyWords(unified + "/cgroup.controllers")
	case !whole: // lists like fstab lack the kernel's file systems
		why := n.source + " lists none of the kernel's own file systems, such as proc"
		*c = Cgroup{Unknown[int64](n.source, why), Unknown[bool](n.source, why), Unknown[[]string](n.source, why)}
		return
	default:
		c.Version, c.Controllers = Absent[int64](n.source), Absent[[]string](n.source)
	}
	c.Hybrid = Known(len(v1) > 0 && unified != "", n.source)
}
