package eject

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/boot"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// errCovered is returned for a value that another value's files keep too.
var errCovered = errors.New("kept by another value's file")

// permanent maps each kind of setting to the function that makes its values permanent. A product's
// kinds are not listed: their values are already in the product's own files (product).
var permanent = map[string]func(*builder) error{
	"sysctl":     (*builder).sysctl,
	"sysfs":      (*builder).sysfs,
	"net":        (*builder).net,
	"hdparm":     (*builder).hdparm,
	"modprobe":   (*builder).modprobe,
	"module":     (*builder).module,
	"bootloader": (*builder).bootloader,
	"unit":       (*builder).unit,
	"slice":      (*builder).slice,
	"manager":    (*builder).manager,
	"irqbalance": (*builder).irqbalance,
	"file":       (*builder).wholeFile,
	"dir":        func(*builder) error { return errCovered }, // copying a file makes its directory
	"bootvars":   func(*builder) error { return errCovered }, // written together with bootloader

	"initrd":       never("an initrd overlay is made of a profile's directory; add the files with dracut or initramfs-tools"),
	"pmqos":        never("a latency limit lasts only while a program keeps /dev/cpu_dma_latency open"),
	"statickey":    never("a static key lasts only while a program keeps a socket open"),
	"irq":          never("interrupt numbers change at a boot; use irqbalance or the kernel argument irqaffinity="),
	"task":         never("a task ends with its process; set CPUAffinity=, Nice= or CPUSchedulingPolicy= in a drop-in of its unit"),
	"cgroup":       never("a control group of version 1 ends with the boot; set AllowedCPUs= in a drop-in of its unit"),
	"cgroup-mount": never("a mount of control groups of version 1 ends with the boot"),
	"cmdline":      never("only the whole command line is kept; see the boot loader"),
	"barrier":      never("write barriers belong to the options of the file system in /etc/fstab"),
	"script":       never("only the script knows what it sets"),
	"devscript":    never("only the script knows what it sets"),
	"eeepc":        never("the driver's attribute has no unit, udev device or module parameter"),
	"tuner":        never("another tuner was stopped; systemctl disable keeps it stopped"),
}

func never(why string) func(*builder) error {
	return func(*builder) error { return refuse("%s", why) }
}

// product refuses the value of a product: undo removes it from the product's own file.
func (b *builder) product() error {
	where := "the configuration of " + b.at.Setting.Kind
	if l, ok := b.kinds[b.at.Setting.Kind].(setting.FileLister); ok {
		if files := l.Files(b.at.Setting); len(files) > 0 {
			where = files[0]
		}
	}
	return refuse("belongs in %s; copy the line before fettle is removed", where)
}

// text returns the value as one line.
func (b *builder) text() (string, error) {
	v := b.at.Want
	switch {
	case v.Absent:
		return "", refuse("means that the setting is absent")
	case strings.ContainsAny(strings.TrimSpace(v.Text), "\n\x00"):
		return "", refuse("has more than one line")
	case strings.TrimSpace(v.Text) == "":
		return "", refuse("is empty, and an empty line sets nothing")
	}
	return strings.TrimSpace(v.Text), nil
}

// sysctlModules maps the beginning of a kernel variable to the module that has it. systemd-sysctl
// skips variables that do not exist when it runs.
var sysctlModules = []struct{ prefix, module string }{
	{"net.netfilter.nf_conntrack_", "nf_conntrack"},
	{"net.bridge.", "br_netfilter"},
	{"net.ipv4.vs.", "ip_vs"},
	{"sunrpc.", "sunrpc"},
}

func (b *builder) sysctl() error {
	value, err := b.text()
	if err != nil {
		return err
	}
	for _, m := range sysctlModules {
		if strings.HasPrefix(b.at.Setting.Name, m.prefix) && b.loadable(m.module) {
			b.load(m.module)
		}
	}
	value = strings.Join(strings.Fields(value), " ")
	b.line(sysctlFile, b.at.Setting.Name+" = "+value)
	if p, err := setting.SysctlPath(b.at.Setting.Name); err == nil && b.again[b.at.Setting] {
		// systemd-tmpfiles writes the attribute later, and the kernel then changes the variable.
		b.tmpfiles(p, value)
	}
	return nil
}

// loadable reports whether a module is loaded and not part of the kernel.
func (b *builder) loadable(module string) bool {
	return plugin.Exists(b.host, "/sys/module/"+module+"/initstate")
}

// tmpfiles keeps an attribute with a line of tmpfiles.d(5).
func (b *builder) tmpfiles(path, value string) {
	b.attributes = append(b.attributes, attribute{path, value})
	b.keep(b.path(tmpfilesFile), named[tmpfilesFile].what, []string{head})
}

// attribute is a kernel file with its value.
type attribute struct{ path, value string }

var cpuNumber = text.LazyRegexp(`/(cpu|policy)[0-9]+/`)

// writeAttributes writes the lines of tmpfiles.d. Lines for each CPU become one line with a pattern
// if it matches no other file.
func (b *builder) writeAttributes() {
	escape := strings.NewReplacer(`\`, `\\`, "%", "%%")
	done := map[string]bool{}
	for _, a := range b.attributes {
		if done[a.path] {
			continue
		}
		where := tmpfilesPath(a.path)
		if pattern := cpuNumber().ReplaceAllString(a.path, "/$1[0-9]*/"); pattern != a.path {
			found, err := host.Glob(b.host.Files, pattern)
			if err == nil && len(found) > 1 && !slices.ContainsFunc(found, func(p string) bool { return !slices.Contains(b.attributes, attribute{p, a.value}) }) {
				where = pattern
				for _, p := range found {
					done[p] = true
				}
			}
		}
		l := b.lines[b.path(tmpfilesFile)]
		l.text = append(l.text, "w "+where+" - - - - "+escape.Replace(a.value))
	}
}

// tmpfilesPath quotes a path for tmpfiles.d(5): specifiers, glob(7) characters and spaces.
func tmpfilesPath(p string) string {
	p = strings.NewReplacer("%", "%%", `\`, `\\`, "*", `\\*`, "?", `\\?`, "[", `\\[`).Replace(p)
	if strings.ContainsAny(p, " \t\"'") {
		return strconv.Quote(p)
	}
	return p
}

func (b *builder) sysfs() error {
	value, err := b.text()
	if err != nil {
		return err
	}
	name := b.at.Setting.Name
	switch {
	case strings.HasPrefix(name, "/sys/module/"):
		return b.parameter(value)
	case strings.HasPrefix(name, "/sys/kernel/debug/"), strings.HasPrefix(name, "/sys/kernel/tracing/"):
		mount := "sys-kernel-" + strings.Split(name, "/")[3] + ".mount"
		b.startAfter(mount)
	case strings.HasPrefix(name, "/sys/devices/system/cpu/") && strings.Contains(name, "/cpufreq/"):
		if driver, ok := plugin.Attribute(b.host, path.Dir(name)+"/scaling_driver"); ok {
			if module := strings.ReplaceAll(driver, "-", "_"); b.loadable(module) {
				b.load(module)
				b.startAfter("systemd-modules-load.service")
			}
		}
	case strings.HasPrefix(name, "/sys/devices/system/"):
	case strings.HasPrefix(name, "/sys/devices/"):
		return b.device(value)
	case strings.HasPrefix(name, "/sys/fs/cgroup/"):
		return refuse("the service manager makes the control groups")
	case strings.HasPrefix(name, "/sys/kernel/"), strings.HasPrefix(name, "/sys/fs/selinux/"), strings.HasPrefix(name, "/sys/power/"):
	default:
		return refuse("it is unknown when a boot makes this attribute")
	}
	b.tmpfiles(b.at.Setting.Name, value)
	return nil
}

// parameter keeps a module's parameter. A module that an initrd loads has the options of the
// initrd's modprobe.d, so systemd-tmpfiles writes the parameter too.
func (b *builder) parameter(value string) error {
	f := strings.Split(b.at.Setting.Name, "/")
	if len(f) != 6 || f[4] != "parameters" {
		return refuse("not a parameter of a module")
	}
	if b.loadable(f[3]) {
		if strings.ContainsAny(value, " \t\"'\\#") {
			return refuse("modprobe.d cannot contain this value")
		}
		b.line(modprobeFile, "options "+f[3]+" "+f[5]+"="+value)
	}
	b.tmpfiles(b.at.Setting.Name, value)
	return nil
}

func (b *builder) modprobe() error {
	value, err := b.text()
	if err != nil {
		return err
	}
	options := strings.TrimSpace(strings.TrimPrefix(value, "+r"))
	if strings.HasPrefix(value, "+r") && options == "" {
		return errCovered
	}
	b.line(modprobeFile, "options "+b.at.Setting.Name+" "+options)
	return nil
}

func (b *builder) module() error {
	word, _, _ := strings.Cut(b.at.Want.Text, " ")
	switch word {
	case "builtin":
		return errCovered
	case "loaded":
		b.load(b.at.Setting.Name)
		return nil
	}
	return refuse("whether a boot loads the module again depends on the devices; see blacklist in modprobe.d(5)")
}

func (b *builder) bootloader() error {
	k, err := boot.Keep(b.host, b.at.Setting, b.at.Want, b.at.orig)
	if err != nil {
		return refuse("%v", err)
	}
	b.out.kernelArguments = append(b.out.kernelArguments, k.Arguments...)
	if k.File != "" {
		b.keep(k.File, "kernel arguments", nil, strings.TrimSuffix(k.Content, "\n"))
		if strings.HasPrefix(k.File, "/usr/") {
			b.note("%s is part of the image: add it where the image is built", k.File)
		}
	}
	if len(k.Command) > 0 {
		b.command("kernel arguments take effect at the next boot", k.Command...)
	}
	return nil
}

// unit keeps a unit's limits, drop-ins and whether it is enabled.
func (b *builder) unit() error {
	name, rest, _ := strings.Cut(b.at.Setting.Name, "/")
	aspect, file, _ := strings.Cut(rest, "/")
	dir := "/etc/systemd/system/" + name + ".d/"
	switch {
	case aspect == "enabled":
		enable, disable := b.at.Want.Text == "enabled", b.at.Want.Text == "disabled"
		if !enable && !disable {
			return refuse("systemctl has no command for the state %s", showValue(b.at.Want))
		}
		verb := "disable"
		if enable {
			verb = "enable"
		}
		b.out.units = append(b.out.units, unitState{name, enable})
		b.command("links decide which units a boot starts", "systemctl", verb, name)
	case aspect == "active", aspect == "frozen":
		return refuse("a boot starts what is enabled; use systemctl enable or disable")
	case file != "":
		if b.at.Want.Absent {
			return errCovered
		}
		b.keep(dir+"zz-tuning-"+file, "drop-in of "+name, nil, strings.TrimSuffix(b.at.Want.Text, "\n"))
	case strings.HasPrefix(aspect, "Limit"):
		value, err := b.text()
		if err != nil {
			return err
		}
		b.keep(dir+dropInFile, "drop-in of "+name, []string{head, "[Service]"}, aspect+"="+value)
	default:
		return refuse("unknown property of a unit")
	}
	return nil
}

func (b *builder) slice() error {
	name := b.at.Setting.Name
	section := map[string]string{".slice": "[Slice]", ".scope": "[Scope]", ".service": "[Service]"}[path.Ext(name)]
	cpus, err := unit.ParseCPUList(b.at.Want.Text)
	if section == "" || err != nil {
		return refuse("not a list of CPUs of a slice or scope")
	}
	b.keep("/etc/systemd/system/"+name+".d/"+dropInFile, "drop-in of "+name, []string{head, section}, "AllowedCPUs="+cpus.String())
	return nil
}

func (b *builder) manager() error {
	cpus, err := unit.ParseCPUList(b.at.Want.Text)
	if err != nil {
		return refuse("not a list of CPUs")
	}
	numbers := make([]string, 0, 8)
	for _, c := range cpus.Numbers() {
		numbers = append(numbers, strconv.Itoa(c))
	}
	// The empty list resets those of other files; releases before 229 know no ranges.
	b.keep(systemFile, "CPUs of systemd and its services", []string{head, "[Manager]"}, "CPUAffinity=", "CPUAffinity="+strings.Join(numbers, " "))
	return nil
}

// irqbalance keeps a variable of irqbalance in an environment file of its own, which systemd reads
// after the package's file: the later setting of a variable wins (systemd.exec(5)).
func (b *builder) irqbalance() error {
	value, err := b.text()
	if err != nil {
		return err
	}
	file, variable := b.at.Setting.Name, "IRQBALANCE_BANNED_CPULIST"
	if dir, ok := strings.CutSuffix(file, "/IRQBALANCE_ARGS"); ok {
		file, variable = dir, "IRQBALANCE_ARGS"
	}
	if strings.ContainsAny(value, "\"\\$`") {
		return refuse("cannot be quoted in an environment file")
	}
	own := file + "-tuning"
	b.keep("/etc/systemd/system/irqbalance.service.d/"+dropInFile, "drop-in of irqbalance.service", []string{head, "[Service]", "EnvironmentFile=-" + own})
	b.keep(own, "variables of irqbalance", []string{head}, variable+`="`+value+`"`)
	return nil
}

// wholeFile keeps a file that a user set by name. Files for one kernel or of fettle's own are
// covered by other settings.
func (b *builder) wholeFile() error {
	name := b.at.Setting.Name
	switch {
	case b.at.Want.Absent:
		return refuse("a missing file cannot be copied")
	case strings.HasPrefix(name, "/boot/"):
		return refuse("the file belongs to one installed kernel; use grubby or the boot loader's own tool")
	case strings.HasSuffix(name, "/zz-fettle.conf"), strings.HasSuffix(name, "/zz-fettle.cfg"):
		return errCovered
	}
	b.keep(path.Join(path.Dir(name), "zz-tuning-"+path.Base(name)), "copy of "+name, nil, strings.TrimSuffix(b.at.Want.Text, "\n"))
	return nil
}
