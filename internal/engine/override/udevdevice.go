package override

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// paths returns the existing files for an attribute's path. udev's only wildcard is an asterisk
// for a whole directory, and it uses the first match (src/udev/udev-rules.c attr_subst_subdir).
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

// udevDevice is one device with the attributes that rules use.
type udevDevice struct {
	host      *host.Host
	subsystem string
	kernel    string
	link      string // in /sys/class or /sys/bus
	real      string // resolved path; "" until needed
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

// answer is yes, no, or undecidable from files.
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

// match evaluates a rule's conditions. It also returns the undecided ones, as written.
func (d *udevDevice) match(rule udevRule) (answer, []string) {
	var open []string
	var parents []udevToken
	// Cheap conditions first: most rules are for other devices.
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
		// At boot every device is added; a later change event is possible.
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
		// The rules run before network devices are renamed.
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

// attribute compares a sysfs attribute. A missing one never matches, not even with !=.
func (d *udevDevice) attribute(dir string, t udevToken) answer {
	if d.changed[t.attr] || strings.HasPrefix(t.attr, "[") || strings.ContainsAny(t.attr, "$%") || badPath(t.attr) {
		return perhaps
	}
	b, err := d.host.Files.ReadFile(path.Join(dir, t.attr))
	switch {
	case host.Unknown(err):
		return perhaps
	case err != nil:
		return no
	}
	// Trailing white space counts only if the rule's value has some.
	text := strings.TrimRight(string(b), "\n\r")
	if t.value == strings.TrimRight(t.value, spaces) {
		text = strings.TrimRight(text, spaces)
	}
	return udevMatch(t, text)
}

func (d *udevDevice) driver(dir string, t udevToken) answer {
	to, err := d.host.Files.Readlink(path.Join(dir, "driver"))
	if host.Unknown(err) {
		return perhaps
	}
	name := ""
	if err == nil {
		name = path.Base(to)
	}
	return udevMatch(t, name)
}

// matchParents reports whether a single device of the chain satisfies all conditions.
func (d *udevDevice) matchParents(tokens []udevToken) answer {
	result := no
	for dir := d.path(); strings.HasPrefix(dir, "/sys/devices/"); dir = path.Dir(dir) {
		all := yes
		switch _, err := d.host.Files.Lstat(path.Join(dir, "uevent")); {
		case host.Unknown(err):
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
				case !host.Unknown(err):
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

// substitute expands the kernel's name and number. It returns false if a substitution is known
// only when the rule runs.
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

// udevMatch compares as fnmatch(3) does, with | between alternatives.
func udevMatch(t udevToken, text string) answer {
	// * does not match slashes in path.Match, but does in this fnmatch.
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
