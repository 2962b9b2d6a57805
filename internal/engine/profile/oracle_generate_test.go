package profile

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// graph is a generated set of profiles that include each other.
type graph struct {
	files  map[string]string
	dirs   []string
	names  []string // to load
	before []string // loaded first by the same TuneD, as a daemon would have
}

// generator writes random graphs. They contain none of Differences except "forward-reference",
// which derived allows.
type generator struct {
	r    *rand.Rand
	root string // directory of the graph
	// mistakes allows what both sides must refuse, derived variables that refer
	// to others, scripts the option script.
	mistakes, derived, scripts bool

	profiles []string
	g        graph
}

func (gen *generator) graph() graph {
	r := gen.r
	gen.g = graph{files: map[string]string{}, dirs: []string{gen.root + "/lib", gen.root + "/etc"}}
	if r.IntN(5) == 0 {
		gen.g.dirs = append(gen.g.dirs, gen.root+"/more")
	}
	gen.profiles = nil
	for i := range 1 + r.IntN(8) {
		gen.profiles = append(gen.profiles, fmt.Sprintf("p%d", i))
	}
	for i, name := range gen.profiles {
		first := r.IntN(len(gen.g.dirs))
		gen.write(gen.g.dirs[first], name, i)
		if r.IntN(5) == 0 {
			gen.write(gen.g.dirs[(first+1)%len(gen.g.dirs)], name, i)
		}
	}
	for i := range 1 + r.IntN(2) {
		gen.g.files[fmt.Sprintf("%s/vars%d.conf", gen.root, i)] = gen.variablesFile()
	}
	gen.g.names = []string{"p0"}
	for r.IntN(3) == 0 {
		gen.g.names = append(gen.g.names, pick(r, gen.profiles))
	}
	if r.IntN(20) == 0 {
		gen.g.names = append(gen.g.names, "-missing")
	}
	return gen.g
}

func (gen *generator) chance(percent int) bool { return gen.r.IntN(100) < percent }

// write writes the tuned.conf of profile number i into dir.
func (gen *generator) write(dir, name string, i int) {
	var b strings.Builder
	for range gen.r.IntN(2) {
		b.WriteString(pick(gen.r, []string{"#\n# a profile\n#\n\n", "; note\n", "\n\n", "# [sysctl]\n"}))
	}
	sections := 1 + gen.r.IntN(6)
	if gen.chance(80) {
		gen.mainSection(&b, name, i)
	}
	for range sections {
		gen.section(&b)
	}
	if gen.mistakes && gen.chance(4) {
		b.WriteString(pick(gen.r, []string{"no delimiter\n", "=no name\n", "[unclosed\n", "[x]\na=${f:assertion:failed:1:2}\n", "[x]\na=${f:assertion_non_equal:failed:1:1}\n"}))
	}
	text := b.String()
	if gen.mistakes && gen.chance(1) {
		text = "before=any section\n" + text
	}
	switch {
	case gen.chance(3):
		text = strings.ReplaceAll(text, "\n", "\r\n")
	case gen.chance(1):
		text = strings.ReplaceAll(text, "\n", "\r")
	case gen.chance(3):
		text = strings.TrimRight(text, "\n")
	}
	gen.g.files[path.Join(dir, name, profileFile)] = text
}

func (gen *generator) mainSection(b *strings.Builder, name string, i int) {
	gen.header(b, "main")
	if gen.chance(40) {
		gen.option(b, "summary", gen.value(false))
	}
	if includes := gen.includes(name, i); includes != "" {
		b.WriteString("include" + pick(gen.r, []string{"=", " = "}) + includes + pick(gen.r, []string{"\n", " # comment\n", " \n"}))
	}
	if gen.chance(20) {
		gen.option(b, "description", gen.value(false))
	}
}

// includes names mostly profiles with higher numbers, so that chains and diamonds occur. Sometimes
// it names a circle, the same name in another directory, or a missing profile.
func (gen *generator) includes(name string, i int) string {
	var list []string
	for gen.chance(45) && len(list) < 4 {
		other := pick(gen.r, gen.profiles)
		if later := gen.profiles[i+1:]; len(later) > 0 && gen.chance(85) {
			other = pick(gen.r, later)
		}
		switch n := gen.r.IntN(100); {
		case n < 12:
			other = "-" + other
		case n < 17:
			other = "-missing"
		case n < 22:
			other = name
		case n < 25:
			other = "some/dir/" + other
		case n < 29:
			other = "${f:strip: " + other + " }"
		case n < 31:
			other = "${f:regex_search_ternary:abc:b:" + other + ":missing}"
		case n < 32 && gen.mistakes:
			other = pick(gen.r, []string{"missing", "${v1}", ""})
		}
		list = append(list, other)
	}
	return strings.Join(list, pick(gen.r, []string{",", ", ", ";", " ; ", "  ,"}))
}

// Sections and their options, few enough to occur in several profiles.
var (
	unitNames   = []string{"sysctl", "vm", "disk", "disk_more", "net", "sysfs", "cpu", "my unit", "bootloader", "modules"}
	optionNames = []string{"a", "b", "vm.swappiness", "/sys/kernel/mm/x", "A", "elevator", "c d", "key:colon"}
)

func (gen *generator) section(b *strings.Builder) {
	r := gen.r
	switch n := r.IntN(100); {
	case n < 25:
		gen.variables(b)
		return
	case n < 33 && gen.scripts:
		gen.header(b, "script")
		// First, so that no indented line before can swallow it: a [script]
		// without one is a difference.
		b.WriteString("script=" + pick(r, []string{"script.sh", "./a/../b.sh", "/abs/c.sh", "${i:PROFILE_DIR}/d.sh", "e f.sh"}) + "\n")
	case n < 38:
		gen.header(b, "DEFAULT")
		for range 1 + r.IntN(2) {
			gen.option(b, pick(r, []string{"d1", "a", "v9", "b", "enabled"}), pick(r, []string{"1", "default", "0"}))
		}
		return
	default:
		gen.header(b, pick(r, unitNames))
		if gen.scripts && gen.chance(4) {
			gen.option(b, "script", "other.sh")
		}
	}
	gen.attributes(b)
	for range r.IntN(4) {
		gen.option(b, pick(r, optionNames), gen.value(true))
	}
}

func (gen *generator) attributes(b *strings.Builder) {
	for _, a := range []struct {
		percent int
		name    string
		values  []string
	}{
		{12, "type", []string{"sysctl", "disk", "sysfs", "${v1}", ""}},
		{10, "enabled", []string{"True", "true", "1", "0", "false", "yes", ""}},
		{15, "devices", []string{"*", "sda", "sd*, !sdb", "${v1}", "sda ${v2}", "${f:cpulist2devs:0-2}", ""}},
		{6, "devices_udev_regex", []string{"(ID_MODEL=x)", "${v1}"}},
		{8, "cpuinfo_regex", []string{"Intel", `model\s+name`, "${word}", "${f:strip: x${word} }"}},
		{8, "uname_regex", []string{"x86_64", "${word}.*"}},
		{15, "priority", []string{"0", "10", "-5", "007", "+3"}},
		{5, "script_pre", []string{"/a/pre.sh", "${i:PROFILE_DIR}/pre.sh"}},
		{5, "script_post", []string{"/a/post.sh"}},
		{8, "replace", []string{"1", "true", "True", "0", "yes"}},
		{12, "drop", []string{"a", "a,b", "b ; vm.swappiness", "/sys/kernel/mm/x", "none", "c d", "key:colon,A", "a, ,b"}},
	} {
		value := pick(gen.r, a.values)
		switch {
		case !gen.chance(a.percent):
		case slices.Contains([]string{"priority", "cpuinfo_regex", "uname_regex"}, a.name):
			// Right in itself, and z takes the indented lines that follow.
			b.WriteString(a.name + "=" + value + pick(gen.r, []string{"\n", " # comment\n"}) + "z=0\n")
		default:
			gen.option(b, a.name, value)
		}
	}
}

var variableNames = []string{"v1", "v2", "v3", "isolated_cores", "V1", "TUNED_x", "ünï"}

func (gen *generator) variables(b *strings.Builder) {
	gen.header(b, "variables")
	if gen.chance(8) {
		gen.option(b, "replace", "1")
	}
	if gen.chance(25) {
		file := fmt.Sprintf("%s/vars%d.conf", gen.root, gen.r.IntN(2))
		gen.option(b, "include", pick(gen.r, []string{file, strings.TrimPrefix(file, "/"), gen.root + "/lib/../vars0.conf", "/missing.conf"}))
	}
	if gen.chance(15) {
		b.WriteString("word = intel\n") // the only one in regular expressions, which must be right
	}
	for range gen.r.IntN(4) {
		name := pick(gen.r, variableNames)
		if gen.chance(4) {
			name = "not-a-word"
		}
		gen.option(b, name, gen.value(gen.derived))
	}
}

func (gen *generator) variablesFile() string {
	var b strings.Builder
	for range gen.r.IntN(5) {
		switch n := gen.r.IntN(20); {
		case n == 0:
			b.WriteString("valueless\n")
		case n == 1:
			b.WriteString("[any]\n")
		case n == 2:
			b.WriteString("# v1=comment\n")
		default:
			b.WriteString(pick(gen.r, append([]string{"f1"}, variableNames...)) + pick(gen.r, []string{"=", " = "}) +
				strings.ReplaceAll(gen.value(gen.derived), "\n", "") + "\n")
		}
	}
	return b.String()
}

func (gen *generator) header(b *strings.Builder, name string) {
	b.WriteString("[" + name + "]" + pick(gen.r, []string{"", "", "", "", " # comment", " ;x", " trailing", " "}) + "\n")
}

// option writes a line. Some lines are indented, which makes them part of the previous value; some
// have several lines.
func (gen *generator) option(b *strings.Builder, name, value string) {
	if gen.chance(4) {
		b.WriteString(pick(gen.r, []string{" ", "\t", "    "}))
	}
	if gen.chance(5) {
		b.WriteString(pick(gen.r, []string{"# comment\n", "; a=1\n", "\n", "  # indented\n"}))
	}
	if gen.chance(6) {
		value += "\n" + pick(gen.r, []string{"  more", "\tmore", "  [not a section]", "  # only a comment", "\n  after an empty line", "   a=b", "  ; no comment"})
	}
	gen.line(b, name, value)
}

func (gen *generator) line(b *strings.Builder, name, value string) {
	b.WriteString(name + pick(gen.r, []string{"=", "=", " = ", "= ", " =", "\t=\t"}) + value +
		pick(gen.r, []string{"", "", "", "", " ", "\t", " # comment", "\t#", " ; part", "#part"}) + "\n")
}

// value returns a value; with refer it may contain variables.
func (gen *generator) value(refer bool) string {
	var b strings.Builder
	for range 1 + gen.r.IntN(3) {
		b.WriteString(gen.atom(refer))
		b.WriteString(pick(gen.r, []string{"", "", " ", ",", ":"}))
	}
	return b.String()
}

func (gen *generator) atom(refer bool) string {
	switch n := gen.r.IntN(100); {
	case n < 35:
		return pick(gen.r, []string{"10", "performance", "a b", "x;y", "x#y", `"quoted"`, "'q'", "%d %(a)s %%", "ünï", "[a]", "k=v", "a:b",
			">10", "<5", "a|b", "!c", "$", "{x", `\`, "$$", `a\:b`, "a # b", "", "0-3", "*"})
	case n < 40:
		return pick(gen.r, []string{"${i:PROFILE_DIR}", `\${i:PROFILE_DIR}`, "${i:PROFILE_DIR}/x${i:PROFILE_DIR}", "${i:OTHER}", "$${i:PROFILE_DIR}"})
	case n < 44:
		return pick(gen.r, []string{"${undefined}", "${not-a-word}", "${}", "${ v1}"})
	case n < 46 && refer:
		return pick(gen.r, []string{"}", "${", "${v1", "{}", "${v1}}", "${${v1}}"})
	case n < 75 && refer:
		name := pick(gen.r, variableNames)
		return pick(gen.r, []string{"${" + name + "}", "${" + name + "}", "${" + name + "}", `\${` + name + "}", `\\${` + name + "}", "$${" + name + "}", "${" + name + "}${v1}"})
	case n < 75:
		return pick(gen.r, []string{"plain", "5", "7-9"})
	}
	return gen.function(refer, 3)
}

// function returns a call whose result is never empty at its very beginning.
func (gen *generator) function(refer bool, depth int) string {
	arg := func() string {
		if depth > 0 && gen.chance(30) {
			return gen.function(refer, depth-1)
		}
		if refer && gen.chance(40) {
			return "${" + pick(gen.r, variableNames) + "}"
		}
		return pick(gen.r, []string{"a", "b c", "1", `x\:y`, "", " z "})
	}
	switch gen.r.IntN(14) {
	case 0:
		return "${f:strip: x" + arg() + ":" + arg() + " }"
	case 1:
		return "${f:kb2s:" + pick(gen.r, []string{"4", "128", "x", ""}) + "}"
	case 2:
		return "${f:s2kb:" + pick(gen.r, []string{"5", "256", "x"}) + "}"
	case 3:
		return "${f:cpulist_unpack:" + pick(gen.r, []string{"0-3,^2", "0x0f", "1,2:4-5"}) + "}"
	case 4:
		return "${f:cpulist_pack:" + pick(gen.r, []string{"1,2,3", "7,0,1", "0xff,,9"}) + "}"
	case 5:
		return "${f:cpulist2hex:" + pick(gen.r, []string{"0-3", "33", arg()}) + "}"
	case 6:
		return "${f:cpulist2hex_invert:" + arg() + "}"
	case 7:
		return "${f:cpulist_online:0," + pick(gen.r, []string{"5-9", "1", "6"}) + "}"
	case 8:
		return "${f:cpulist2devs:0-" + pick(gen.r, []string{"1", "3"}) + "}"
	case 9:
		return "${f:regex_search_ternary:" + arg() + ":" + pick(gen.r, []string{"^a", "x.y", `\d+`, "z$"}) + ":yes" + arg() + ":no}"
	case 10:
		return "${f:assertion:" + arg() + ":same:same}"
	case 11:
		return pick(gen.r, []string{"${f:no_such_function:a}", "${f:kb2s}", "${f:strip}", "${f::a}", "${f:a b:c}", "${f:kb2s:1:2}"})
	case 12:
		return `\${f:strip:` + arg() + "}"
	}
	return "${f:cpuinfo_check:" + pick(gen.r, []string{"Intel", "AMD", "flags"}) + ":yes:else}"
}

// newRand returns a random generator with the same numbers in each run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(220, seed)) }
