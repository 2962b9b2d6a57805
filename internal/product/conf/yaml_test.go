package conf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	testkitconf "fettle.dev/fettle/internal/testkit/conf"
)

func TestYAML(t *testing.T) {
	text := "---\n# comment\n:concurrency: 5 # threads\n:queues:\n  - default\napache::mod::event::serverlimit: '64'\n" +
		"pg::entries:\n  max_connections: 1000\n  shared_buffers: \"4GB\"\n  deep:\n    é: 1\n    x: ü y  \nempty:\nnothing: ~\nflow: {a: 1}\n" +
		"anchor: &a 5\nalias: *a\ntagged: !!str 5\nlong: a\n  b\nblock: |\n  x\n:concurrency: 7\n"
	all, err := conf.YAML{}.Assignments(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		got = append(got, fmt.Sprintf("%d %s=%s", a.Line, a.Key, a.Literal))
		if text[a.From:a.To] != a.Literal {
			t.Errorf("%+v is %q", a, text[a.From:a.To])
		}
	}
	want := "3 :concurrency=5, 6 apache::mod::event::serverlimit='64', 8 pg::entries/max_connections=1000, 9 pg::entries/shared_buffers=\"4GB\", 12 pg::entries/deep/x=ü y, 23 :concurrency=7"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	for text, want := range map[string]string{"a: 1\nb: [\n": "2: did not find", "a: 1\r": "1: the file contains line ends", "\xff": "1: the file contains line ends", "\t- a: x\n": "1: found character"} {
		if _, err := (conf.YAML{}).Assignments(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for value, want := range map[string]string{
		"5": "5", "4GB": "4GB", "'x'": "'x'", "a: b": "'a: b'", "it's": "it's", "": "''", " x": "' x'", "# x": "'# x'", "[1]": "'[1]'", "null": "'null'", "x #y": "'x #y'",
		"*a": "'*a'", "a\nb": "", "\x07": "",
	} {
		got, err := (conf.YAML{}).Literal(value)
		if (err == nil) != (want != "") || got != want {
			t.Errorf("%q: %q, %v; want %q", value, got, err, want)
		}
	}
}

// What was written is what another reader of YAML sees, and all else is as it was.
func TestYAMLWrite(t *testing.T) {
	const before = "# ours\napache::x: 1   # why\n\npg:\n    a: 'b'\n"
	for key, want := range map[string]string{
		"apache::x": "# ours\napache::x: 9   # why\n\npg:\n    a: 'b'\n",
		"pg/a":      "# ours\napache::x: 1   # why\n\npg:\n    a: 9\n",
		"pg/b":      "# ours\napache::x: 1   # why\n\npg:\n    b: 9\n    a: 'b'\n",
		"new/map/k": before + "new:\n  map:\n    k: 9\n",
		"new::key":  before + "new::key: 9\n",
	} {
		k, dir := confMachine(t, conf.YAML{}, map[string]string{"/etc/product/a/main.conf": before})
		file := filepath.Join(dir, "etc/product/a/main.conf")
		s, err := k.Resolve(setting.Setting{Kind: "product", Name: "/etc/product/a/main.conf#" + key})
		if err != nil {
			t.Fatal(err)
		}
		was, err := k.Read(ctx, s)
		if err == nil {
			err = k.Write(ctx, s, setting.Text("9"))
		}
		b, _ := os.ReadFile(file)
		if err != nil || string(b) != want {
			t.Errorf("%s: %v\n%s", key, err, b)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(b, &tree); err != nil {
			t.Error(err)
		}
		if err := k.Write(ctx, s, was); err != nil {
			t.Error(err)
		}
		if b, _ := os.ReadFile(file); string(b) != before {
			t.Errorf("%s: after the way back\n%s", key, b)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add("---\n:a: 1 # x\nb:\n  c: 'd'\n", "b/c", "e: f")
	f.Add("---\nb:\n    c: 'd'\n...\n", "b/d/e", "1")
	f.Add("x: 1", "b/d/e", "1")
	f.Add("a: 1\r\nb: \"x\"\r\n", "a", "\\")
	f.Add("{a: 1}\n", "a", "2")
	f.Add("a: é\n...\n", "b", "-")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		k, dir := confMachine(t, conf.YAML{}, map[string]string{"/etc/product/a/main.conf": text})
		testkitconf.RoundTrip(t, k, setting.Setting{Kind: "product", Name: "/etc/product/a/main.conf#" + key}, value, filepath.Join(dir, "etc/product/a/main.conf"))
	})
}

// Keys of a map that was not there go and come in any order, also at the end of a
// file without a newline, and a map with nothing else in it goes with them.
func TestYAMLMaps(t *testing.T) {
	for _, before := range []string{"", "---\n", "# ours\n", "a: 1\n", "a: 1", "a: 1\nother:\n  x: 1", "---\n# only words"} {
		for _, back := range [][]string{{"pg/x", "pg/y", "top"}, {"pg/y", "pg/x", "top"}, {"top", "pg/x", "pg/y"}} {
			text := before
			var y conf.YAML
			for _, key := range []string{"pg/x", "pg/y", "top"} {
				next, err := y.Insert(text, key, "1")
				if err != nil {
					t.Fatal(err)
				}
				text = next
			}
			for _, key := range back {
				all, err := y.Assignments(text)
				if err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				for _, a := range all {
					if a.Key == key {
						text = y.Remove(text, a)
					}
				}
			}
			if text != before {
				t.Errorf("%q with keys, taken out again as %v: %q", before, back, text)
			}
		}
	}
	for text, want := range map[string]string{"pg: {a: 1}\n": "line 1: the keys of pg are not on separate lines", "pg:\n": "by hand", "pg: &x\n  a: 1\n": "by hand", "pg: 5\n": "by hand", "a: [": "did not find"} {
		if got, err := (conf.YAML{}).Insert(text, "pg/x", "1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", text, got, err, want)
		}
	}
}

// What stands behind the first document is not read, so that nothing is put there.
func TestYAMLDocuments(t *testing.T) {
	for _, text := range []string{"a: 1\n---\nb: 2\n", "---\na: 1\n...\n", "a: 1\n---\n{ no", "a: 1\n---\nk: 2\n"} {
		if out, err := (conf.YAML{}).Insert(text, "k", "5"); err == nil || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
	for text, want := range map[string]string{"m:\n  a: 1\n---\nb: 2\n": "m:\n  k: 5\n  a: 1\n---\nb: 2\n", "---\na: 1\n": "---\na: 1\nm:\n  k: 5\n", "": "m:\n  k: 5\n"} {
		if out, err := (conf.YAML{}).Insert(text, "m/k", "5"); err != nil || out != want {
			t.Errorf("%q: %q, %v, want %q", text, out, err, want)
		}
	}
}
