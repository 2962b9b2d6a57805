package override

import (
	"fmt"
	"iter"
	"strings"

	"fettle.dev/fettle/internal/setting"
)

const whenModule = "when modprobe loads the module"

// readModprobe reads the "options" lines of modprobe.d(5). Options of one module are joined in the
// order of the files, and the kernel uses a parameter's last value. modprobe does not apply to
// built-in modules.
func readModprobe(r *reader) {
	var builtin map[string]bool
	for _, f := range r.confFiles("modprobe.d", ".conf") {
		if f.masked {
			continue
		}
		text, ok := r.file(f.path)
		if !ok {
			continue
		}
		lines, problems := parseModprobe(text)
		r.invalid(f.path, problems)
		for _, l := range lines {
			if builtin == nil {
				builtin = r.builtinModules()
			}
			c := f.claim(Modprobe, l.line, l.text)
			c.When = whenModule
			if c.Void == "" && builtin[l.module] {
				c.Void = "the module is built into this kernel: only the kernel command line sets its parameters"
			}
			for _, p := range l.params {
				if strings.ContainsAny(l.module+p.key, "/*?[") {
					continue // not a valid module or parameter name
				}
				c.Value = setting.Text(p.value)
				if !p.assigned {
					c.Value = setting.Text("1")
				}
				r.addPath(c, modulePath(l.module, p.key), 0)
			}
		}
	}
}

// builtinModules returns the modules built into the running kernel, from kbuild's list.
func (r *reader) builtinModules() map[string]bool {
	out := map[string]bool{}
	release := r.kernelRelease()
	if release == "" || strings.Contains(release, "/") {
		return out
	}
	b, err := r.host.Files.ReadFile("/lib/modules/" + release + "/modules.builtin")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		name := strings.TrimSpace(line[strings.LastIndexByte(line, '/')+1:])
		name, _, _ = strings.Cut(name, ".ko")
		out[strings.ReplaceAll(name, "-", "_")] = true
	}
	return out
}

// modprobeLine is one "options" line.
type modprobeLine struct {
	line   int // of its first line
	text   string
	module string
	params []parameter
}

// parseModprobe parses the options lines of one file. # begins a comment line; a backslash at the
// end of a line joins the next one.
func parseModprobe(text string) ([]modprobeLine, []Problem) {
	var out []modprobeLine
	var problems []Problem
	whole := func(l string, _ bool) (string, bool) {
		return strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r"), true
	}
	for n, l := range joinedLines(text, whole) {
		trimmed := strings.TrimSpace(l)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		f := strings.Fields(trimmed)
		if f[0] != "options" {
			continue
		}
		if len(f) < 3 {
			problems = append(problems, Problem{Line: n, What: fmt.Sprintf("%q: want options MODULE PARAMETER=VALUE", clip(trimmed))})
			continue
		}
		// The kernel receives the text after the module's name, and splits it like its own command
		// line.
		rest := strings.TrimSpace(strings.TrimPrefix(trimmed, "options"))
		rest = strings.TrimPrefix(rest, f[1])
		out = append(out, modprobeLine{n, trimmed, strings.ReplaceAll(f[1], "-", "_"), parseCommandLine(rest)})
	}
	return out, problems
}

// joinedLines joins lines that end in a backslash and yields them with the number of their first
// line. take returns the part of a line to keep, and whether to keep it. begun marks a
// continuation.
func joinedLines(text string, take func(line string, begun bool) (keep string, ok bool)) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var b strings.Builder
		first, n := 0, 0
		for line := range strings.Lines(text) {
			n++
			line, ok := take(line, first != 0)
			if !ok {
				continue
			}
			if first == 0 {
				first = n
			}
			line, more := strings.CutSuffix(line, `\`)
			b.WriteString(line)
			if more {
				continue
			}
			if !yield(first, b.String()) {
				return
			}
			b.Reset()
			first = 0
		}
		if first != 0 {
			yield(first, b.String())
		}
	}
}
