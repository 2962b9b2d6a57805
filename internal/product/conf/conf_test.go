package conf_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	testkitconf "fettle.dev/fettle/internal/testkit/conf"
	"fettle.dev/fettle/internal/testkit/machine"
)

var ctx = context.Background()

// confMachine is a tree with the files, and the kind of a product with one main file
// for each directory below /etc/product.
func confMachine(t testing.TB, syntax conf.Syntax, files map[string]string) (setting.Kind, string) {
	t.Helper()
	dir := machine.Dir(t)
	for name, text := range files {
		machine.WriteFile(t, dir, name, text)
	}
	return conf.New(host.Mounted(dir), conf.Product{
		Name: "product", Syntax: syntax,
		Roots: func(*host.Host) []string { return []string{"/etc/product"} },
		Instances: func(h *host.Host) ([]conf.Instance, error) {
			var out []conf.Instance
			mains, err := host.Glob(h.Files, "/etc/product/*/main.conf")
			for _, m := range mains {
				out = append(out, conf.Instance{Name: filepath.Base(filepath.Dir(m)), Main: m})
			}
			return out, err
		},
		Canonical: strings.ToLower,
		Check: func(key, value string) error {
			if key != "memory" {
				return errors.New("not that one")
			}
			return nil
		},
	}), dir
}

func resolve(t testing.TB, k setting.Kind, name string) setting.Setting {
	t.Helper()
	s, err := k.Resolve(setting.Setting{Kind: "product", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResolve(t *testing.T) {
	k, dir := confMachine(t, conf.Words{}, map[string]string{
		"/etc/product/a/main.conf": "memory 1\n", "/etc/product/b/main.conf": "memory 2\n", "/etc/other": "memory 3\n",
	})
	if err := os.Symlink("/etc/product/a", filepath.Join(dir, "etc/product/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/other", filepath.Join(dir, "etc/product/out.conf")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a/memory":                              "product:/etc/product/a/main.conf#memory",
		"b/memory":                              "product:/etc/product/b/main.conf#memory",
		"/etc/product/a/main.conf#memory":       "product:/etc/product/a/main.conf#memory",
		"/etc/product/link/main.conf#memory":    "product:/etc/product/a/main.conf#memory",
		"/etc/product/gone/main.conf#memory":    "product:/etc/product/gone/main.conf#memory",
		"/etc/product/../product/a/x.conf#some": "product:/etc/product/a/x.conf#some",
	} {
		if s := resolve(t, k, name); s.String() != want {
			t.Errorf("%s is %s, want %s", name, s, want)
		}
	}
	for name, want := range map[string]string{
		"memory":                           "name one of product:a/memory, product:b/memory",
		"a/mem ory":                        "is not an option name",
		"/etc/product/a/main.conf#a\nb":    "is not an option name",
		"/etc/other#memory":                "leads outside",
		"/etc/product/out.conf#memory":     "leads outside",
		"/etc/product/../other#memory":     "leads outside",
		"/etc/productive/main.conf#memory": "leads outside",
		"/etc/product/a/main.conf":         "want product:/FILE#OPTION",
	} {
		if s, err := k.Resolve(setting.Setting{Kind: "product", Name: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", name, s, err, want)
		}
	}
	one, _ := confMachine(t, conf.Words{}, map[string]string{"/etc/product/a/main.conf": ""})
	if s := resolve(t, one, "memory"); s.Name != "/etc/product/a/main.conf#memory" {
		t.Errorf("the only instance: %s", s)
	}
	none, _ := confMachine(t, conf.Words{}, nil)
	if _, err := none.Resolve(setting.Setting{Kind: "product", Name: "memory"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no instance: %v", err)
	}
}

// Writing changes one value; taking it back leads to the same bytes, whatever the
// file ends with.
func TestWrite(t *testing.T) {
	for before, want := range map[string]string{
		"memory 1\n":                           "memory 2 gb\n",
		"# a\n  memory\t1  \nother 3":          "# a\n  memory\t2 gb  \nother 3",
		"memory 0\nmemory 1\n#memory 7\n":      "memory 0\nmemory 2 gb\n#memory 7\n",
		"memory 1\r\nother 1\r\n":              "memory 2 gb\r\nother 1\r\n",
		"":                                     "memory 2 gb\n",
		"other 1\n":                            "other 1\nmemory 2 gb\n",
		"other 1":                              "other 1\nmemory 2 gb",
		"# memory 1\n\n":                       "# memory 1\n\nmemory 2 gb\n",
		"\xff\xfe broken \x00 bytes\nmemory 1": "\xff\xfe broken \x00 bytes\nmemory 2 gb",
	} {
		k, dir := confMachine(t, conf.Words{}, map[string]string{"/etc/product/a/main.conf": before})
		file := filepath.Join(dir, "etc/product/a/main.conf")
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, 12, 34); err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		was, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		s := resolve(t, k, "memory")
		now, err := k.Read(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Write(ctx, s, setting.Text("2 gb")); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(file); string(b) != want {
			t.Errorf("%q becomes %q, want %q", before, b, want)
		}
		if v, err := k.Read(ctx, s); err != nil || v != setting.Text("2 gb") || !k.Equal(v, setting.Text("2 GB")) {
			t.Errorf("%q: reads %v, %v", before, v, err)
		}
		if err := k.Write(ctx, s, now); err != nil {
			t.Errorf("%q: %v", before, err)
		}
		if b, _ := os.ReadFile(file); string(b) != before {
			t.Errorf("%q is %q after undo", before, b)
		}
		if is, err := os.Stat(file); err != nil || host.AttrOf(is) != host.AttrOf(was) {
			t.Errorf("owner and mode: %v, were %v", host.AttrOf(is), host.AttrOf(was))
		}
	}
}

// What would be more than one value in one line, or cannot be taken back, is
// refused and changes nothing.
func TestRefused(t *testing.T) {
	const text = "memory 1\nmemory 2\n"
	k, dir := confMachine(t, conf.Words{}, map[string]string{"/etc/product/a/main.conf": text})
	s := resolve(t, k, "memory")
	for _, v := range []setting.Value{setting.Text("1\nevil 1"), setting.Text("1\r2"), setting.Text(""), setting.Text(" 1"), setting.Text("\x00"), setting.Absent} {
		if err := k.Write(ctx, s, v); err == nil {
			t.Errorf("%q was written", v)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "etc/product/a/main.conf")); string(b) != text {
		t.Errorf("the file is %q", b)
	}
	if _, oneWay := k.(setting.Irreversible).WhyIrreversible(s, setting.Text("1"), setting.Absent); !oneWay {
		t.Error("a line that fettle has not added may be taken out")
	}
	g := k.(setting.RequestChecker)
	if err := g.CheckRequest(s, setting.Text("5"), nil); err != nil {
		t.Error(err)
	}
	if err := g.CheckRequest(resolve(t, k, "program"), setting.Text("/bin/sh"), nil); !errors.Is(err, setting.ErrNotSettable) {
		t.Errorf("an option that nobody may ask for: %v", err)
	}
}

func TestLiterals(t *testing.T) {
	for value, good := range map[string]bool{"1": true, "a b": true, `"a b"`: true, "a#b": true, "": false, " a": false, "a\nb": false} {
		if got, err := (conf.Words{}).Literal(value); (err == nil) != good || good && got != value {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
}

// Random files, random names and values: what was set is read back, and going
// back gives the same bytes.
func FuzzWords(f *testing.F) {
	f.Add("a 1\nb 2", "b", "3")
	f.Add("a = 1\n\n# b", "b", `x "y`)
	f.Add("", "a.b", " ")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		k, dir := confMachine(t, conf.Words{}, map[string]string{"/etc/product/a/main.conf": text})
		testkitconf.RoundTrip(t, k, setting.Setting{Kind: "product", Name: "a/" + key}, value, filepath.Join(dir, "etc/product/a/main.conf"))
	})
}
