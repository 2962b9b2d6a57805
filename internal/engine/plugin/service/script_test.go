package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// inside simulates the scripts of these tests: a real shell in a chroot would need a whole tree.
type inside struct {
	calls []string
	exit  map[string]int
	mark  string // of the last call
}

func (e *inside) KillTagged(mark string) error {
	e.calls = append(e.calls, "end "+mark)
	return nil
}

func (e *inside) Run(_ context.Context, c host.Command) (host.Result, error) {
	e.mark = c.Tag
	e.calls = append(e.calls, strings.Join(append([]string{c.Dir + ":"}, append(c.Argv, c.Env...)...), " "))
	return host.Result{ExitCode: e.exit[c.Argv[1]], Stderr: []byte("first\nlast words\n")}, nil
}
func (e *inside) LookPath(name string) (string, error) { return name, nil }

func scriptMachine(t *testing.T) (*host.Host, *inside, setting.Kinds) {
	h := machine.Mounted(t, map[string]string{
		"/usr/lib/tuned/p/a.sh": "#!/bin/sh\n", "/usr/lib/tuned/p/b.sh": "#!/bin/sh\n",
		"/usr/lib/tuned/p/plain": "no program\n",
		"/opt/c.sh":              "#!/bin/sh\n", "/usr/lib/tuned/p/link.sh": "-> /opt/c.sh",
		"/run/": "", "/var/lib/": "",
	})
	e := &inside{exit: map[string]int{}}
	h.Exec = e
	return h, e, plugin.Kinds(h, ScriptKinds(h))
}

func request(h *host.Host, k setting.Kinds) *engineplugin.Request {
	return &engineplugin.Request{Host: h, Kinds: k, ProfileDirs: []string{"/usr/lib/tuned"}, Environ: []string{"TUNED_cores=1-3", "TUNED_empty=", "TUNED_q=a \"b\""}}
}

func TestContract(t *testing.T) {
	testkitroot.Rights(t)
	h, e, kinds := scriptMachine(t)
	before := plugin.Snapshot(t, h)
	o := profile.Option{Name: "script", Scripts: []profile.Script{{Path: "/usr/lib/tuned/p/a.sh"}, {Path: "/usr/lib/tuned/p/b.sh"}}}
	items, err := planScript(context.Background(), request(h, kinds), o, "")
	if err != nil {
		t.Fatal(err)
	}
	images := plugin.Apply(t, kinds, items)
	env := ` TUNED_cores=1-3 TUNED_empty= TUNED_q=a "b"`
	want := []string{
		"/usr/lib/tuned/p: /usr/lib/tuned/p/a.sh start" + env,
		"/usr/lib/tuned/p: /usr/lib/tuned/p/b.sh start" + env,
	}
	if d := cmp.Diff(want, e.calls); d != "" {
		t.Error(d)
	}
	e.calls = nil
	for _, it := range items {
		effecter := kinds["script"].(kind)
		if v, why := effecter.Effect(context.Background(), it.Change.Setting, it.Change.Want); v != engineplugin.OK {
			t.Error(v, why)
		}
	}
	e.exit["verify"] = 3
	v, why := kinds["script"].(kind).Effect(IgnoreMissing(context.Background()), items[0].Change.Setting, items[0].Change.Want)
	if v != engineplugin.Drifted || why != "the script's verify exited with 3: last words" {
		t.Error(v, why)
	}
	if got := e.calls[len(e.calls)-1]; !strings.Contains(got, "a.sh verify ignore_missing TUNED_cores") {
		t.Error(got)
	}
	e.calls = nil
	e.exit["stop"] = 1 // a script's last command decides: it counts as stopped
	for i := len(images) - 1; i >= 0; i-- {
		err := kinds.Write(context.Background(), images[i].Setting, images[i].Want)
		if err == nil || !strings.Contains(err.Error(), "the script's stop exited with 1: last words") {
			t.Error(err)
		}
	}
	want = []string{
		"/usr/lib/tuned/p: /usr/lib/tuned/p/b.sh stop full_rollback" + env,
		"/usr/lib/tuned/p: /usr/lib/tuned/p/a.sh stop full_rollback" + env,
	}
	if d := cmp.Diff(want, e.calls); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Errorf("left behind: %s", d)
	}
	plugin.Proves(t, plugin.FakeTree, "script", "script")
}

func TestStartThatComplains(t *testing.T) {
	testkitroot.Rights(t)
	_, e, kinds := scriptMachine(t)
	e.exit["start"] = 16
	s := setting.Setting{Kind: "script", Name: "/usr/lib/tuned/p/a.sh"}
	ctx := context.Background()
	var told *setting.ProgramWarning
	if err := kinds.Write(ctx, s, setting.Text("started")); !errors.As(err, &told) || told.Text != "the script's start exited with 16: last words" {
		t.Fatal(err)
	}
	if v, _ := kinds.Read(ctx, s); v.Text != "started" {
		t.Errorf("reads %q", v.Text)
	}
	if v, why := kinds["script"].(kind).Effect(ctx, s, setting.Text("started")); v != engineplugin.OK || why != "the script's start exited with 16: last words" {
		t.Error(v, why)
	}
	// Other variables are another effect: what the first start did goes first.
	e.calls, e.exit["start"] = nil, 0
	if err := kinds.Write(ctx, s, setting.Text("started TUNED_x=1")); err != nil {
		t.Fatal(err)
	}
	if v, _ := kinds.Read(ctx, s); v.Text != "started TUNED_x=1" {
		t.Errorf("reads %q", v.Text)
	}
	want := []string{"/usr/lib/tuned/p: /usr/lib/tuned/p/a.sh stop full_rollback", "/usr/lib/tuned/p: /usr/lib/tuned/p/a.sh start TUNED_x=1"}
	if d := cmp.Diff(want, e.calls); d != "" {
		t.Error(d)
	}
}

func TestCutOffStartIsStopped(t *testing.T) {
	testkitroot.Rights(t)
	_, e, kinds := scriptMachine(t)
	s := setting.Setting{Kind: "script", Name: "/usr/lib/tuned/p/a.sh"}
	k := kinds["script"].(kind)
	if err := k.save(s, &run{State: "starting", Env: []string{"TUNED_a=b"}, Mark: "xyz"}); err != nil {
		t.Fatal(err)
	}
	if v, _ := kinds.Read(context.Background(), s); v.Text != "the script was interrupted during its start" {
		t.Errorf("reads %q", v.Text)
	}
	if err := kinds.Write(context.Background(), s, setting.Text("stopped")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"end xyz", "/usr/lib/tuned/p: /usr/lib/tuned/p/a.sh stop full_rollback TUNED_a=b"}, e.calls); d != "" {
		t.Error(d)
	}

	// What a start that came to its end has left running is meant to run.
	e.calls = nil
	var marks []string
	for range 2 {
		if err := kinds.Write(context.Background(), s, setting.Text("started TUNED_a=b")); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, e.mark)
		if err := kinds.Write(context.Background(), s, setting.Text("stopped")); err != nil {
			t.Fatal(err)
		}
		if e.mark != "" {
			t.Errorf("stop is called with the mark %q", e.mark)
		}
	}
	if marks[0] == "" || marks[0] == marks[1] {
		t.Errorf("marks of two starts: %q", marks)
	}
	for _, c := range e.calls {
		if strings.HasPrefix(c, "end ") {
			t.Errorf("programs of a whole start were ended: %q", e.calls)
		}
	}
}

func TestRefused(t *testing.T) {
	testkitroot.Rights(t)
	h, e, kinds := scriptMachine(t)
	for file, c := range map[string]struct {
		verdict engineplugin.Verdict
		want    string
	}{
		"/opt/c.sh":                {engineplugin.Refused, "not below a profile directory"},
		"/usr/lib/tuned/p/link.sh": {engineplugin.Refused, "not below a profile directory"},
		"/usr/lib/tuned/p/plain":   {engineplugin.Refused, ": not executable; run chmod +x"},
		"/usr/lib/tuned/p/missing": {engineplugin.Rejected, "cannot run the script:"},
		"rel.sh":                   {engineplugin.Refused, "not an absolute path"},
	} {
		items, err := planScript(context.Background(), request(h, kinds), profile.Option{Name: "script", Scripts: []profile.Script{{Path: file}}}, "")
		if err != nil || len(items) != 1 || items[0].Verdict != c.verdict || !strings.Contains(items[0].Why, c.want) {
			t.Errorf("%s: %v %+v", file, err, items)
		}
	}
	if len(e.calls) > 0 {
		t.Errorf("planning called %v", e.calls)
	}
}

func TestDeviceScripts(t *testing.T) {
	testkitroot.Rights(t)
	h, e, kinds := scriptMachine(t)
	r := request(h, kinds)
	r.Environ = nil
	r.Devices = []string{"sda", "sdb"}
	r.Unit = profile.Unit{ScriptPre: "/usr/lib/tuned/p/a.sh", ScriptPost: "/usr/lib/tuned/p/b.sh"}
	pre, post := UnitScripts(r)
	images := plugin.Apply(t, kinds, append(pre, post...))
	plugin.Undo(t, kinds, images)
	var words []string
	for _, c := range e.calls {
		words = append(words, strings.TrimPrefix(c, "/usr/lib/tuned/p: /usr/lib/tuned/p/"))
	}
	want := []string{"a.sh apply sda", "a.sh apply sdb", "b.sh apply sda", "b.sh apply sdb",
		"b.sh unapply full_rollback sdb", "b.sh unapply full_rollback sda", "a.sh unapply full_rollback sdb", "a.sh unapply full_rollback sda"}
	if d := cmp.Diff(want, words); d != "" {
		t.Error(d)
	}
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{"started", "started TUNED_a=1", `started TUNED_a="x y" TUNED_b=`, `started TUNED_a="`, "started  x"} {
		f.Add(s, "v")
	}
	f.Fuzz(func(t *testing.T, text, v string) {
		_, _, _ = parseValue(text) // no panic
		if strings.ContainsRune(v, 0) {
			return
		}
		env := []string{"TUNED_a=" + v, "TUNED_b=2"}
		word, got, err := parseValue((&run{Env: env}).value(started))
		if err != nil || word != started || !slices.Equal(got, env) {
			t.Errorf("%q came back as %q, %q, %v", env, word, got, err)
		}
	})
}

// TestDebianScripts runs the real scripts of Debian's TuneD, which use its shell library, in the
// test root.
func TestDebianScripts(t *testing.T) {
	root := testkitroot.New(t, testkitroot.Options{Machine: testkitroot.NewMachine(t)})
	h := host.Mounted(root.Path("/"))
	h.Exec = rootExec{root}
	kinds := plugin.Kinds(h, ScriptKinds(h))
	ctx := context.Background()
	for name, env := range map[string][]string{
		"powersave": nil, "laptop-ac-powersave": nil, "spindown-disk": nil, "realtime": nil,
		"realtime-virtual-guest": nil, "realtime-virtual-host": nil,
		"cpu-partitioning": {"TUNED_tmpdir=/tmp/cpu-partitioning"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "/usr/lib/tuned/" + name + "/script.sh"
			r := &engineplugin.Request{Host: h, Kinds: kinds, ProfileDirs: []string{"/usr/lib/tuned"}, Environ: env}
			items, err := planScript(ctx, r, profile.Option{Name: "script", Scripts: []profile.Script{{Path: file}}}, "")
			if err != nil || items[0].Verdict != "" {
				t.Fatal(err, items)
			}
			s := items[0].Change.Setting
			var told *setting.ProgramWarning
			if err := kinds.Write(ctx, s, items[0].Change.Want); errors.As(err, &told) {
				t.Logf("told: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if v, err := kinds.Read(ctx, s); err != nil || !strings.HasPrefix(v.Text, "started") {
				t.Errorf("reads %q, %v", v.Text, err)
			}
			if name == "cpu-partitioning" {
				if _, err := h.Files.Stat("/tmp/cpu-partitioning/usr/lib/dracut/hooks/pre-udev/00-tuned-pre-udev.sh"); err != nil {
					t.Errorf("start did not do its work: %v", err)
				}
			}
			if v, why := kinds["script"].(kind).Effect(ctx, s, items[0].Change.Want); v != engineplugin.OK {
				t.Logf("verify says %s: %s", v, why)
			}
			if err := kinds.Write(ctx, s, setting.Text("stopped")); err != nil {
				t.Logf("told: %v", err)
			}
			if v, _ := kinds.Read(ctx, s); v.Text != "stopped" {
				t.Errorf("reads %q after stop", v.Text)
			}
		})
	}
	if _, err := h.Files.Stat("/run/fettle-scripts"); err == nil {
		t.Error("/run/fettle-scripts was left behind")
	}
}

// rootExec runs programs in the test root.
type rootExec struct{ root *testkitroot.Root }

func (e rootExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	argv := append([]string{"env", "-C", c.Dir}, c.Env...)
	out, code := e.root.Run(append(argv, c.Argv...)...)
	return host.Result{Stdout: []byte(out), ExitCode: code}, nil
}
func (e rootExec) LookPath(name string) (string, error) { return name, nil }
