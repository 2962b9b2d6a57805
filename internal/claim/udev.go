package claim

import (
	"errors"
	"io/fs"
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
				if !errors.Is(err, fs.ErrNotExist) {
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

// paths are the existing places that an attribute's path names: udev knows one
// wildcard, an asterisk for a whole directory, and takes the first that fits
// (src/udev/udev-rules.c attr_subst_subdir).
func (d *udevDevice) paths(p string) []string {
	if !strings.Contains(p, "/*/") {
		if _, err := d.host.Files.Lstat(p); err != nil {
			return nil
		}
		return []string{p}
	}
	found, err := host.Glob(d.host.Files, p)
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[:1]
}

// udevDevice is one device as the rules see it.
type udevDevice struct {
	host      *host.Host
	subsystem string
	kernel    string
	link      string // in /sys/class or /sys/bus
	real      string // resolved, once asked for
	changed   map[string]bool
}

func (d *udevDevice) path() string {
	if d.real == "" {
		d.real = d.link
		if p, err := d.host.Files.Resolve(d.link); err == nil {
			d.real = p
		}
	}
	return d.real
}

// answer is yes, no, or cannot be known from files.
type answer int

const (
	no answer = iota
	yes
	perhaps
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// match decides a rule's conditions; those that stay open are returned as
// written.
func (d *udevDevice) match(rule udevRule) (answer, []string) {
	var open []string
	var parents []udevToken
	// The cheap ones first: most rules are for other devices.
	for _, t := range rule.matches {
		if t.key == "SUBSYSTEM" && udevMatch(t, d.subsystem) == no {
			return no, nil
		}
	}
	for _, t := range rule.matches {
		if t.key == "KERNELS" || t.key == "SUBSYSTEMS" || t.key == "DRIVERS" || t.key == "ATTRS" {
			parents = append(parents, t)
			continue
		}
		switch d.matchOne(t) {
		case no:
			return no, nil
		case perhaps:
			open = append(open, t.String())
		}
	}
	if len(parents) > 0 {
		switch d.matchParents(parents) {
		case no:
			return no, nil
		case perhaps:
			for _, t := range parents {
				open = append(open, t.String())
			}
		}
	}
	if len(open) > 0 {
		return perhaps, open
	}
	return yes, nil
}

func (d *udevDevice) matchOne(t udevToken) answer {
	switch t.key {
	case "ACTION":
		// At boot every device is added; a change event may come or not.
		if udevMatch(t, "add") == yes {
			return yes
		}
		if udevMatch(t, "change") == yes || udevMatch(t, "bind") == yes || udevMatch(t, "move") == yes {
			return perhaps
		}
		return no
	case "SUBSYSTEM":
		return udevMatch(t, d.subsystem)
	case "KERNEL":
		if a := udevMatch(t, d.kernel); a == yes || d.subsystem != "net" || t.op != "==" {
			return a
		}
		// The rules see a network device before it is renamed.
		for _, old := range []string{"eth", "wlan", "wwan", "usb", "ib"} {
			if strings.HasPrefix(t.value, old) {
				return perhaps
			}
		}
		return no
	case "DEVPATH":
		return udevMatch(t, strings.TrimPrefix(d.path(), "/sys"))
	case "DRIVER":
		return d.driver(d.path(), t)
	case "ATTR":
		return d.attribute(d.path(), t)
	case "ENV":
		if t.attr == "DEVTYPE" && d.subsystem == "block" {
			kind := "disk"
			if _, err := d.host.Files.Lstat(path.Join(d.path(), "partition")); err == nil {
				kind = "partition"
			}
			return udevMatch(t, kind)
		}
	case "TEST":
		p := t.value
		if strings.ContainsAny(p, "$%") {
			return perhaps
		}
		if !strings.HasPrefix(p, "/") {
			p = path.Join(d.path(), p)
		}
		return answerOf((len(d.paths(p)) > 0) == (t.op == "=="))
	}
	return perhaps
}

// attribute compares a sysfs attribute; one that is not there never matches,
// under != neither.
func (d *udevDevice) attribute(dir string, t udevToken) answer {
	if d.changed[t.attr] || strings.HasPrefix(t.attr, "[") || strings.ContainsAny(t.attr, "$%") || badPath(t.attr) {
		return perhaps
	}
	b, err := d.host.Files.ReadFile(path.Join(dir, t.attr))
	switch {
	case errors.Is(err, host.ErrNotRecorded):
		return perhaps
	case err != nil:
		return no
	}
	// White space at the end counts only where the rule has some.
	text := strings.TrimRight(string(b), "\n\r")
	if t.value == strings.TrimRight(t.value, spaces) {
		text = strings.TrimRight(text, spaces)
	}
	return udevMatch(t, text)
}

func (d *udevDevice) driver(dir string, t udevToken) answer {
	to, err := d.host.Files.Readlink(path.Join(dir, "driver"))
	if errors.Is(err, host.ErrNotRecorded) {
		return perhaps
	}
	name := ""
	if err == nil {
		name = path.Base(to)
	}
	return udevMatch(t, name)
}

// matchParents: one device of the chain must satisfy all of them together.
func (d *udevDevice) matchParents(tokens []udevToken) answer {
	result := no
	for dir := d.path(); strings.HasPrefix(dir, "/sys/devices/"); dir = path.Dir(dir) {
		all := yes
		switch _, err := d.host.Files.Lstat(path.Join(dir, "uevent")); {
		case errors.Is(err, host.ErrNotRecorded):
			all = perhaps
		case err != nil:
			continue // a directory between devices
		}
		for _, t := range tokens {
			a := perhaps
			switch t.key {
			case "KERNELS":
				a = udevMatch(t, strings.ReplaceAll(path.Base(dir), "!", "/"))
			case "SUBSYSTEMS":
				to, err := d.host.Files.Readlink(path.Join(dir, "subsystem"))
				switch {
				case err == nil:
					a = udevMatch(t, path.Base(to))
				case !errors.Is(err, host.ErrNotRecorded):
					a = udevMatch(t, "")
				}
			case "DRIVERS":
				a = d.driver(dir, t)
			case "ATTRS":
				a = d.attribute(dir, t)
			}
			if a == no {
				all = no
				break
			}
			if a == perhaps {
				all = perhaps
			}
		}
		if all == yes {
			return yes
		}
		if all == perhaps {
			result = perhaps
		}
	}
	return result
}

// substitute expands the kernel's name and number; false: there is something
// that is known only when the rule acts.
func (d *udevDevice) substitute(s string) (string, bool) {
	if !strings.ContainsAny(s, "$%") {
		return s, true
	}
	base := strings.ReplaceAll(d.kernel, "/", "!")
	number := base[len(strings.TrimRight(base, "0123456789")):]
	s = strings.NewReplacer("$kernel", base, "%k", base, "$name", base, "$number", number, "%n", number,
		"%p", strings.TrimPrefix(d.path(), "/sys"), "$devpath", strings.TrimPrefix(d.path(), "/sys"),
		"%%", "\x00", "$$", "\x01").Replace(s)
	ok := !strings.ContainsAny(s, "$%")
	return strings.NewReplacer("\x00", "%", "\x01", "$").Replace(s), ok
}

// udevMatch compares by fnmatch(3) with | between alternatives.
func udevMatch(t udevToken, text string) answer {
	// path.Match keeps * from crossing slashes, fnmatch here does not.
	noSlash := func(s string) string { return strings.ReplaceAll(s, "/", "\x01") }
	hit := false
	for p := range strings.SplitSeq(t.value, "|") {
		if p == text {
			hit = true
		} else if ok, _ := path.Match(noSlash(goPattern(p)), noSlash(text)); ok {
			hit = true
		}
	}
	return answerOf(hit == (t.op != "!="))
}
