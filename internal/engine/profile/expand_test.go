package profile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fettle.dev/fettle/internal/host"
)

func TestExpandFunctions(t *testing.T) {
	h, _ := plant(t, nil)
	for _, c := range []struct{ name, in, want string }{
		{"plain", "x", "x"},
		{"a call", "<${f:kb2s:4}>", "<8>"},
		{"innermost first", "${f:kb2s:${f:kb2s:4}}", "16"},
		{"colons in arguments", `${f:strip: a\:b }`, "a:b"},
		{"a variable becomes an argument", "${f:kb2s:${v}}", "8"},
		{"a colon of a variable separates", "${f:log:${c}}", "ab"},
		{"escaped", `\${f:kb2s:4}`, "${f:kb2s:4}"},
		{"escaped, with a call inside", `\${f:kb2s:${f:kb2s:4}}`, "${f:kb2s:8}"},
		{"only the first escape of a line is taken off", `\${f:a} \${f:b}`, `${f:a} \${f:b}`},
		{"one escape on each line", "\\${f:a}\n\\${f:b}", "${f:a}\n${f:b}"},
		{"unknown function", "${f:nosuch:1}${f:kb2s:4}", "${f:nosuch:1}8"},
		{"wrong number of arguments", "${f:kb2s}", "${f:kb2s}"},
		{"no result", "${f:kb2s:x}", "${f:kb2s:x}"},
		{"no call inside another brace", "${x ${f:kb2s:4}}", "${x 8}"},
		{"a lone }", "a}${f:kb2s:4}", "a}${f:kb2s:4}"},
		{"a lone ${", "${f:kb2s:4}${f:kb2s:4", "8${f:kb2s:4"},
		{"results are not read again", `${f:strip:$}{f:kb2s:4}`, `${f:kb2s:4}`},
		{"an empty result between others", "${f:kb2s:4}${f:strip:}${f:kb2s:4}", "88"},
		{"difference empty-result-first", "${f:strip:}${f:kb2s:4}", "8"},
		{"difference function-without-name", "${f}", "${f}"},
		{"PROFILE_DIR alone knows no escape here", "${i:PROFILE_DIR}", "${i:PROFILE_DIR}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := (&Loader{Host: h}).begin(context.Background())
			s.x.values["v"], s.x.values["c"] = "4", "a:b"
			got, calls, err := s.x.expand(c.in, Pos{"f", 1})
			if err != nil || len(calls) > 0 || got != c.want {
				t.Errorf("%q: got %q %v %v, want %q", c.in, got, calls, err, c.want)
			}
		})
	}
}

// runner is a live machine with the files of a tree and the programs of this machine.
func runner(t testing.TB, texts map[string]string) (*host.Host, string) {
	h, root := plant(t, profiles(texts))
	h.Exec = host.Live().Exec
	return h, root
}

func TestDeferredAndAnswers(t *testing.T) {
	requireRoot(t)
	ctx := context.Background()
	texts := map[string]string{
		"p": lines("[main]", "include=${f:exec:/bin/echo:-n:q}", "[variables]", "v=${f:strip:${f:exec:/bin/echo:a}}", "[u]", "x=${v}", `y=${f:strip:${f:exec:/bin/sh:-c:echo $$}}`, `z=${f:strip:${f:exec:/bin/sh:-c:echo $$}}`, "w=${f:exec:/bin/false}", "o=1"),
		"q": "[u]\nq=1",
	}
	h, _ := runner(t, texts)

	p, err := (&Loader{Host: h}).Load(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	u := p.Unit("u")
	const callA = "${f:exec:/bin/echo:a}"
	if o := u.Option("x"); o.Value != "${f:strip:"+callA+"}" || len(o.Deferred) != 1 || o.Deferred[0].Text != callA || o.Deferred[0].Reason != reasonExecutes {
		t.Errorf("not executing: x = %+v", o)
	}
	if o := u.Option("o"); o.Value != "1" || o.Deferred != nil || u.Option("q") != nil {
		t.Errorf("not executing: o = %+v, q = %+v", o, u.Option("q"))
	}
	if len(p.Deferred) != 4 || len(p.Answers) != 0 {
		t.Errorf("not executing: deferred %v, answers %v", p.Deferred, p.Answers)
	}

	p, err = (&Loader{Host: h, Execute: true}).Load(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	u = p.Unit("u")
	if u.Option("x").Value != "a" || u.Option("y").Value == "" || u.Option("y").Value != u.Option("z").Value || u.Option("q") == nil || len(p.Deferred) != 0 {
		t.Errorf("executing: %s deferred %v", outline(p), p.Deferred)
	}
	if w := u.Option("w").Value; w != "${f:exec:/bin/false}" || !p.Answers[w].None {
		t.Errorf("a failing program: w = %q, answers %v", w, p.Answers)
	}

	// The answers are enough to load the same without executing.
	again, err := (&Loader{Host: h, Answers: p.Answers}).Load(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	if outline(again) != outline(p) || len(again.Deferred) != 0 || len(again.Answers) != len(p.Answers) {
		t.Errorf("replayed:\n%swant:\n%s%v", outline(again), outline(p), again.Deferred)
	}
}

func TestCopyExecutesNothing(t *testing.T) {
	h, root := plant(t, profiles(map[string]string{"p": "[u]\nx=${f:exec:/bin/echo:a}\ny=${f:cpulist_online:0}"}))
	c, err := host.Copy(root)
	if err != nil {
		t.Fatal(err)
	}
	c.Exec = host.Live().Exec // even then
	p, err := (&Loader{Host: c, Execute: true}).Load(context.Background(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if x := p.Unit("u").Option("x"); len(x.Deferred) != 1 || x.Value != "${f:exec:/bin/echo:a}" {
		t.Errorf("x = %+v", x)
	}
	_ = h
}

func TestNotRecordedIsDeferred(t *testing.T) {
	h, _ := plant(t, nil)
	s := (&Loader{Host: h}).begin(context.Background())
	old := Functions
	defer func() { Functions = old }()
	Functions = append([]Function{{Name: "unrecorded", Call: func(context.Context, *Env, []string) (string, bool, error) {
		return "", false, &os.PathError{Op: "read", Path: "/sys/x", Err: host.ErrNotRecorded}
	}}}, old...)
	got, calls, err := s.x.expand("${f:strip:${f:unrecorded}}", Pos{"f", 1})
	if err != nil || got != "${f:strip:${f:unrecorded}}" || len(calls) != 1 || calls[0].Reason != reasonNotRecorded {
		t.Errorf("got %q %v %v", got, calls, err)
	}
}

func TestCancelledLoadEnds(t *testing.T) {
	h, _ := plant(t, profiles(map[string]string{"p": "[u]\nx=${f:kb2s:4}"}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&Loader{Host: h}).Load(ctx, "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTrust(t *testing.T) {
	requireRoot(t)
	ctx := context.Background()
	base := map[string]string{
		"inc": "[u]\ni=1", "/etc/v": "a=1", "/usr/lib/tuned/functions.sh": "",
		"plain": "[u]\nx=1", "includes": "[main]\ninclude=inc", "variables": "[variables]\ninclude=/etc/v",
		"script": "[script]\nscript=s.sh", "/usr/lib/tuned/script/s.sh": "#!/bin/sh\n",
		"pre": "[u]\nscript_pre=${i:PROFILE_DIR}/s.sh", "/usr/lib/tuned/pre/s.sh": "#!/bin/sh\n",
		"exec": "[u]\nx=${f:exec:/bin/echo:-n:a}",
	}
	for _, c := range []struct {
		name, profile string
		spoil         func(root string) error
		refused       string // part of the error; "" for none
	}{
		{"all well: include", "includes", nil, ""},
		{"all well: variables", "variables", nil, ""},
		{"all well: script", "script", nil, ""},
		{"all well: exec", "exec", nil, ""},
		{"a plain profile may be anybody's", "plain", chown("/usr/lib/tuned/plain/tuned.conf"), ""},
		{"an included file of somebody else", "includes", chown("/usr/lib/tuned/inc/tuned.conf"), "/usr/lib/tuned/includes/tuned.conf:2: include=inc: /usr/lib/tuned/inc/tuned.conf: not trusted: owned by uid 1234"},
		{"a directory for everybody's files", "includes", chmod("/usr/lib/tuned/inc", 0o777|os.ModeSticky), "writable by users other than root (mode 1777)"},
		{"a directory that others may write", "includes", chmod("/usr/lib/tuned/inc", 0o777), "writable by users other than root (mode 0777)"},
		{"a directory above it", "includes", chmod("/usr/lib", 0o775), "/usr/lib: not trusted"},
		{"a variables file", "variables", chmod("/etc/v", 0o666), "include=/etc/v: /etc/v: not trusted"},
		{"a script, which its plug-in refuses by itself", "script", chown("/usr/lib/tuned/script/s.sh"), ""},
		{"a script for devices, likewise", "pre", chmod("/usr/lib/tuned/pre/s.sh", 0o777), ""},
		{"a program in somebody's profile", "exec", chown("/usr/lib/tuned/exec/tuned.conf"), "/usr/lib/tuned/exec/tuned.conf:2: ${f:exec:/bin/echo:-n:a}: refused to run a program: /usr/lib/tuned/exec/tuned.conf: not trusted"},
		{"a link out of a trusted directory", "includes", func(root string) error {
			dir := filepath.Join(root, "home/me")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(root, "usr/lib/tuned/inc"), filepath.Join(dir, "inc")); err != nil {
				return err
			}
			if err := os.Chown(dir, 1234, 1234); err != nil {
				return err
			}
			return os.Symlink("/home/me/inc", filepath.Join(root, "usr/lib/tuned/inc"))
		}, "/home/me: not trusted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, root := runner(t, base)
			if c.spoil != nil {
				if err := c.spoil(root); err != nil {
					t.Fatal(err)
				}
			}
			_, err := (&Loader{Host: h, Execute: true}).Load(ctx, c.profile)
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || !errors.Is(err, ErrUntrusted)):
				t.Errorf("got  %v\nwant %s", err, c.refused)
			}
			// Reading alone is always allowed.
			if _, err := (&Loader{Host: h}).Load(ctx, c.profile); err != nil {
				t.Errorf("without executing: %v", err)
			}
		})
	}
}

func chown(p string) func(string) error {
	return func(root string) error { return os.Chown(filepath.Join(root, p), 1234, 1234) }
}

func chmod(p string, mode os.FileMode) func(string) error {
	return func(root string) error { return os.Chmod(filepath.Join(root, p), mode) }
}

// BenchmarkLoad checks that loading a profile takes no noticeable time: 200 units in less than 5
// ms.
func BenchmarkLoad(b *testing.B) {
	texts := map[string]string{"base": "[main]\nsummary=b\n", "p": "[main]\ninclude=base\n[variables]\nv=1\n"}
	for i := range 200 {
		texts["base"] += "[s" + strconv.Itoa(i) + "]\na=1\nb=${v} ${f:kb2s:4}\n"
	}
	h, _ := plant(b, profiles(texts))
	best := time.Hour // what else the machine does takes no part
	for b.Loop() {
		start := time.Now()
		if _, err := (&Loader{Host: h}).Load(context.Background(), "p"); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	if best > 5*time.Millisecond {
		b.Errorf("a load of 200 units takes %v", best)
	}
}

// FuzzLoad loads any text as a profile, with another text as its variables file. Loading must end
// soon without a panic, and every position that it names must exist.
func FuzzLoad(f *testing.F) {
	f.Add("[main]\ninclude=-p,p\n[variables]\na=${b}\nb=${a}${a}\ninclude=/v\n[u]\nx=${a}${f:strip:${b}}", "c=${d}\nd=1")
	f.Add("[u]\ndrop=a,b\nreplace=1\ntype=variables\npriority=-1", "a\n b")
	f.Add("[DEFAULT]\nscript=x\n[script]\n[a]\ncpuinfo_regex=${f:cpulist2hex:0-99999999}", "")
	f.Fuzz(func(t *testing.T, text, variables string) {
		h := remember(profiles(map[string]string{"p": text, "/v": variables}))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		p, err := (&Loader{Host: h}).Load(ctx, "p")
		if ctx.Err() != nil {
			t.Fatal("not done after 10 s")
		}
		if err != nil {
			return
		}
		for _, u := range p.Units {
			for _, o := range u.Options {
				if o.Pos.File == "" || o.Pos.Line == 0 {
					t.Errorf("%s: no place", o.Name)
				}
			}
		}
		if len(p.Answers) > 0 {
			t.Errorf("something ran: %v", p.Answers)
		}
	})
}

// FuzzExpand expands any text with a few variables.
func FuzzExpand(f *testing.F) {
	f.Add("${a}${f:strip:${b}:\\:}\\${f:x}", "${b}", "\\\\${a}")
	f.Add("}${${f:log:", "${f:strip:${c}}", "${c}")
	h := &host.Host{Files: noFiles{}}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		s := (&Loader{Host: h, Dirs: []string{}}).begin(context.Background())
		if _, err := s.x.define([]*definition{{name: "a", raw: a}, {name: "b", raw: b}}); err != nil {
			return
		}
		got, calls, err := s.x.expand(text, Pos{"f", 1})
		if err != nil {
			return
		}
		if len(got) > maxExpanded {
			t.Errorf("%d bytes", len(got))
		}
		for _, c := range calls {
			if !strings.HasPrefix(c.Text, "${f:") {
				t.Errorf("deferred %q", c.Text)
			}
		}
	})
}

// noFiles is a copied machine without any recorded file.
type noFiles struct{ host.Files }

func (noFiles) ReadFile(p string) ([]byte, error)       { return nil, unrecorded(p) }
func (noFiles) ReadDir(p string) ([]fs.DirEntry, error) { return nil, unrecorded(p) }
func (noFiles) Stat(p string) (fs.FileInfo, error)      { return nil, unrecorded(p) }
func (noFiles) Lstat(p string) (fs.FileInfo, error)     { return nil, unrecorded(p) }
func (noFiles) Resolve(p string) (string, error)        { return "", unrecorded(p) }

func unrecorded(p string) error {
	return &fs.PathError{Op: "read", Path: p, Err: host.ErrNotRecorded}
}

// memory is a machine with a few files in memory, for tests with a hundred thousand loads.
type memory struct {
	host.Files
	fs fstest.MapFS
}

func remember(files map[string]string) *host.Host {
	m := memory{fs: fstest.MapFS{}}
	for name, text := range files {
		m.fs[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: []byte(text)}
	}
	return &host.Host{Name: "memory", Files: m}
}

func memoryName(p string) string { return path.Join(".", p) }

func (m memory) ReadFile(p string) ([]byte, error)       { return m.fs.ReadFile(memoryName(p)) }
func (m memory) ReadDir(p string) ([]fs.DirEntry, error) { return m.fs.ReadDir(memoryName(p)) }
func (m memory) Stat(p string) (fs.FileInfo, error)      { return m.fs.Stat(memoryName(p)) }
func (m memory) Lstat(p string) (fs.FileInfo, error)     { return m.fs.Stat(memoryName(p)) }
func (m memory) Resolve(p string) (string, error)        { return p, nil }
