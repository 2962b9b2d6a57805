package eject

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
)

// rule is a udev rule for one device, or for several with the same assignments.
type rule struct {
	subsystem string
	unit      string   // section of the profile
	devices   []string // kernel names
	serial    string   // the disk's serial number, if the kernel may give the name to another disk
	sets      []string // assignments in the order of writing
	values    int
	run       bool // programs run only when the device appears
}

// device keeps an attribute of a device with a udev rule. The rule matches the nearest directory
// above the attribute that is a device.
func (b *builder) device(text string) error {
	dir, subsystem, ok := b.deviceOf(b.at.Setting.Name)
	if !ok {
		if strings.HasPrefix(b.at.Setting.Name, "/sys/devices/virtual/workqueue/") {
			b.tmpfiles(b.at.Setting.Name, text)
			return nil
		}
		return refuse("no device with a subsystem has this attribute")
	}
	attribute := strings.TrimPrefix(b.at.Setting.Name, dir+"/")
	if strings.ContainsAny(attribute, `{}"$%`) {
		return refuse("a udev rule cannot name this attribute")
	}
	value, err := udevQuote(text)
	if err != nil {
		return err
	}
	b.assign(subsystem, strings.ReplaceAll(path.Base(dir), "!", "/"), false, "ATTR{"+attribute+"}="+value)
	return nil
}

// deviceOf returns the device's directory and subsystem. A copy may lack the links, but the paths
// of disks and network devices show both.
func (b *builder) deviceOf(attribute string) (dir, subsystem string, ok bool) {
	for p := path.Dir(attribute); strings.HasPrefix(p, "/sys/devices/"); p = path.Dir(p) {
		if link, err := b.host.Files.Readlink(p + "/subsystem"); err == nil && plugin.Exists(b.host, p+"/uevent") {
			return p, path.Base(link), true
		}
		parent := path.Base(path.Dir(p))
		switch {
		case parent == "block", strings.HasPrefix(attribute, p+"/queue/"):
			return p, "block", true
		case parent == "net":
			return p, "net", true
		}
	}
	return "", "", false
}

// udevQuote quotes a value of a rule; udev expands $ and %.
func udevQuote(text string) (string, error) {
	if strings.ContainsAny(text, "\"\\\n") {
		return "", refuse("a udev rule cannot contain this value")
	}
	return `"` + strings.NewReplacer("$", "$$", "%", "%%").Replace(text) + `"`, nil
}

// assign adds an assignment for a device. Assignments of one device are in the order of writing: a
// new I/O scheduler resets the depth of the queue.
func (b *builder) assign(subsystem, device string, run bool, set string) {
	i := slices.IndexFunc(b.rules, func(r *rule) bool {
		return r.subsystem == subsystem && r.run == run && r.devices[0] == device
	})
	if i < 0 {
		i = len(b.rules)
		b.rules = append(b.rules, &rule{subsystem: subsystem, devices: []string{device}, run: run, unit: b.at.unit, serial: b.serial(subsystem, device)})
	}
	r := b.rules[i]
	r.sets = append(r.sets, set)
	r.values++
	b.at.By = append(b.at.By, b.path(udevFile))
}

// serial returns the serial number that udev recorded for a SCSI or NVMe disk. The kernel numbers
// these disks in the order in which they answer, so a name may be another disk's after a boot.
func (b *builder) serial(subsystem, device string) string {
	if subsystem != "block" || !strings.HasPrefix(device, "sd") && !strings.HasPrefix(device, "nvme") {
		return ""
	}
	if number, ok := plugin.Attribute(b.host, "/sys/class/block/"+device+"/dev"); ok && number != "" {
		record, _ := b.host.Files.ReadFile("/run/udev/data/b" + number)
		for line := range strings.Lines(string(record)) {
			id, ok := strings.CutPrefix(line, "E:ID_SERIAL=")
			if id = strings.TrimSpace(id); ok && id != "" && !strings.ContainsAny(id, `"*?[]|\`) {
				return id
			}
		}
	}
	b.unnamed = append(b.unnamed, device)
	return ""
}

// selects are the further conditions of a rule for all devices of a section: those of the
// plug-in's list of devices. A name alone does not tell a network card from a virtual device, so
// network devices have no such rule.
var selects = map[string]string{
	"block": `ENV{DEVTYPE}=="disk", ATTR{removable}=="0", SUBSYSTEMS=="scsi|virtio|xen|nvme|mmc"`,
	"usb":   `ENV{DEVTYPE}=="usb_device"`,
}

// later returns the conditions of a rule for the devices of a section that appear later. It
// returns "" if the section's devices have different values or are not selected by name.
func (b *builder) later(merged []*rule, r *rule) string {
	m, named := b.sections[r.unit]
	also := selects[r.subsystem]
	if !named || also == "" || r.run {
		return ""
	}
	for _, o := range merged {
		if o.unit == r.unit && o.subsystem == r.subsystem && !o.run && !slices.Equal(o.sets, r.sets) {
			return ""
		}
	}
	selected, not := m.Patterns()
	out := also
	if !slices.Equal(selected, []string{"*"}) {
		out += `, KERNEL=="` + strings.Join(selected, "|") + `"`
	}
	if len(not) > 0 {
		out += `, KERNEL!="` + strings.Join(not, "|") + `"`
	}
	if strings.Count(out, `"`) != strings.Count(also, `"`)+2*(strings.Count(out, "KERNEL")) {
		return "" // a quote in a pattern
	}
	return out
}

// writeRules writes the rules file: first the rules for devices that appear later, then those of
// the present devices. Devices with the same assignments share a rule.
func (b *builder) writeRules() {
	if len(b.rules) == 0 {
		return
	}
	var merged []*rule
	for _, r := range b.rules {
		i := slices.IndexFunc(merged, func(o *rule) bool {
			return o.subsystem == r.subsystem && o.unit == r.unit && o.run == r.run && o.serial == r.serial && slices.Equal(o.sets, r.sets)
		})
		if i < 0 {
			merged = append(merged, r)
			continue
		}
		merged[i].devices = append(merged[i].devices, r.devices...)
		merged[i].values += r.values
	}
	l := b.file(b.path(udevFile), named[udevFile].what, head)
	for _, r := range merged {
		if m := b.later(merged, r); m != "" {
			text := `ACTION=="add|change", SUBSYSTEM=="` + r.subsystem + `", ` + m + ", " + strings.Join(r.sets, ", ")
			if !slices.Contains(l.text, text) {
				l.text = append(l.text, text)
			}
		}
	}
	for _, r := range merged {
		if l.values += r.values; !slices.Contains(b.out.subsystems, r.subsystem) {
			b.out.subsystems = append(b.out.subsystems, r.subsystem)
		}
		// A device that is renamed has its final name in a move event.
		match := `ACTION=="add|change|move"`
		if r.run {
			match = `ACTION=="add|move"`
		}
		match += `, SUBSYSTEM=="` + r.subsystem + `", `
		if r.serial != "" {
			match += `ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="` + r.serial + `"`
		} else {
			match += `KERNEL=="` + strings.Join(r.devices, "|") + `"`
		}
		l.text = append(l.text, match+", "+strings.Join(r.sets, ", "))
	}
}

// ethtool maps the prefix of a parameter to the option of ethtool(8).
var ethtool = []struct{ prefix, option string }{
	{"feature-", "-K"}, {"coalesce-", "-C"}, {"ring-", "-G"}, {"channels-", "-L"}, {"pause-", "-A"},
}

// net keeps a parameter of a network device: attributes directly, all others with ethtool, which
// the rule runs.
func (b *builder) net() error {
	text, err := b.text()
	if err != nil {
		return err
	}
	device, param, ok := strings.Cut(b.at.Setting.Name, "/")
	if !ok || strings.ContainsAny(device, `*?[]|"`) {
		return refuse("a udev rule cannot name this device")
	}
	if attribute := map[string]string{"mtu": "mtu", "txqueuelen": "tx_queue_len"}[param]; attribute != "" {
		value, err := udevQuote(text)
		if err != nil {
			return err
		}
		b.assign("net", device, false, "ATTR{"+attribute+"}="+value)
		return nil
	}
	if strings.Contains(text, " [requested ") {
		_, text, _ = strings.Cut(strings.TrimSuffix(text, "]"), " [requested ")
	}
	args := ""
	for _, e := range ethtool {
		if name, ok := strings.CutPrefix(param, e.prefix); ok {
			args = e.option + " $name " + name + " " + text
		}
	}
	if param == "wake-on-lan" {
		args = "-s $name wol " + text
	}
	if args == "" || strings.ContainsAny(text, "'\"\\$% ") {
		return refuse("ethtool has no option for this value")
	}
	return b.run("net", device, "ethtool", args)
}

// hdparm keeps the power management of an ATA disk.
func (b *builder) hdparm() error {
	text, err := b.text()
	if err != nil {
		return err
	}
	device, what, _ := strings.Cut(b.at.Setting.Name, "/")
	option := map[string]string{"apm": "-B", "spindown": "-S"}[what]
	if option == "" || strings.ContainsAny(text, "'\"\\$% ") {
		return refuse("hdparm has no option for this value")
	}
	return b.run("block", device, "hdparm", option+" "+text+" $devnode")
}

// run adds a program to a device's rule. The program must be installed, because nothing else sets
// the value.
func (b *builder) run(subsystem, device, program, args string) error {
	for _, dir := range []string{"/usr/sbin/", "/usr/bin/", "/sbin/"} {
		if plugin.Exists(b.host, dir+program) {
			b.assign(subsystem, device, true, `RUN+="`+dir+program+" "+args+`"`)
			return nil
		}
	}
	return refuse("needs the program %s, which is not installed", program)
}
