package rhel6

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/profiles"
)

// script converts ktune.sh. Unconditional calls of helpers with plain arguments become options of
// plug-ins. Everything else is copied into the new profile's script.
func (im *importer) script(text string) error {
	s, err := parseScript(text)
	if err != nil {
		return err
	}
	if s.interpreter != "" && !slices.Contains([]string{"/bin/sh", "/bin/bash", "/usr/bin/bash", "/usr/bin/sh"}, strings.Fields(s.interpreter + " ")[0]) {
		return &syntaxError{1, fmt.Sprintf("the script is written for %s: only the shell's language can be imported", oneLine(s.interpreter))}
	}
	im.own.line = 1
	for i, c := range s.top {
		argv, simple := c.simple()
		if len(c.tokens) > 0 && c.tokens[0].text == "process" {
			for _, after := range s.top[i+1:] {
				im.warn(scriptFile, after.line, after.text, "comes after the call of process, so it runs after start or stop: not imported")
			}
			break
		}
		switch {
		case simple && len(argv) == 2 && (argv[0] == "." || argv[0] == "source") && strings.HasSuffix(argv[1], "/functions"):
		case c.refused():
			im.refuseBarriers(c)
		default:
			im.own.prepare = append(im.own.prepare, c.text)
			im.keep(c, "outside of start and stop: kept in script.sh, where it runs before both")
		}
	}
	defined := map[string]bool{}
	for _, f := range s.functions {
		defined[f.name] = true
		if f.name == "start" || f.name == "stop" {
			continue
		}
		if slices.Contains(reserved, f.name) {
			return &syntaxError{f.line, fmt.Sprintf("function %s cannot be imported, because the new script has one of that name; rename it", f.name)}
		}
		im.own.functions = append(im.own.functions, f.text)
		im.keepText(f.line, f.text, "function of the profile: kept in script.sh")
	}
	start, ok := s.function("start")
	if !ok {
		im.warn(scriptFile, 0, "", "has no start(): code outside functions is kept and run")
		im.own.whole = true
	}
	stop, _ := s.function("stop")
	t := &scriptTranslator{importer: im, defined: defined, undone: map[string]bool{}}
	im.own.start = t.start(start.body)
	im.own.stop = t.stop(stop.body)
	im.own.verify = t.verify
	if len(im.own.foreign) > 0 {
		if there, known := im.hasFile("/bin/bash"); known && !there {
			im.warn(scriptFile, im.own.foreign[0], "", "RHEL 6's sh was bash, which this machine lacks; install bash, or check script.sh for bash-only syntax")
		}
	}
	return nil
}

// reserved lists the function names that the new script needs.
var reserved = []string{"prepare", "verify", "process"}

func (im *importer) hasFile(p string) (there, known bool) {
	if _, err := im.host.Files.Lstat("/bin"); err != nil {
		return false, false
	}
	_, err := im.host.Files.Stat(p)
	return err == nil, true
}

// keep copies a command unchanged and adds a warning for each of its lines.
func (im *importer) keep(c command, why string) { im.keepText(c.line, c.text, why) }

func (im *importer) keepText(first int, text, why string) {
	for i, l := range strings.Split(text, "\n") {
		if strings.TrimSpace(l) != "" {
			im.warn(scriptFile, first+i, l, "%s", why)
			im.own.foreign = append(im.own.foreign, first+i)
		}
	}
}

var barriersOff = text.LazyRegexp(`\bnobarrier\b|\bbarrier=(0|none)\b`)

// refused reports whether a command would disable write barriers.
func (c command) refused() bool {
	return barriersOff().MatchString(c.text) || len(c.tokens) > 0 && c.tokens[0].text == "disable_disk_barriers"
}

const barriersID = "write-barriers-off"

func (im *importer) refuseBarriers(c command) {
	what := "write barriers stay on"
	if n := strings.Count(c.text, "\n"); n > 0 {
		what += fmt.Sprintf(", the command of %d lines is left out", n+1)
	}
	if im.refusedAt > 0 {
		im.refuse(scriptFile, c.line, c.text, barriersID, "%s, for the reason given for line %d", what, im.refusedAt)
		return
	}
	im.refusedAt = c.line
	for _, r := range profiles.Refusals {
		if r.ID == barriersID {
			im.refuse(scriptFile, c.line, c.text, r.ID, "%s: %s", what, r.Reason)
		}
	}
}

// scriptTranslator converts start() and then stop().
type scriptTranslator struct {
	*importer
	defined map[string]bool // functions that the profile defines itself
	// undone lists the calls in stop() that revert changes now made by plug-ins. The keys are the
	// helper's name, "sysctl:NAME" or "file:PATH".
	undone map[string]bool
	verify []string
}

// start returns the commands of start() that stay in the script.
func (t *scriptTranslator) start(body []command) []string {
	var own, inScript []string
	certain := true // no earlier command may have left the function
	for i, c := range body {
		call, ok := c.call()
		if ok && call.name() == "return" {
			if i+1 < len(body) {
				t.warn(scriptFile, body[i+1].line, body[i+1].text, "never reached, because start() returns before it: not imported")
			}
			break
		}
		if c.refused() {
			if rest, ok := t.otherOptions(call, ok); ok {
				own = append(own, rest)
			}
			t.refuseBarriers(c)
			t.undone["enable_disk_barriers"] = true
			continue
		}
		if ok && certain && !t.defined[call.name()] && t.translate(call, origin{scriptFile, c.line, c.text}) {
			continue
		}
		own = append(own, c.text)
		if ok && !t.defined[call.name()] && slices.Contains(supplied(), call.name()) && call.target == nil {
			t.note(origin{scriptFile, c.line, c.text}, "script.sh")
			if certain && call.literal() {
				t.verify = append(t.verify, c.text)
			}
			for _, h := range helpers() {
				if h.name == call.name() {
					inScript = append(inScript, append(h.undo, h.name)...)
				}
			}
			continue
		}
		why := "no plug-in can do this"
		if c.mentions(supplied()...) && !ok {
			why = "this command runs under a condition, or does more than the helper"
		}
		t.keep(c, why+": kept unchanged in script.sh, where verify cannot check it")
		if c.mentions("return", "exit") {
			certain = false
		}
		// If the script still calls a helper, the script must also undo it.
		for _, h := range helpers() {
			if c.mentions(h.name) {
				inScript = append(inScript, append(h.undo, h.name)...)
			}
		}
	}
	for _, name := range inScript {
		delete(t.undone, name)
	}
	return own
}

// otherOptions returns the call of a remount helper without the barrier options, if other options
// remain.
func (t *scriptTranslator) otherOptions(c call, ok bool) (string, bool) {
	if !ok || len(c.words) < 2 || !strings.HasPrefix(c.name(), "remount_") || !c.words[1].literal {
		return "", false
	}
	var left []string
	for _, o := range strings.Split(c.words[1].value, ",") {
		if !barriersOff().MatchString(o) && o != "" {
			left = append(left, o)
		}
	}
	if len(left) == 0 || strings.ContainsFunc(strings.Join(left, ""), func(r rune) bool { return strings.ContainsRune(" \t'\"\\$`;&|<>()\n", r) }) {
		return "", false
	}
	out := []string{c.name(), strings.Join(left, ",")}
	for _, w := range c.words[2:] {
		out = append(out, w.text)
	}
	return strings.Join(out, " "), true
}

// stop returns the commands of stop() that stay in the script. It drops those that revert changes
// which plug-ins now undo by themselves.
func (t *scriptTranslator) stop(body []command) []string {
	var own []string
	for i, c := range body {
		call, ok := c.call()
		if ok && call.name() == "return" {
			if i+1 < len(body) {
				t.warn(scriptFile, body[i+1].line, body[i+1].text, "never reached, because stop() returns before it: not imported")
			}
			break
		}
		if ok && !t.defined[call.name()] && t.undoes(call) {
			t.note(origin{scriptFile, c.line, c.text}, "the plug-in restores the previous value")
			continue
		}
		if c.refused() {
			t.refuseBarriers(c)
			continue
		}
		own = append(own, c.text)
		if ok && !t.defined[call.name()] && slices.Contains(supplied(), call.name()) && call.target == nil {
			t.note(origin{scriptFile, c.line, c.text}, "script.sh")
			continue
		}
		t.keep(c, "no plug-in undoes this: kept in script.sh")
	}
	return own
}

func (t *scriptTranslator) undoes(c call) bool {
	name := c.name()
	switch {
	case t.undone[name]:
		return true
	case strings.HasPrefix(name, "remount_") && len(c.words) > 1 && (c.words[1].value == "barrier" || c.words[1].value == "barrier=1"):
		return true // barriers were never disabled
	case name == "echo" && c.target != nil:
		return t.undone["file:"+c.target.value]
	case name == "sysctl":
		keys, ok := sysctlArguments(c)
		for _, k := range keys {
			ok = ok && t.undone["sysctl:"+k.name]
		}
		return ok
	case strings.HasSuffix(name, "/pmqos-static.py"):
		return t.undone["pmqos-static.py"]
	case name == "ethtool" && len(c.words) > 2:
		return t.undone["ethtool:"+c.words[1].value+" "+c.words[2].value]
	}
	return false
}

// translate converts a call to options of plug-ins. It returns false if it cannot.
func (t *scriptTranslator) translate(c call, from origin) bool {
	if !c.literal() {
		return false
	}
	args := c.args()
	switch name := c.name(); {
	case name == "echo" && c.target != nil && c.target.literal:
		if len(args) > 0 && args[0] == "-n" {
			args = args[1:]
		}
		if len(args) != 1 || !t.write(c.target.value, args[0], from) {
			return false
		}
		t.undone["file:"+c.target.value] = true
		return true
	case c.target != nil:
		return false
	case name == "sysctl":
		keys, ok := sysctlArguments(c)
		for _, k := range keys {
			t.sysctl(k.name, k.value, from)
			t.undone["sysctl:"+k.name] = true
		}
		return ok
	case strings.HasSuffix(name, "/pmqos-static.py"):
		us, ok := strings.CutPrefix(strings.Join(args, " "), "cpu_dma_latency=")
		if _, err := strconv.ParseUint(us, 10, 31); !ok || err != nil {
			return false
		}
		t.set("cpu", "force_latency", us, from)
		t.undone["pmqos-static.py"] = true
		return true
	case name == "ethtool":
		if len(args) < 2 || !t.ethtool(args, from) {
			return false
		}
		t.undone["ethtool:"+args[0]+" "+args[1]] = true
		return true
	}
	for _, h := range helpers() {
		if h.name != c.name() {
			continue
		}
		if len(args) != h.args || h.args > 0 && !h.valid().MatchString(args[0]) || !h.to(t.importer, args, from) {
			return false
		}
		for _, u := range append(h.undo, h.name) {
			t.undone[u] = true
		}
		return true
	}
	return false
}
