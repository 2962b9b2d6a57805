package scenario

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// files are the files that the scenarios of the tests name.
var files = map[string]string{"packages.txt": "# list\na/one.rpm\nb/two.rpm\n\nc/three.rpm\n", "body.bin": "\x00\x01body", "token": "secret\n", "empty": "\n"}

func readFile(name string) ([]byte, error) {
	text, ok := files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func environment(name string) (string, bool) { return "of the environment", name == "SET" }

func parse(text string) (*Scenario, error) {
	return Parse("t.yaml", []byte(text), readFile, environment)
}

// head is the beginning of a scenario with a server.
const headText = "scenario: t\nservers: {web: 'http://localhost:1'}\n"

func TestParseErrors(t *testing.T) {
	step := func(text string) string { return headText + "steps:\n  - name: a\n" + text }
	get := "    http: {url: '${web}/'}\n"
	for _, c := range []struct{ text, says string }{
		{"", "t.yaml: empty file"},
		{"scenario: [", "t.yaml:1: "},
		{"a\n---\nb\n", "more than one document"},
		{"[]", "t.yaml:1:1: scenario: want keys and values"},
		{"scenario: t\nstep: []", `t.yaml:2:1: scenario: unknown key "step" (did you mean "steps"?)`},
		{"scenario: t\nscenario: u", `t.yaml:2:1: scenario: key "scenario" occurs twice`},
		{"title: x", "t.yaml:1:1: name missing"},
		{"scenario: t", "t.yaml:1:1: steps missing"},
		{"scenario: t\nchanges: maybe", "t.yaml:2:10: changes: want true or false"},
		{"scenario: t\nservers: {web: 'ftp://x'}", "t.yaml:2:17: server web: "},
		{"scenario: t\nservers: {web: 'http://u:hidden@x'}", "a URL with a password"},
		{"scenario: t\nservers: {name: 'http://x'}", `t.yaml:2:11: servers: the name "name" is already used by a built-in value`},
		{"scenario: t\nservers: {a b: 'http://x'}", `name "a b": want letters`},
		{"scenario: t\nload: {hosts: 0}", "t.yaml:2:15: hosts: want a whole number from 1 to 100,000"},
		{"scenario: t\nload: {rate: 5/s}", "a rate needs \"for\""},
		{"scenario: t\nload: {rate: fast, for: 1s}", "t.yaml:2:14: load: "},
		{"scenario: t\nload: {for: 1s}", "\"for\" needs a rate"},
		{"scenario: t\nload: {rate: 1/s, for: 1s, repeat: 2}", "exclude each other"},
		{"scenario: t\ndata: {x: {uuid: true, hex: 3}}", "t.yaml:2:11: data: want one of"},
		{"scenario: t\ndata: {x: {int: 5}}", "t.yaml:2:17: data: int: want a range such as 1..100"},
		{"scenario: t\ndata: {x: {lines: nosuch}}", "t.yaml:2:19: open nosuch"},
		{"scenario: t\ndata: {x: {lines: empty}}", "want 1 to 1,000,000 lines"},
		{"scenario: t\ndata: {x: {env: UNSET}}", "t.yaml:2:17: data: environment variable UNSET is not set"},
		{"scenario: t\ndata: {x: {hex: 3, pick: next}}", "pick needs lines"},
		{step("    http: {}\n"), "t.yaml:5:11: url missing"},
		{step(get + "    wait: {}\n"), `t.yaml:4:5: step "a": want one of http, wait, mqtt and command`},
		{step(""), `step "a": want one of`},
		{step("    http: {url: '${wep}/'}\n"), `t.yaml:5:18: unknown name ${wep} (did you mean "web"?)`},
		{step("    http:\n      url: ${web}/x\n      body: |\n        one\n        two ${nope}\n"), "t.yaml:9:13: unknown name ${nope}"},
		{step("    http: {url: '${web}/$x'}\n"), "t.yaml:5:25: a single $"},
		{step("    http: {url: '${web'}\n"), "${ without }"},
		{step("    http: {url: '${web|loud}'}\n"), "only raw may follow"},
		{step("    http: {url: '${web}', body: a, form: {x: y}}\n"), "body and form exclude each other"},
		{step("    http: {url: '${web}', header: {Content-Length: 5}}\n"), "set by fettle itself"},
		{step("    http: {url: '${web}', method: get}\n"), `unknown method "get" (did you mean "GET"?)`},
		{step("    http: {url: '${web}', method: GTE}\n"), `unknown method "GTE" (did you mean "GET"?)`},
		{step(get) + "thresholds: [a p95 < 2x]\n", `a: "p95 < 2x": want a time`},
		{step("    http: {url: '${web}', upload: {field: f, file: nosuch}}\n"), "open nosuch"},
		{step(get + "    expect: {status: ok}\n"), "t.yaml:6:22: expect: status: want numbers"},
		{step(get + "    expect: {exit: 0}\n"), "exit does not fit this step"},
		{step(get + "    take: {x: {jsonpath: '$['}}\n"), "t.yaml:6:27: take: jsonpath: "},
		{step(get + "    take: {x: {xpath: '//['}}\n"), "take: xpath: "},
		{step(get + "    take: {x: {regexp: '('}}\n"), "take: regexp: "},
		{step(get + "    take: {x: {regexp: 'x'}}\n"), "want a group"},
		{step(get + "    take: {x: {header: a, jsonpath: $.x}}\n"), "header goes only with regexp"},
		{step(get + "    take: {web: {header: a}}\n"), `the name "web" is already used by a server`},
		{step(get + "    for_each: {p: '${web}'}\n"), "${web} is not a list"},
		{step(get + "    for_each: {p: web}\n"), "want a list"},
		{step(get + "    think: 3s..1s\n"), "think: want a time or a range"},
		{step(get + "    on_error: ignore\n"), "want stop or continue"},
		{step(get) + "  - name: a\n" + get, `t.yaml:6:5: the step name "a" is taken`},
		{step(get) + "  - name: host\n" + get, `the step name "host" is taken`},
		{step("    http: {url: '${web}/${id}'}\n") + "  - name: b\n" + get + "    take: {id: {jsonpath: $.id}}\n", "unknown name ${id}"},
		{step("    wait: {url: '${web}'}\n"), "no \"until\""},
		{step("    mqtt: {server: '${web}'}\n"), "want one of subscribe, publish and receive"},
		{step("    mqtt: {subscribe: a, publish: b}\n"), "want one of subscribe, publish and receive"},
		{step("    command: true\n"), "want a list of words"},
		{step("    command: ['${name}']\n"), "the program must not depend on a value"},
		{step(get + "    creates: {name: '${name}'}\n"), "want name, id and remove"},
		{step(get + "    take: {id: {jsonpath: $.id}}\n    creates: {name: '${id}', id: '${id}', remove: '${web}/${id}'}\n"), "t.yaml:7:22: creates: name is recorded before the request"},
		{step(get+"    take: {tok: {jsonpath: $.t}}\n") + "  - name: b\n    http: {url: '${web}', header: {A: '${tok}'}}\n    take: {id: {jsonpath: $.id}}\n    creates: {name: x, id: '${id}', remove: '${web}/${id}'}\n", "undo does not know"},
		{step(get) + "thresholds: [b p95 < 2s]\n", `t.yaml:6:14: "b p95 < 2s": want a threshold that begins with the name of a step`},
		{step(get) + "thresholds: [a cpu < 2%]\n", "want p50 to p99.9"},
		{"scenario: t\nload: {repeat: 2}\nservers: {web: 'http://localhost:1'}\nsteps:\n  - name: a\n    once: true\n" + get, "\"once: true\" is only possible with \"repeat: 1\""},
		{step("    http: &x {url: '${web}/'}\n") + "  - name: b\n    http: *x\n", "aliases (*NAME) are not supported"},
	} {
		_, err := parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.text, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: the error reveals a password: %v", c.text, err)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := parse(headText + `
changes: true
load: {rate: 30/min, for: 2m}
data: {all: {lines: packages.txt}, one: {lines: packages.txt, pick: next}, env: {env: SET}, token: {file: token}, fixed: 5}
setup: [{name: login, http: {url: "${web}/login"}, take: {t: {header: X-Token}}}]
steps:
  - {name: wait for it, think: 1s..3s, wait: {url: "${web}/${t}", until: {jsonpath: $.s, in: [a, b]}}}
  - {name: wait, for_each: {p: "${all}"}, http: {url: "${web}/${p}"}, on_error: continue}
thresholds: [wait for it p95 < 2s, wait errors < 1%, host mean < 3s]
`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Load != (LoadSpec{Hosts: maxHosts, Repeat: 1, Rate: 0.5, For: 2 * time.Minute}) || !s.Changes || s.Creates {
		t.Errorf("%+v", s.Load)
	}
	if got := s.Steps(); !slices.Equal(got, []string{"login", "wait for it", "wait"}) {
		t.Errorf("steps %q", got)
	}
	var gates []string
	for _, g := range s.Gates {
		gates = append(gates, g.Step+": "+g.Text)
	}
	if want := []string{"wait for it: p95 < 2s", "wait: errors < 1%", ": mean < 3s"}; !slices.Equal(gates, want) {
		t.Errorf("thresholds %q, want %q", gates, want)
	}
	if s.steps[0].think != (span{time.Second, 3 * time.Second}) || !s.steps[1].continues || s.steps[1].each == nil {
		t.Errorf("%+v %+v", s.steps[0], s.steps[1])
	}
}

func TestTemplates(t *testing.T) {
	n := newNames()
	values := make([]value, 3)
	for i, text := range []string{"http://h:1/b", `a"b\ /ä` + "\n", ""} {
		at := n.define([]string{"base", "odd", "empty"}[i], "data", false)
		values[at] = value{text: text, isSet: true}
	}
	for _, c := range []struct {
		text string
		in   scope
		want string
	}{
		{"${base}/x/${odd}", urlText, "http://h:1/b/x/a%22b%5C%20/%C3%A4%0A"},
		{"${base}/?q=${odd}&r=${base}", urlText, "http://h:1/b/?q=a%22b%5C+%2F%C3%A4%0A&r=http%3A%2F%2Fh%3A1%2Fb"},
		{`{"a": "${odd}", "b": ${odd|raw}}`, jsonText, `{"a": "a\"b\\ /ä\u000a", "b": a"b\ /ä` + "\n}"},
		{"x=&${odd}", formText, "x%3D%26a%22b%5C+%2F%C3%A4%0A"},
		{"$${odd} ${empty}$$5", plain, "${odd} $5"},
		{"", plain, ""},
	} {
		got, err := n.compile(c.text, position{}, c.in)
		if err != nil || got.text(values) != c.want {
			t.Errorf("%q: %q, want %q: %v", c.text, got.text(values), c.want, err)
		}
	}
}

// TestData: values depend on the seed and the host only.
func TestData(t *testing.T) {
	s, err := parse(headText + `
data: {u: {uuid: true}, c: {choice: [2, 4, 8]}, i: {int: -3..3}, h: {hex: 7}, next: {lines: packages.txt, pick: next}, random: {lines: packages.txt, pick: random}, env: {env: SET}, token: {file: token}, fixed: 007}
steps: [{name: a, http: {url: "${web}"}}]
`)
	if err != nil {
		t.Fatal(err)
	}
	draw := func(host int, seed uint64) map[string]string {
		values := make([]value, len(s.names.slots))
		s.drawAll(values, host, seed)
		out := map[string]string{}
		for _, d := range s.data {
			out[d.name] = values[d.slot].text
		}
		return out
	}
	one, other, seeded := draw(1, 7), draw(2, 7), draw(1, 8)
	if !maps.Equal(one, draw(1, 7)) {
		t.Error("the same host and seed give other values")
	}
	if one["u"] == other["u"] || one["u"] == seeded["u"] || one["h"] == seeded["h"] {
		t.Errorf("%v %v %v", one, other, seeded)
	}
	if one["next"] != "a/one.rpm" || other["next"] != "b/two.rpm" || draw(4, 7)["next"] != "a/one.rpm" || one["env"] != "of the environment" || one["token"] != "secret" || one["fixed"] != "007" {
		t.Errorf("%v %v", one, other)
	}
	seen := map[string]bool{}
	for host := range 200 {
		v := draw(host, 7)
		if u := v["u"]; len(u) != 36 || u[14] != '4' || !strings.ContainsRune("89ab", rune(u[19])) || len(v["h"]) != 7 {
			t.Fatalf("%v", v)
		}
		seen["c"+v["c"]], seen["i"+v["i"]], seen["r"+v["random"]] = true, true, true
	}
	if len(seen) != 3+7+3 {
		t.Errorf("%d different values in 200 draws: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(headText + "steps: [{name: a, http: {url: '${web}/$$', body: '{\"a\": \"${name}\"}'}, take: {x: {xpath: '//a'}}}]")
	f.Add("scenario: &a [*a]")
	f.Add("? {a: b}\n: c")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err == nil && s == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
}
