package profile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// flat is a loaded profile as text by position, so that two profiles can be compared position by
// position: "unit sysctl/option vm.swappiness" is "10".
type flat map[string]string

func flattenTuned(a oracleAnswer) (flat, error) {
	f := flat{}
	var names []string
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	for _, u := range a.Units {
		names = append(names, u.Name)
		at := "unit " + u.Name + "/"
		priority := 0
		if u.Priority != nil {
			n, ok := parseInt(*u.Priority)
			if !ok {
				return nil, fmt.Errorf("priority %q", *u.Priority)
			}
			priority = int(n.Int64())
		}
		f[at+"type"], f[at+"enabled"], f[at+"devices"], f[at+"priority"] = u.Type, strconv.FormatBool(u.Enabled), u.Devices, strconv.Itoa(priority)
		f[at+"devices_udev_regex"], f[at+"cpuinfo_regex"], f[at+"uname_regex"] = text(u.DevicesUdevRegex), text(u.CPUInfoRegex), text(u.UnameRegex)
		f[at+"script_pre"], f[at+"script_post"] = text(u.ScriptPre), text(u.ScriptPost)
		var options []string
		for _, o := range u.Options {
			name := o[0].(string)
			options = append(options, name)
			switch v := o[1].(type) {
			case string:
				f[at+"option "+name] = v
			case []any:
				f[at+"option "+name] = strings.Trim(fmt.Sprintf("%q", v), "[]")
			default:
				return nil, fmt.Errorf("option %s is %v", name, v)
			}
		}
		f[at+"options"] = strings.Join(options, "\n")
	}
	f["units"] = strings.Join(names, "\n")
	for _, v := range a.Variables {
		f["variable "+v[0]] = v[1]
	}
	for _, m := range a.Main {
		if m[0] == "summary" || m[0] == "description" {
			f["main "+m[0]] = m[1]
		}
	}
	return f, nil
}

func flatten(p *Profile) flat {
	f := flat{}
	var names []string
	for _, u := range p.Units {
		names = append(names, u.Name)
		at := "unit " + u.Name + "/"
		f[at+"type"], f[at+"enabled"], f[at+"devices"], f[at+"priority"] = u.Type, strconv.FormatBool(u.Enabled), u.Devices, strconv.Itoa(u.Priority)
		f[at+"devices_udev_regex"], f[at+"cpuinfo_regex"], f[at+"uname_regex"] = u.DevicesUdevRegex, u.CPUInfoRegex, u.UnameRegex
		f[at+"script_pre"], f[at+"script_post"] = u.ScriptPre, u.ScriptPost
		var options []string
		for _, o := range u.Options {
			options = append(options, o.Name)
			f[at+"option "+o.Name] = o.Value
			if o.Name == scriptOption {
				var paths []string
				for _, s := range o.Scripts {
					paths = append(paths, strconv.Quote(s.Path))
				}
				f[at+"option "+o.Name] = strings.Join(paths, " ")
			}
		}
		f[at+"options"] = strings.Join(options, "\n")
	}
	f["units"] = strings.Join(names, "\n")
	for _, v := range p.Environ() {
		name, value, _ := strings.Cut(v, "=")
		f["variable "+name] = value
	}
	// An empty text is what a missing one reads as.
	if p.Summary != "" {
		f["main summary"] = p.Summary
	}
	if p.Description != "" {
		f["main description"] = p.Description
	}
	return f
}

// places lists the positions at which two profiles differ.
func (f flat) places(g flat) []string {
	var at []string
	for k, v := range f {
		if g[k] != v {
			at = append(at, k)
		}
	}
	for k, v := range g {
		if _, ok := f[k]; !ok && v != "" {
			at = append(at, k)
		}
	}
	sort.Strings(at)
	return at
}

func (f flat) describe(g flat, places []string) string {
	var b strings.Builder
	for _, p := range places {
		fmt.Fprintf(&b, "\n  %s: TuneD %q, ours %q", p, f[p], g[p])
	}
	return b.String()
}

// loaded is the result of one side for a graph.
type loaded struct {
	flat        flat
	failed      string // the error, "" if it loaded
	definitions [][2]string
}

func (o *oracle) load(machine string, g graph) loaded {
	o.t.Helper()
	a := o.ask(question{Op: "load", Machine: machine, Dirs: g.dirs, Names: g.names, Before: g.before})
	if a.Raised != "" {
		return loaded{failed: a.Raised + ": " + a.Message}
	}
	f, err := flattenTuned(a)
	if err != nil {
		return loaded{failed: err.Error()} // as TuneD would find when it makes the units
	}
	return loaded{flat: f, definitions: a.Definitions}
}

func loadOurs(h *host.Host, g graph) loaded {
	p, err := (&Loader{Host: h, Dirs: g.dirs}).Load(context.Background(), g.names...)
	if err != nil {
		return loaded{failed: err.Error()}
	}
	return loaded{flat: flatten(p)}
}

// TestInstalledProfilesAgainstTuned loads each profile of Debian's TuneD with TuneD and with
// fettle, on this machine and with its programs.
func TestInstalledProfilesAgainstTuned(t *testing.T) {
	o := startOracle(t)
	dirs := []string{"/usr/lib/tuned", "/etc/tuned"}
	names := o.ask(question{Op: "list", Dirs: dirs}).Names
	if len(names) < 30 {
		t.Fatalf("TuneD lists only %d profiles: %q", len(names), names)
	}
	h := host.Mounted(o.root.Path("/"))
	h.Exec = rootExec{o.root}
	ours := &Loader{Host: h, Dirs: dirs, Execute: true}
	list, err := ours.List()
	if err != nil {
		t.Fatal(err)
	}
	var ourNames []string
	for _, s := range list {
		ourNames = append(ourNames, s.Name)
	}
	if !slices.Equal(names, ourNames) {
		t.Errorf("profiles: TuneD %q, ours %q", names, ourNames)
	}
	temporary := regexp.MustCompile(`/tmp/tmp\.[A-Za-z0-9]+`) // of ${f:exec:mktemp...}
	var forward []string
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			theirs := o.load("", graph{dirs: dirs, names: []string{name}})
			p, err := ours.Load(context.Background(), name)
			if err != nil || theirs.failed != "" {
				t.Fatalf("TuneD %q, ours %v", theirs.failed, err)
			}
			mine := flatten(p)
			for _, f := range []flat{theirs.flat, mine} {
				for k, v := range f {
					f[k] = temporary.ReplaceAllString(v, "/tmp/tmp.X")
				}
			}
			at := theirs.flat.places(mine)
			if refersForward(theirs.definitions) {
				forward = append(forward, name)
				at = slices.DeleteFunc(at, func(p string) bool { return strings.Contains(theirs.flat[p], "${") })
			}
			if len(at) > 0 {
				t.Error(theirs.flat.describe(mine, at))
			}
		})
	}
	// Its assert2 takes the place of the parent's, before the variable that it
	// compares with, so that in TuneD it can never fail.
	if want := []string{"cpu-partitioning-powersave"}; !slices.Equal(forward, want) {
		t.Errorf("profiles with a forward reference: %q, expected %q", forward, want)
	}
}

// The number of generated graphs, and the minimum number of graphs for each class of differences.
const (
	plainGraphs   = 2000
	graphsOfClass = 60
)

// TestGraphsAgainstTuned loads generated graphs with TuneD and with fettle. A graph without
// differences must have the same result, or be refused by both.
func TestGraphsAgainstTuned(t *testing.T) {
	o := startOracle(t)
	machine, h := o.machine("machine", inventedCPUs(8, 2, "0-4,6-7", 5))
	same, refused, forward, skipped, failures := 0, 0, 0, 0, 0
	for i := 0; same < plainGraphs && failures < 10; i++ {
		gen := newGenerator(uint64(i), i)
		gen.mistakes, gen.derived, gen.scripts = true, true, true
		g := gen.graph()
		remove := writeGraph(t, machine, g)
		theirs, ours := o.load(machine, g), loadOurs(h, g)
		switch {
		case theirs.failed != "" && ours.failed != "":
			refused++
		case strings.HasPrefix(theirs.failed, "IndexError") && ours.failed == "":
			// "function-without-name": the text ${f} can also come about when
			// functions take one another apart.
			skipped++
		case theirs.failed != "" || ours.failed != "":
			failures++
			t.Errorf("graph %d: TuneD %q, ours %q\n%s", i, theirs.failed, ours.failed, g)
		default:
			if !refersForward(theirs.definitions) {
				same++
			} else if text, ok := inOrder(theirs.definitions); !ok {
				skipped++
				break
			} else {
				forward++
				g.files[gen.root+"/ordered.conf"] = text
				g.files[gen.root+"/etc/zz_ordered/tuned.conf"] = "[variables]\nreplace=1\ninclude=" + gen.root + "/ordered.conf\n"
				g.names = append(g.names, "zz_ordered")
				writeGraph(t, machine, g)
				theirs = o.load(machine, g)
			}
			if at := theirs.flat.places(ours.flat); len(at) > 0 || theirs.failed != "" {
				failures++
				t.Errorf("graph %d: %s%s\n%s", i, theirs.failed, theirs.flat.describe(ours.flat, at), g)
			}
		}
		remove()
	}
	t.Logf("%d graphs the same, %d refused by both, %d the same but for the order of variables, %d not compared (variables in a circle or defined twice, ${f})", same, refused, forward, skipped)
	if refused > plainGraphs/4 || skipped > plainGraphs/10 {
		t.Error("the generator makes too many graphs that compare nothing")
	}
}

func newGenerator(seed uint64, number int) *generator {
	return &generator{r: newRand(seed), root: fmt.Sprintf("/g%d", number)}
}

// refersForward is the predicate of "forward-reference": a variable refers to one that is defined
// later.
func refersForward(definitions [][2]string) bool {
	defined := map[string]bool{}
	for i, d := range definitions {
		for _, later := range definitions[i+1:] {
			if !defined[later[0]] && later[0] != d[0] && refersTo(d[1], later[0]) {
				return true
			}
		}
		defined[d[0]] = true
	}
	return false
}

// inOrder writes a variables file with the same variables, each after those that it refers to,
// which is fettle's order of evaluation. It fails for circular references and repeated definitions.
func inOrder(definitions [][2]string) (text string, ok bool) {
	var b strings.Builder
	byName := map[string]string{}
	for _, d := range definitions {
		if _, twice := byName[d[0]]; twice {
			return "", false
		}
		byName[d[0]] = d[1]
	}
	written := map[string]bool{} // false while what it names is written
	var write func(name string) bool
	write = func(name string) bool {
		if done, begun := written[name]; begun {
			return done
		}
		written[name] = false
		for _, d := range definitions {
			if d[0] != name && refersTo(byName[name], d[0]) && !write(d[0]) {
				return false
			}
		}
		written[name] = true
		b.WriteString(name + "=" + strings.ReplaceAll(byName[name], "\n", "\n  ") + "\n")
		return true
	}
	for _, d := range definitions {
		if !write(d[0]) {
			return "", false
		}
	}
	return b.String(), true
}

// refersTo reports whether a value contains an unescaped reference to a variable.
func refersTo(value, name string) bool {
	ref := "${" + name + "}"
	for i := strings.Index(value, ref); i >= 0; {
		if i == 0 || value[i-1] != '\\' {
			return true
		}
		next := strings.Index(value[i+1:], ref)
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// writeGraph writes a graph to a machine and returns the function that removes it.
func writeGraph(t *testing.T, machine string, g graph) func() {
	t.Helper()
	testkitmachine.Write(t, machine, g.files)
	return func() {
		for _, d := range g.dirs {
			os.RemoveAll(filepath.Dir(filepath.Join(machine, d)))
		}
	}
}

func (g graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "load %q from %q", g.names, g.dirs)
	if len(g.before) > 0 {
		fmt.Fprintf(&b, " after %q", g.before)
	}
	names := make([]string, 0, len(g.files))
	for name := range g.files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&b, "\n--- %s\n%s", name, strings.ReplaceAll(g.files[name], "\r", "\\r"))
	}
	return b.String()
}
