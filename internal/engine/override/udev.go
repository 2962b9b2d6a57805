package override

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const whenUdev = "when the device appears, at boot by systemd-udev-trigger"

// udevFile holds the rules of one file. Files that set no attribute or sysctl are left out.
type udevFile struct {
	confFile
	rules []udevRule
}

// readUdev evaluates the rules for every device that a rule with ATTR{x}= or SYSCTL{x}= selects
// with SUBSYSTEM or KERNEL. Conditions that files can decide (KERNEL, SUBSYSTEM, ATTR, TEST,
// DRIVER, DEVTYPE, and their forms for parents) are decided; all others become the claim's
// Condition. It ignores rules without a subsystem or kernel name, which apply to any device. It
// also ignores the effects of programs that a rule runs.
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
		r.invalid(f.path, problems)
		if slices.ContainsFunc(rules, udevRule.acts) {
			files = append(files, udevFile{f, rules})
		}
	}
	// The rules have already set these attributes, so the value at the time of the comparison is
	// lost.
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

// acts reports whether the rule sets an attribute or sysctl.
func (u udevRule) acts() bool {
	return len(u.sets) > 0 && slices.ContainsFunc(u.matches, func(t udevToken) bool {
		return t.op == "==" && (t.key == "SUBSYSTEM" || t.key == "KERNEL" || t.key == "SUBSYSTEMS")
	})
}

// udevDevices lists the devices that the rules may apply to.
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
	for _, s := range slices.Sorted(maps.Keys(want)) {
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

// udevApply evaluates one file's rules for one device as udev does. GOTO skips to its LABEL. After
// an undecided GOTO the rules up to its LABEL are conditional.
func (r *reader) udevApply(f udevFile, dev *udevDevice) {
	skipTo := ""
	maybe := map[string]string{} // maps a label to the condition of the jump to it
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
		case answer == yes: // if it is reached
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
			c.Condition += "the value of " + t.String() + " is known only when the rule is applied"
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

// udevRule is one rule: its conditions, then its assignments.
type udevRule struct {
	line    int
	text    string
	matches []udevToken
	sets    []udevToken // ATTR{} and SYSCTL{} only
	goTo    string
	label   string
}

// udevToken is KEY{attr} OP "value".
type udevToken struct{ key, attr, op, value string }

func (t udevToken) String() string {
	attr := ""
	if t.attr != "" {
		attr = "{" + t.attr + "}"
	}
	return fmt.Sprintf("%s%s%s%q", t.key, attr, t.op, t.value)
}

// parseUdev parses the rules of one file (udev(7)). A backslash at the end of a line joins the
// next one; comment lines in between are ignored.
func parseUdev(text string) ([]udevRule, []Problem) {
	var out []udevRule
	var problems []Problem
	noComment := func(l string, begun bool) (string, bool) {
		l = strings.Trim(l, spaces)
		return l, !strings.HasPrefix(l, "#") && (l != "" || begun)
	}
	for n, l := range joinedLines(text, noComment) {
		rule := udevRule{line: n, text: l}
		tokens, err := udevTokens(l)
		if err != "" {
			problems = append(problems, Problem{Line: n, What: err})
			continue
		}
		for _, t := range tokens {
			switch assign := t.op != "==" && t.op != "!="; {
			case !assign:
				rule.matches = append(rule.matches, t)
			case t.key == "GOTO":
				rule.goTo = t.value
			case t.key == "LABEL":
				rule.label = t.value
			case t.key == "IMPORT" || t.key == "PROGRAM":
				// With "=" these are conditions too.
				rule.matches = append(rule.matches, t)
			case (t.key == "ATTR" || t.key == "SYSCTL") && t.op != "-=":
				rule.sets = append(rule.sets, t)
			}
		}
		out = append(out, rule)
	}
	return out, problems
}

// udevTokens splits one rule. The second result describes a syntax error, or is "".
func udevTokens(l string) ([]udevToken, string) {
	var out []udevToken
	for {
		l = strings.TrimLeft(l, spaces+",")
		if l == "" {
			return out, ""
		}
		var t udevToken
		i := strings.IndexAny(l, "{=!+-: \t")
		if i <= 0 {
			return nil, fmt.Sprintf("not a udev rule: %q", clip(l))
		}
		t.key, l = l[:i], l[i:]
		if l[0] == '{' {
			end := strings.IndexByte(l, '}')
			if end < 0 {
				return nil, fmt.Sprintf("%s: { without }", clip(t.key))
			}
			t.attr, l = l[1:end], l[end+1:]
		}
		l = strings.TrimLeft(l, spaces)
		for _, op := range []string{"==", "!=", "+=", "-=", ":=", "="} {
			if strings.HasPrefix(l, op) {
				t.op = op
				break
			}
		}
		l = strings.TrimLeft(l[len(t.op):], spaces)
		escaped := strings.HasPrefix(l, `e"`)
		l = strings.TrimPrefix(strings.TrimPrefix(l, "e"), "i")
		if t.op == "" || !strings.HasPrefix(l, `"`) {
			return nil, fmt.Sprintf("%s: want an operator and a value in double quotes", clip(t.key))
		}
		end := closingQuote(l[1:], escaped)
		if end < 0 {
			return nil, fmt.Sprintf("%s: value without closing quote", clip(t.key))
		}
		t.value, l = l[1:1+end], l[end+2:]
		if escaped {
			if v, ok := cUnescape(t.value); ok {
				t.value = v
			}
		} else {
			t.value = strings.ReplaceAll(t.value, `\"`, `"`)
		}
		out = append(out, t)
	}
}

// closingQuote returns the position of the quote that ends a value, ignoring \".
func closingQuote(s string, escaped bool) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (escaped || s[i+1] == '"'):
			i++
		case s[i] == '"':
			return i
		}
	}
	return -1
}
