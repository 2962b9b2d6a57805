package puppetserver

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/product"
)

func TestHOCON(t *testing.T) {
	text := `# a comment
jruby-puppet: {
    # max-active-instances: 9
    gem-path: [${jruby-puppet.gem-home}, "/usr/lib/gems"] # as its package has it
    ruby-load-path: [/opt/a, {b: 1}, "]"]
    max-active-instances: 6 // six
    multithreaded = "true",  environment { x: ${HOME}/y
      z = a b }
}
jruby-puppet.max-requests-per-instance = 1000
"quoted.key": 1, list += 5
text: """max-active-instances: 1
"""
a { b { c: 3 } }{ d: 4 }
include "other.conf"
`
	all, err := hocon(text)
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
	want := `6 jruby-puppet.max-active-instances=6, 7 jruby-puppet.multithreaded="true", 10 jruby-puppet.max-requests-per-instance=1000, 11 quoted.key=1, 11 list=5, 14 a.b.c=3, 14 a.d=4`
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	for text, want := range map[string]string{
		"a: {\n b: 1\n": "3: { is not closed", "a: [1\n": "2: [ is not closed", "a\n": "1: \"a\" is not a key", "\n: 1": "2: a value without a key",
		"a: \"x\n": "1: a quote is not closed", "{a: 1}\n}": "2: \"}\" after the end", "a:\n": "2: a has no value", "a: ,\n}": "",
	} {
		_, err := hocon(text)
		if want == "" {
			want = "2: "
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := hocon(strings.Repeat("a{", 100)); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("deep: %v", err)
	}
}

func TestJava(t *testing.T) {
	text := "JAVA_BIN=/usr/bin/java\nJAVA_ARGS=\"-Xms1g\"\n#JAVA_ARGS=\"-Xmx9g\"\nJAVA_ARGS=\"-Xms2g -Xmx2g -XX:MaxMetaspaceSize=256m -Xmx4096m -XX:ReservedCodeCacheSize=512m -Dx=-Xmx7g\" # x\n"
	var got []string
	for _, a := range java(text) {
		got = append(got, fmt.Sprintf("%d %s=%s", a.Line, a.Key, text[a.From:a.To]))
	}
	if want := "4 heap=2g, 4 heap=4096m, 4 heap_min=2g, 4 code_cache=512m"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

var main = layouts[0].Options + "/" + own

var files = map[string]string{
	main: "jruby-puppet: {\n    max-active-instances: 6\n}\n", layouts[0].Options + "/webserver.conf": "webserver: {\n ssl-port: 8140\n}\n",
	"/etc/sysconfig/puppetserver": "JAVA_ARGS=\"-Xms2g -Xmx2g\"\n",
}

func TestSet(t *testing.T) {
	for name, c := range map[string]struct{ value, file, want string }{
		"max_active_instances":      {"4", main, "jruby-puppet: {\n    max-active-instances: 4\n}\n"},
		"max-active-instances":      {"4", main, "jruby-puppet: {\n    max-active-instances: 4\n}\n"},
		"max_requests_per_instance": {"1000", main, "jruby-puppet: {\n    max-requests-per-instance: 1000\n    max-active-instances: 6\n}\n"},
		"multithreaded":             {"true", main, "jruby-puppet: {\n    multithreaded: true\n    max-active-instances: 6\n}\n"},
		"heap":                      {"4g", "/etc/sysconfig/puppetserver", "JAVA_ARGS=\"-Xms2g -Xmx4g\"\n"},
	} {
		h := plugin.Tree(t, files)
		k := Kind(h)
		s, err := k.Resolve(setting.Setting{Kind: Name, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		was, err := k.Read(t.Context(), s)
		if err == nil {
			err = k.Write(t.Context(), s, setting.Text(c.value))
		}
		if b, _ := h.Files.ReadFile(c.file); err != nil || string(b) != c.want {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		if err := k.Write(t.Context(), s, was); err != nil {
			t.Error(err)
		}
		for file, text := range files {
			if b, _ := h.Files.ReadFile(file); string(b) != text {
				t.Errorf("%s: %s after the way back\n%s", name, file, b)
			}
		}
	}
	h := plugin.Tree(t, files)
	k := Kind(h)
	s, err := k.Resolve(setting.Setting{Kind: Name, Name: "code_cache"})
	if err == nil {
		_, err = k.Read(t.Context(), s)
	}
	if err == nil || !strings.Contains(err.Error(), "JAVA_ARGS has no -XX:ReservedCodeCacheSize=") {
		t.Errorf("what JAVA_ARGS has not: %v", err)
	}
	if !k.Equal(setting.Text("2g"), setting.Text("2048m")) || k.Equal(setting.Text("2g"), setting.Text("2000m")) {
		t.Error("sizes are compared as texts")
	}
	if err := starts(t.Context(), plugin.Tree(t, map[string]string{"/etc/sysconfig/puppetserver": "JAVA_ARGS=\"-Xms2g -Xmx1024m\"\n"}), main); err == nil || !strings.Contains(err.Error(), "initial heap (-Xms) 2g") {
		t.Errorf("a heap that ends before it begins: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for key, want := range map[string]string{
		"jruby-puppet.max-active-instances=4": "", "jruby-puppet.max-active-instances=0": "from 1", "jruby-puppet.max-requests-per-instance=0": "",
		"jruby-puppet.multithreaded=yes": "true or false", "heap=4g": "", "heap=4 g": "a size", "code_cache=512m": "", "jruby-puppet.gem-home=4": "fettle does not set",
	} {
		name, value, _ := strings.Cut(key, "=")
		if err := check(name, value); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add(files[main], files["/etc/sysconfig/puppetserver"], "max_active_instances", "4")
	f.Add("{jruby-puppet {\n}}", "JAVA_ARGS='-Xmx1g'", "heap", "2g")
	f.Add("a: [{b: 1}]\njruby-puppet: {\n # x\n}\n", "", "multithreaded", "true")
	f.Fuzz(func(t *testing.T, hocon, java, option, value string) {
		product.Bytes(t, internalproduct.Product{Name: Name, Kind: Kind}, map[string]string{main: hocon, "/etc/sysconfig/puppetserver": java}, option, value)
	})
}

// The sizes of Java are absent only where the machine is known to have none of the files
// that they may be in.
func TestJavaOfACopy(t *testing.T) {
	files := map[string]string{main: files[main]}
	if _, _, err := Java(machine.Copy(t, files), "heap"); !host.Unknown(err) {
		t.Errorf("of a copy: %v, want unknown", err)
	}
	if _, _, err := Java(machine.Mounted(t, files), "heap"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a machine: %v, want absent", err)
	}
}
