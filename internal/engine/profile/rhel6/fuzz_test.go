package rhel6

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// seeds adds one file of each fixture.
func seeds(f *testing.F, file string) {
	f.Helper()
	paths, err := filepath.Glob("testdata/*/" + file)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no fixtures of %s: %v", file, err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
}

func FuzzScript(f *testing.F) {
	seeds(f, scriptFile)
	f.Add("start() { a <<X; b\nX\n}\nfunction stop\n{\n\\\n\n;;&\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseScript(text)
		if err != nil {
			return
		}
		lines := 1 + strings.Count(text, "\n")
		check := func(cs []command) {
			for _, c := range cs {
				if c.text == "" || !strings.Contains(text, c.text) {
					t.Errorf("%q is no part of the script", c.text)
				}
				if c.line < 1 || c.line > lines {
					t.Errorf("line %d of %d", c.line, lines)
				}
			}
		}
		check(s.top)
		for _, fn := range s.functions {
			check(fn.body)
		}
	})
}

func FuzzSysconfig(f *testing.F) {
	seeds(f, sysconfigFile)
	f.Fuzz(func(t *testing.T, text string) {
		lines, _, err := parseSysconfig(text)
		if err != nil {
			return
		}
		for _, l := range lines {
			if !strings.Contains(text, l.name+"=") {
				t.Errorf("%q is not assigned in %q", l.name, text)
			}
			_, _ = expandBraces(l.value)
		}
	})
}

func FuzzSysctl(f *testing.F) {
	seeds(f, sysctlFile)
	f.Fuzz(func(t *testing.T, text string) {
		lines, _ := parseSysctl(text)
		for _, l := range lines {
			if !sysctlName().MatchString(l.name) || strings.Contains(l.value, "\n") {
				t.Errorf("accepted %q=%q", l.name, l.value)
			}
		}
	})
}

// FuzzImport imports arbitrary files. The new profile must load without warnings, agree with the
// import's report, and not change write barriers.
func FuzzImport(f *testing.F) {
	dirs, _ := filepath.Glob("testdata/*-like")
	for _, d := range append(dirs, "testdata/helpers-only") {
		var texts [4]string
		for i, file := range []string{confFile, sysconfigFile, sysctlFile, scriptFile} {
			b, _ := os.ReadFile(filepath.Join(d, file))
			texts[i] = string(b)
		}
		f.Add(texts[0], texts[1], texts[2], texts[3])
	}
	f.Fuzz(func(t *testing.T, conf, sysconfig, sysctl, script string) {
		root := t.TempDir()
		for file, text := range map[string]string{confFile: conf, sysconfigFile: sysconfig, sysctlFile: sysctl, scriptFile: script} {
			machine.WriteFile(t, root, "/p/x/"+file, text)
		}
		r, err := Import(context.Background(), host.Mounted(root), "/p/x")
		if err != nil {
			return
		}
		checkLoads(t, r)
	})
}

// checkLoads loads the profile of an import and compares it with the import's report.
func checkLoads(t *testing.T, r Result) *profile.Profile {
	t.Helper()
	l := &profile.Loader{
		Host: host.Mounted(t.TempDir()), Dirs: []string{},
		Builtin: fstest.MapFS{r.Name + "/tuned.conf": {Data: []byte(r.file("tuned.conf"))}},
	}
	p, err := l.Load(context.Background(), r.Name)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.file("tuned.conf"))
	}
	if len(p.Warnings) > 0 {
		t.Errorf("loading says %v\n%s", p.Warnings, r.file("tuned.conf"))
	}
	options := map[string]string{}
	for _, u := range p.Units {
		for _, o := range u.Options {
			if barriersOff().MatchString(o.Name + "=" + o.Value) {
				t.Errorf("[%s] %s=%s", u.Name, o.Name, o.Value)
			}
			options["["+u.Name+"] "+o.Name] = o.Value
		}
	}
	said := map[string]string{}
	for _, tr := range r.Translated {
		if key, value, ok := strings.Cut(tr.To, "="); ok && !strings.Contains(key, "devices") && strings.HasPrefix(key, "[") {
			said[key] = value
		}
	}
	for key, value := range said {
		got, ok := options[key]
		if want := strings.TrimSpace(value); !ok || got != strings.ReplaceAll(want, `\${`, "${") {
			t.Errorf("%s is %q, the import said %q\n%s", key, got, want, r.file("tuned.conf"))
		}
	}
	if own := r.file("script.sh"); own != "" {
		if _, err := parseScript(own); err != nil {
			t.Errorf("script.sh: %v\n%s", err, own)
		}
		for _, l := range strings.Split(own, "\n") {
			if barriersOff().MatchString(l) {
				t.Errorf("script.sh: %s", l)
			}
		}
	}
	return p
}

func TestImportsLoad(t *testing.T) {
	for _, name := range []string{"throughput-like", "latency-like", "powersave-like", "helpers-only"} {
		root := rhel6Machine(t, "6.12.4", today...)
		p := checkLoads(t, importAt(t, root, place(t, root, name)))
		known := []string{"cpu", "vm", "disk", "scsi_host", "net", "usb", "audio", "video", "sysfs", "sysctl", "scheduler", "script"}
		for _, u := range p.Units {
			found := false
			for _, k := range known {
				found = found || u.Type == k
			}
			if !found {
				t.Errorf("%s: unit %s has type %s", name, u.Name, u.Type)
			}
		}
	}
}
