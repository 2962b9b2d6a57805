package override

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const whenUdev = "when the device appears, at boot by systemd-udev-trigger"

// udevFile is one file's rules, if any of them sets an attribute or a sysctl.
type udevFile struct {
	confFile
	rules []udevRule
}

// readUdev works the rules through for every device that a rule with ATTR{x}=
// or SYSCTL{x}= names by SUBSYSTEM or KERNEL. Conditions that files can answer
// (KERNEL, SUBSYSTEM, ATTR, TEST, DRIVER, DEVTYPE, their forms for parents) are
// decided; all others are handed on as the claim's Condition. Rules that name
// neither subsystem nor kernel name act on any device and are left out, as is
// what programs do that a rule runs.
func readUdev(r *reader) {
	var files []udevFile
	for _, f := range r.confFiles("udev/rules.d", ".rules") {
		if f.masked {
			continue
		}
		text, ok := r.file(f.path)
		if !ok || !strings.Contains(text, "ATTR{") && !strings.Contains(text, "SYSCTL{") {
			continue
		}
		rules, problems := parseUdev(text)
		for _, p := range problems {
			r.problem(f.path, p.Line, p.What)
		}
		if slices.ContainsFunc(rules, udevRule.acts) {
			files = append(files, udevFile{f, rules})
		}
	}
	// What rules set, they have set by now: the value that a condition on it
	// met at boot is gone.
	changed := map[string]bool{}
	for _, f := range files {
		for _, rule := range f.rules {
			for _, s := range rule.sets {
				if s.key == "ATTR" {
					changed[s.attr] = true
				}
			}
		}
	}
	for _, dev := range r.udevDevices(files) {
		dev.changed = changed
		for _, f := range files {
			r.udevApply(f, dev)
		}
	}
}

// acts: the rule sets something, for devices that it names.
func (u udevRule) acts() bool {
	return len(u.sets) > 0 && slices.ContainsFunc(u.matches, func(t udevToken) bool {
		return t.op == "==" && (t.key == "SUBSYSTEM" || t.key == "KERNEL" || t.key == "SUBSYSTEMS")
	})
}

// udevDevices lists the devices that the rules may mean.
func (r *reader) udevDevices(files []udevFile) []*udevDevice {
	want := map[string]bool{}
	for _, f := range files {
		for _, rule := range f.rules {
			if !rule.acts() {
				continue
			}
			named := false
			for _, t := range rule.matches {
				if t.key != "SUBSYSTEM" || t.op != "==" {
					continue
				}
				for s := range strings.SplitSeq(t.value, "|") {
					if s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/*?[") {
						want[s], named = true, true
					}
				}
			}
			if !named {
				want["block"], want["net"], want["cpu"] = true, true, true
			}
		}
	}
	var out []*udevDevice
	subsystems := make([]string, 0, len(want))
	for s := range want {
		subsystems = append(subsystems, s)
	}
	slices.Sort(subsystems)
	for _, s := range subsystems {
		for _, dir := range []string{"/sys/class/" + s, "/sys/bus/" + s + "/devices", "/sys/" + s} {
			if strings.Count(dir, "/") == 2 && s != "module" {
				continue
			}
			entries, err := r.host.Files.ReadDir(dir)
			if err != nil {
				if !host.NotFound(err) {
					r.unreadable(dir, err)
				}
				continue
			}
			for _, e := range entries {
				out = append(out, &udevDevice{host: r.host, subsystem: s, kernel: strings.ReplaceAll(e.Name(), "!", "/"), link: path.Join(dir, e.Name())})
			}
			break
		}
	}
	return out
}

// udevApply walks one file's rules for one device as udev does: GOTO skips to
// its LABEL; one that may or may not be taken makes what it skips conditional.
func (r *reader) udevApply(f udevFile, dev *udevDevice) {
	skipTo := ""
	maybe := map[string]string{} // label to the condition under which it is skipped to
	for _, rule := range f.rules {
		if rule.label != "" {
			delete(maybe, rule.label)
			if rule.label == skipTo {
				skipTo = ""
			}
		}
		if skipTo != "" || !rule.acts() && rule.goTo == "" {
			continue
		}
		answer, conditions := dev.match(rule)
		if answer == no {
			continue
		}
		if rule.acts() {
			for _, m := range maybe {
				conditions = append(conditions, "not ("+m+")")
			}
			slices.Sort(conditions[len(conditions)-len(maybe):])
			r.udevSets(f, rule, dev, strings.Join(conditions, ", "))
		}
		switch {
		case rule.goTo == "":
		case answer == yes && len(maybe) == 0:
			skipTo = rule.goTo
		case answer == yes: // if it is reached at all
			var reached []string
			for _, m := range maybe {
				reached = append(reached, "not ("+m+")")
			}
			slices.Sort(reached)
			maybe[rule.goTo] = strings.Join(reached, ", ")
		default:
			maybe[rule.goTo] = strings.Join(conditions, ", ")
		}
	}
}

func (r *reader) udevSets(f udevFile, rule udevRule, dev *udevDevice, condition string) {
	for _, t := range rule.sets {
		c := f.claim(Udev, rule.line, rule.text)
		c.When, c.Condition = whenUdev, condition
		value, ok := dev.substitute(t.value)
		name, ok2 := dev.substitute(t.attr)
		if !ok || !ok2 {
			if c.Condition != "" {
				c.Condition += ", "
			}
			c.Condition += "the value of " + t.String() + " is made when it acts"
		}
		c.Value = setting.Text(value)
		if t.key == "SYSCTL" {
			if key := normalizeSysctl(name); key != "" && !badPath(key) && ok2 {
				c.Setting = setting.Setting{Kind: "sysctl", Name: setting.SysctlName("/proc/sys/" + key)}
				r.add(c, 0)
			}
			continue
		}
		if strings.HasPrefix(name, "[") || badPath(name) || path.Base(name) == "uevent" || !ok2 {
			continue
		}
		for _, p := range dev.paths(path.Join(dev.path(), name)) {
			c.Setting = setting.Setting{Kind: "sysfs", Name: p}
			r.add(c, 0)
		}
	}
}
