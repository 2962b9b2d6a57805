package profile

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name     string
		profiles map[string]string
		load     string
		want     string
	}{
		{
			"units and options in order of first appearance",
			map[string]string{"p": "[b]\ny=1\nx=2\n[a]\nz=3"}, "p",
			lines("[b]", "y=1", "x=2", "[a]", "z=3"),
		},
		{
			"main and variables are no units",
			map[string]string{"p": "[main]\nsummary=s\n[variables]\nv=1\n[u]\nx=${v}"}, "p",
			lines("[u]", "x=1"),
		},
		{
			"a child's options go in place, new ones behind",
			map[string]string{"p": "[u]\na=1\nb=2", "c": "[main]\ninclude=p\n[u]\nb=3\nc=4"}, "c",
			lines("[u]", "a=1", "b=3", "c=4"),
		},
		{
			"several profiles, left to right",
			map[string]string{"p": "[u]\na=1", "q": "[v]\nb=1\n[u]\na=2"}, "p q",
			lines("[u]", "a=2", "[v]", "b=1"),
		},
		{
			"includes come first, in their order, whatever the line order",
			map[string]string{"a": "[u]\nx=a\n[a]\n", "b": "[u]\nx=b\n[b]\n", "c": "[u]\nx=c\n[main]\ninclude=a , b;a"}, "c",
			lines("[u]", "x=c", "[a]", "[b]"),
		},
		{
			"depth first, each file once",
			map[string]string{"base": "[u]\nx=base", "l": "[main]\ninclude=base\n[u]\nx=l", "r": "[main]\ninclude=base\n[r]\n", "c": "[main]\ninclude=l,r"}, "c",
			lines("[u]", "x=l", "[r]"),
		},
		{
			"a circle of includes ends",
			map[string]string{"a": "[main]\ninclude=b\n[u]\nx=a", "b": "[main]\ninclude=a\n[u]\nx=b"}, "a",
			lines("[u]", "x=a"),
		},
		{
			"optional includes",
			map[string]string{"a": "[u]\nx=a", "c": "[main]\ninclude=-nothing,-a\n[u]\ny=1"}, "c",
			lines("[u]", "x=a", "y=1"),
		},
		{
			"the same name extends the vendor's",
			map[string]string{"p": "[u]\nx=vendor\ny=1", "/etc/tuned/p/tuned.conf": "[main]\ninclude=p\n[u]\nx=mine"}, "p",
			lines("[u]", "x=mine", "y=1"),
		},
		{
			"later directories win",
			map[string]string{"p": "[u]\nx=1", "/usr/lib/tuned/profiles/p/tuned.conf": "[u]\nx=2", "/etc/tuned/p/tuned.conf": "[u]\nx=3", "/etc/tuned/profiles/p/tuned.conf": "[u]\nx=4"}, "p",
			lines("[u]", "x=4"),
		},
		{
			"an include cannot leave the directories",
			map[string]string{"p": "[main]\ninclude=../../q\n", "q": "[u]\n", "/q/tuned.conf": "[wrong]\n"}, "p",
			lines("[u]"),
		},
		{
			"type, enabled, devices are always overwritten",
			map[string]string{"p": "[u]\ntype=disk\nenabled=0\ndevices=sda\nx=1", "c": "[main]\ninclude=p\n[u]\ny=2"}, "c",
			lines("[u]", "x=1", "y=2"),
		},
		{
			"priority, regexes and scripts only when set",
			map[string]string{
				"p": "[u]\npriority=-5\ncpuinfo_regex=a\nuname_regex=b\ndevices_udev_regex=c\nscript_pre=/a\nscript_post=/b",
				"c": "[main]\ninclude=p\n[u]\ncpuinfo_regex=z\nscript_post=/z",
			}, "c",
			lines("[u] priority=-5 udev=c cpuinfo=z uname=b pre=/a post=/z"),
		},
		{
			"enabled is True, true or 1",
			map[string]string{"p": "[a]\nenabled=True\n[b]\nenabled=yes\n[c]\nenabled=1\n[d]\nenabled=false\n[e]\nenabled=TRUE"}, "p",
			lines("[a]", "[b] disabled", "[c]", "[d] disabled", "[e] disabled"),
		},
		{
			"replace drops the older unit but keeps its place",
			map[string]string{"p": "[u]\na=1\npriority=3\n[v]", "c": "[main]\ninclude=p\n[u]\nreplace=1\nb=2"}, "c",
			lines("[u]", "b=2", "[v]"),
		},
		{
			"drop takes options away; set again they go to the end",
			map[string]string{"p": "[u]\na=1\nb=2\nc=3", "c": "[main]\ninclude=p\n[u]\ndrop=a, c\na=9"}, "c",
			lines("[u]", "b=2", "a=9"),
		},
		{
			"drop is consumed once",
			map[string]string{"p": "[u]\na=1", "c": "[main]\ninclude=p\n[u]\ndrop=a", "d": "[main]\ninclude=c\n[u]\na=2"}, "d",
			lines("[u]", "a=2"),
		},
		{
			"drop splits only after a word",
			map[string]string{"p": "[u]\n/sys/a*=1\nb=2", "c": "[main]\ninclude=p\n[u]\ndrop=/sys/a*,b"}, "c",
			lines("[u]", "/sys/a*=1", "b=2"),
		},
		{
			"scripts add up, parents first, and are paths",
			map[string]string{"p": "[script]\nscript=a.sh", "c": "[main]\ninclude=p\n[script]\nscript=${i:PROFILE_DIR}/../x/b.sh"}, "c",
			lines("[script]", "script=/usr/lib/tuned/p/a.sh|/usr/lib/tuned/x/b.sh"),
		},
		{
			"only the unit named script adds up",
			map[string]string{"p": "[s]\ntype=script\nscript=a.sh", "c": "[main]\ninclude=p\n[s]\ntype=script\nscript=b.sh"}, "c",
			lines("[s] type=script", "script=/usr/lib/tuned/c/b.sh"),
		},
		{
			"difference script-doubled: a child without a script",
			map[string]string{"p": "[script]\nscript=a.sh", "c": "[main]\ninclude=p\n[script]\npriority=5"}, "c",
			lines("[script] priority=5", "script=/usr/lib/tuned/p/a.sh"),
		},
		{
			"DEFAULT reaches every section",
			map[string]string{"p": "[DEFAULT]\ndevices=sd*\nx=1\n[a]\n[b]\nx=2"}, "p",
			lines("[a] devices=sd*", "x=1", "[b] devices=sd*", "x=2"),
		},
		{
			"PROFILE_DIR is the directory of the text",
			map[string]string{"p": "[u]\nx=${i:PROFILE_DIR}/f\ny=\\${i:PROFILE_DIR}", "c": "[main]\ninclude=p\n[u]\nz=${i:PROFILE_DIR}"}, "c",
			lines("[u]", "x=/usr/lib/tuned/p/f", `y=\${i:PROFILE_DIR}`, "z=/usr/lib/tuned/c"),
		},
		{
			"devices and regexes are expanded, names on demand",
			map[string]string{"p": "[variables]\nd=sda\nr=^x\n[u]\ndevices=${d},!sdb\ncpuinfo_regex=${r}\nuname_regex=${r}y\n"}, "p",
			lines("[u] devices=sda,!sdb cpuinfo=^x uname=^xy"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := load(t, c.profiles, strings.Fields(c.load)...)
			if got := outline(p); got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		name     string
		profiles map[string]string
		want     string // the value of x in [u] of the profile c
	}{
		{"eager, top to bottom", map[string]string{"c": "[variables]\na=1\nb=${a}2\n[u]\nx=${b}${a}"}, "121"},
		{"not defined stays", map[string]string{"c": "[u]\nx=${nope}"}, "${nope}"},
		{"escaped", map[string]string{"c": "[variables]\na=1\n[u]\nx=\\${a}"}, "${a}"},
		{"escaped twice", map[string]string{"c": "[variables]\na=1\n[u]\nx=\\\\${a}"}, `\${a}`},
		{"values are not read again", map[string]string{"c": "[variables]\na=\\\\${b}\nb=1\n[u]\nx=${a}"}, `${b}`},
		{"a reference to itself stays", map[string]string{"c": "[variables]\na=${a}\n[u]\nx=${a}"}, "${a}"},
		{"difference variable-named-script", map[string]string{"c": "[variables]\nscript=a\n[u]\nx=${script}"}, "a"},
		{"a bad name is not defined", map[string]string{"c": "[variables]\na-b=1\n[u]\nx=${a-b}"}, "${a-b}"},
		{"words are Unicode", map[string]string{"c": "[variables]\nä=1\n[u]\nx=${ä}"}, "1"},
		{"the child overrides before anything is evaluated", map[string]string{
			"p": "[variables]\na=1\nb=${a}\n[u]\nx=${b}", "c": "[main]\ninclude=p\n[variables]\na=2",
		}, "2"},
		{"difference forward-reference: the child's new variable", map[string]string{
			"p": "[variables]\na=1\n[u]\nx=${a}", "c": "[main]\ninclude=p\n[variables]\na=${new}\nnew=2",
		}, "2"},
		{"difference forward-reference: a circle stays", map[string]string{"c": "[variables]\na=1${b}\nb=2${a}\n[u]\nx=${a}"}, "12${a}"},
		{"replace", map[string]string{
			"p": "[variables]\na=1\n[u]\nx=${a}${b}", "c": "[main]\ninclude=p\n[variables]\nreplace=1\nb=2",
		}, "${a}2"},
		{"drop does nothing in variables", map[string]string{
			"p": "[variables]\na=1\n[u]\nx=${a}", "c": "[main]\ninclude=p\n[variables]\ndrop=a\nb=1",
		}, "1"},
		{"any section of the type", map[string]string{"c": "[more]\ntype=variables\na=1\n[u]\nx=${a}"}, "1"},
		{"file", map[string]string{"/etc/tuned/v.conf": "a=1\nb=${a}2 # c\nc\n[s]\nd=${b}", "c": "[variables]\ninclude=/etc/tuned/v.conf\n[u]\nx=${a},${b},${c},${d}"}, "1,12,${c},12"},
		{"file before the line of the same name", map[string]string{"/v": "a=1", "c": "[variables]\ninclude=/v\na=${a}2\n[u]\nx=${a}"}, "12"},
		{"a missing file is no error", map[string]string{"c": "[variables]\ninclude=/nope\na=1\n[u]\nx=${a}"}, "1"},
		{"the include line of the child replaces the parent's", map[string]string{
			"/v": "a=1", "/w": "b=2", "p": "[variables]\ninclude=/v\n[u]\nx=${a}${b}", "c": "[main]\ninclude=p\n[variables]\ninclude=/w",
		}, "${a}2"},
		{"the file in the profile's directory", map[string]string{"/usr/lib/tuned/c/v": "a=1", "c": "[variables]\ninclude=${i:PROFILE_DIR}/v\n[u]\nx=${a}"}, "1"},
		{"undefined is told by comparing with the escaped name", map[string]string{
			"c": "[variables]\ncheck=\\\\${cores}\ncores=${cores}\ntest=${f:regex_search_ternary:${cores}:^[0-9]:set:not set}\n[u]\nx=${test} ${cores} ${check}",
		}, "not set ${cores} ${cores}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := load(t, c.profiles, "c")
			u := p.Unit("u")
			if u == nil || u.Option("x") == nil {
				t.Fatalf("no x in [u]: %s", outline(p))
			}
			if got := u.Option("x").Value; got != c.want {
				t.Errorf("got %q, want %q (%+v)", got, c.want, p.Variables)
			}
		})
	}
}

func TestPrepend(t *testing.T) {
	p := load(t, map[string]string{
		"p": "[variables]\na=1\nb=2\n", "c": "[main]\ninclude=p\n[variables]\nprepend=1\nx=3\nb=4\ny=5",
	}, "c")
	var got []string
	for _, v := range p.Variables {
		got = append(got, v.Name+"="+v.Value)
	}
	if s := strings.Join(got, " "); s != "x=3 y=5 a=1 b=4" {
		t.Errorf("got %s", s)
	}
}

func TestPositions(t *testing.T) {
	p := load(t, map[string]string{
		"p": "[main]\nsummary=parent\n\n[u]\n# c\na=1\nb=2\ndevices=x",
		"c": "[main]\ninclude=p\nsummary=child\ndescription=d\n[u]\npriority=1\nb=3\n[script]\nscript=s.sh",
	}, "c")
	u := p.Unit("u")
	const parent, child = "/usr/lib/tuned/p/tuned.conf", "/usr/lib/tuned/c/tuned.conf"
	for _, c := range []struct {
		what string
		got  Pos
		want Pos
	}{
		{"section", u.Pos, Pos{parent, 4}},
		{"a", u.Option("a").Pos, Pos{parent, 6}},
		{"b", u.Option("b").Pos, Pos{child, 7}},
		{"priority", u.At("priority"), Pos{child, 6}},
		{"script", p.Unit("script").Option("script").Scripts[0].Pos, Pos{child, 9}},
		{"devices, which the child reset", u.At("devices"), Pos{parent, 4}},
	} {
		if c.got != c.want {
			t.Errorf("%s: at %v, want %v", c.what, c.got, c.want)
		}
	}
	if p.Summary != "child" || p.Description != "d" || p.Name() != "c" {
		t.Errorf("summary %q, description %q, name %q", p.Summary, p.Description, p.Name())
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0].String(), child+":5: [u] does not name devices") {
		t.Errorf("warnings: %v", p.Warnings)
	}
}

func TestInOrder(t *testing.T) {
	h, _ := plant(t, profiles(map[string]string{"p": "[a]\npriority=5\n[b]\n[c]\npriority=-1\n[d]\nenabled=0\n[e]\npriority=3"}))
	p, err := (&Loader{Host: h, Main: &MainConfig{DefaultInstancePriority: 3}}).Load(context.Background(), "p")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range p.InOrder() {
		got = append(got, u.Name)
	}
	if s := strings.Join(got, ""); s != "cbea" {
		t.Errorf("order %s, want cbea", s)
	}
}

func TestBuiltin(t *testing.T) {
	own := fstest.MapFS{
		"p/tuned.conf": {Data: []byte("[u]\nx=own\ny=1")},
		"o/tuned.conf": {Data: []byte("[main]\nsummary=only here\n[u]\ndir=${i:PROFILE_DIR}")},
	}
	h, _ := plant(t, profiles(map[string]string{"p": "[main]\ninclude=p\n[u]\nx=vendor", "q": "[main\n"}))
	l := &Loader{Host: h, Builtin: own}
	p, err := l.Load(context.Background(), "p", "o")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outline(p), lines("[u]", "x=vendor", "y=1", "dir=builtin:/o"); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	list, err := l.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 || list[0].Name != "o" || !list[0].Builtin || list[0].Summary != "only here" || list[0].Path != "builtin:/o/tuned.conf" ||
		list[1].Name != "p" || list[1].Builtin || list[1].Err != nil ||
		list[2].Name != "q" || list[2].Err == nil {
		t.Errorf("list: %+v", list)
	}
}

func TestSearchPath(t *testing.T) {
	got := SearchPath(&MainConfig{ProfileDirs: []string{"/etc/tuned/profiles", "/usr/lib/tuned/profiles", "/opt/p/"}}, "/home/me/p")
	want := "/usr/lib/tuned /etc/tuned /etc/tuned/profiles /usr/lib/tuned/profiles /opt/p /home/me/p"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestMainOfALoader tests that the search path and the priority of tuned-main.conf are used, and
// that directories after the search path take precedence over it.
func TestMainOfALoader(t *testing.T) {
	h, _ := plant(t, map[string]string{
		MainConfigFile: "profile_dirs=/opt/p\ndefault_instance_priority=7", "/opt/p/p/tuned.conf": "[u]\nx=main", "/home/p/tuned.conf": "[u]\nx=extra",
	})
	main, err := ReadMain(h)
	if err != nil {
		t.Fatal(err)
	}
	for want, extra := range map[string][]string{"main": nil, "extra": {"/home"}} {
		p, err := (&Loader{Host: h, Main: main, Dirs: SearchPath(main, extra...)}).Load(context.Background(), "p")
		if err != nil || p.Unit("u").Option("x").Value != want || p.Unit("u").Priority != 7 {
			t.Errorf("%s: %+v %v", want, p, err)
		}
	}
}

func TestEnviron(t *testing.T) {
	p := load(t, map[string]string{"p": "[variables]\nTUNED_b=2\na=1\nb=3"}, "p")
	if s := strings.Join(p.Environ(), " "); s != "TUNED_b=3 TUNED_a=1" {
		t.Errorf("got %s", s)
	}
}
