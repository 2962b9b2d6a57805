package rhel6

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestParseScript(t *testing.T) {
	const text = `#!/bin/sh
# a comment
. /etc/tune-profiles/functions
A="x; y"   # not a command
function helper {
	echo "}" ; echo '{'
}
start() {
	one a 'b c' "d\"e" f\ g
	two $X; three
	if a; then b; else { c; } fi
	case $x in
	(if) p ;;
	q|r) s ;;
	esac
	(sub; shell) && last
	while read l; do echo $l; done <<EOF
}
done
EOF
	x=$(echo ")" "$(y)") && z
	for i in a b; do case $i in a) echo;; esac; done
	return 0
}
stop()
{
	! four; }
process $@
`
	s, err := parseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	var top []string
	for _, c := range s.top {
		top = append(top, c.text)
	}
	if diff := cmp.Diff([]string{". /etc/tune-profiles/functions", `A="x; y"`, "process $@"}, top); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
	start, _ := s.function("start")
	type got struct {
		line int
		text string
	}
	var body []got
	for _, c := range start.body {
		body = append(body, got{c.line, c.text})
	}
	want := []got{
		{9, `one a 'b c' "d\"e" f\ g`}, {10, "two $X"}, {10, "three"}, {11, "if a; then b; else { c; } fi"},
		{12, "case $x in\n\t(if) p ;;\n\tq|r) s ;;\n\tesac"}, {16, "(sub; shell) && last"},
		{17, "while read l; do echo $l; done <<EOF\n}\ndone\nEOF"}, {21, `x=$(echo ")" "$(y)") && z`},
		{22, "for i in a b; do case $i in a) echo;; esac; done"}, {23, "return 0"},
	}
	if diff := cmp.Diff(want, body, cmp.AllowUnexported(got{})); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	argv, ok := start.body[0].simple()
	if want := []string{"one", "a", "b c", `d"e`, "f g"}; !ok || !slices.Equal(argv, want) {
		t.Errorf("words %q, want %q", argv, want)
	}
	if _, ok := start.body[1].simple(); ok {
		t.Error("an expansion is no plain word")
	}
	if stop, ok := s.function("stop"); !ok || len(stop.body) != 1 || stop.body[0].text != "! four" {
		t.Errorf("stop is %+v", stop)
	}
	if f, ok := s.function("helper"); !ok || len(f.body) != 2 {
		t.Errorf("helper is %+v", f)
	}
}

func TestBrokenScripts(t *testing.T) {
	for text, want := range map[string]string{
		"start() {\n  one\n":             "line 1: the body of start is not closed",
		"start() {\n  if a; then b\n}\n": "line 2: no fi ends this construct",
		"a 'b\n":                         "line 1: a quote is not closed",
		"a\nb \"c\n":                     "line 2: a double quote is not closed",
		"a $(b\n":                        "line 1: a \"(\" is not closed",
		"a `b\n":                         "line 1: a command substitution is not closed",
		"a\n)\n":                         "line 2: a closing parenthesis without its opening one",
	} {
		if _, err := parseScript(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestParseSysconfig(t *testing.T) {
	lines, rest, err := parseSysconfig("A=1\nB=\"x y\" # c\nexport C='/sys/{a,b}*/q'\nD=$(ls)\nE=a\\ b;F=\nG=1 program\nH=\"it's\"\nI='$x'\nls -l\nJ=${y}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range lines {
		got[l.name] = l.value
	}
	want := map[string]string{"A": "1", "B": "x y", "C": "/sys/{a,b}*/q", "E": "a b", "F": "", "H": "it's", "I": "$x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var nos []int
	for _, l := range rest {
		nos = append(nos, l.no)
	}
	if !slices.Equal(nos, []int{4, 6, 9, 10}) {
		t.Errorf("no data in lines %v, want 4, 6, 9, 10", nos)
	}
}

func TestExpandBraces(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "{a,b}": "a b", "x{a,b}y{c,d}": "xayc xayd xbyc xbyd", "{a,{b,c}d}": "a bd cd", "{a}": "{a}", "{a,": "{a,", "{}{a,b}": "{}a {}b", "{,x}": " x",
	} {
		got, err := expandBraces(in)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	if _, err := expandBraces(strings.Repeat("{a,b}", 12)); err == nil {
		t.Error("4096 words were not refused")
	}
}

func TestDiskSections(t *testing.T) {
	b := newBuilder()
	b.setDisks([]string{"sd*", "vd*"}, "elevator", "bfq", origin{})
	b.setDisks([]string{"sda"}, "readahead", "128", origin{})
	b.setDisks([]string{"*"}, "apm", "254", origin{})
	b.setDisks([]string{"sd*"}, "elevator", "none", origin{})
	var got []string
	for _, s := range b.diskSections() {
		line := strings.Join(s.devices, ",")
		for _, o := range s.options {
			line += " " + o.option + "=" + o.value
		}
		got = append(got, line)
	}
	want := []string{"sd*,!sda elevator=none apm=254", "vd* elevator=bfq apm=254", "sda elevator=none readahead=128 apm=254", "*,!sd*,!vd*,!sda apm=254"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImportErrors(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"empty", "notes.txt", "x", "not a RHEL 6 profile: none of tuned.conf, ktune.sysconfig, sysctl.ktune and ktune.sh found"},
		{"p", "tuned.conf", "enabled=1\n", `tuned.conf:1: "enabled=1" before the first section`},
		{"p", "tuned.conf", "[main\n", "tuned.conf:1: a section name is not closed"},
		{"p", "tuned.conf", "[main]\nx\n", `tuned.conf:2: "x" is neither a section nor name=value`},
		{"p", "ktune.sysconfig", "A='\n", "ktune.sysconfig:1: a quote is not closed"},
		{"p", "ktune.sh", "#!/usr/bin/python\n", "ktune.sh:1: the script is written for /usr/bin/python"},
		{"p", "ktune.sh", "start() {\n", "ktune.sh:1: the body of start is not closed"},
		{"p", "ktune.sh", "verify() {\n:\n}\n", "ktune.sh:1: function verify cannot be imported"},
		{"p", "sysctl.ktune", "a.b = 1\nx\x00\n", "sysctl.ktune:2: zero byte; not a text file"},
		{"p", "sysctl.ktune", strings.Repeat("#", maxFileSize+1), "larger than 1024 KiB"},
		{"bad name", "tuned.conf", "", `"bad name" is not a profile name`},
		{"...", "tuned.conf", "", `"..." is not a profile name`},
	} {
		root := rhel6Machine(t, "6.12.4")
		machine.WriteFile(t, root, "/p/"+c.name+"/"+c.file, c.text)
		_, err := Import(context.Background(), host.Mounted(root), "/p/"+c.name)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v, want %s", c.file, c.name, err, c.want)
		}
	}
	if _, err := Import(context.Background(), host.Mounted(t.TempDir()), "/missing"); err == nil {
		t.Error("a directory that is not there was imported")
	}
}

// TestWarnings imports single lines and checks the warning.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ file, text, release, want string }{
		{"sysctl.ktune", "kernel.sched_latency_ns = 1", "5.14.0", "on later kernels its verdict is unsupported"},
		{"sysctl.ktune", "kernel.sched_latency_ns = 1", "6.6.1", "this kernel (6.6.1) does not have it"},
		{"sysctl.ktune", "kernel.sched_nr_migrate = x", "6.6.1", "not a number"},
		{"sysctl.ktune", "vm.swappiness = >10", "6.6.1", "begins with >"},
		{"sysctl.ktune", "net.ipv4.neigh.default.base_reachable_time = 1", "6.6.1", "TuneD accepts only"},
		{"sysctl.ktune", "../etc/passwd = 1", "6.6.1", "not a line of the form"},
		{"sysctl.ktune", "a..b = 1", "6.6.1", "not a line of the form"},
		{"ktune.sysconfig", "ELEVATOR=cheap", "6.6.1", `"cheap" is not an elevator`},
		{"ktune.sysconfig", "ELEVATOR_TUNE_DEVS=/sys/block/sda/queue/scheduler", "6.6.1", "ELEVATOR is not set, so this line has no effect"},
		{"ktune.sysconfig", "ELEVATOR=cfq\nELEVATOR=noop", "6.6.1", "overridden by line 2"},
		{"ktune.sysconfig", "ELEVATOR=cfq\nELEVATOR_TUNE_DEVS=/etc/passwd", "6.6.1", "not a pattern such as /sys/block/NAME/queue/scheduler: not imported"},
		{"ktune.sysconfig", "USE_KTUNE_D=no", "6.6.1", "imported anyway"},
		{"ktune.sysconfig", "SYSCTL=/etc/other.conf", "6.6.1", "other.conf is not in the profile's directory"},
		{"ktune.sysconfig", "COLOUR=red", "6.6.1", "not a ktune setting: not imported"},
		{"ktune.sh", "start() {\n return 0\n set_cpu_governor performance\n}", "6.6.1", "never reached"},
		{"ktune.sh", "start() {\n sysctl -w vm.swappiness=1 vm.swappiness=2\n}", "6.6.1", "overrides the value 1"},
		{"ktune.sh", "start() {\n echo 1 > /sys/module/nothing/x\n}", "6.6.1", "this machine has no such file"},
		{"ktune.sh", "case $1 in start) echo;; esac\n", "6.6.1", "has no start()"},
		{"ktune.sh", "start() {\n :\n}\nprocess $@\nexit 0\n", "6.6.1", "comes after the call of process, so it runs after start or stop: not imported"},
	} {
		root := rhel6Machine(t, c.release, today...)
		machine.WriteFile(t, root, "/p/x/"+c.file, c.text+"\n")
		r := importAt(t, root, "/p/x")
		if !slices.ContainsFunc(r.Warnings, func(w Warning) bool { return strings.Contains(w.String(), c.want) && w.File == c.file }) {
			t.Errorf("%s %q: no warning %q among %v", c.file, c.text, c.want, r.Warnings)
		}
	}
}
