package tuned

import (
	"context"
	"io/fs"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// recorder is a machine's programs: it runs none and remembers who was called.
type recorder struct{ ran []string }

func (r *recorder) Run(_ context.Context, c host.Command) (host.Result, error) {
	r.ran = append(r.ran, c.Argv[0])
	return host.Result{Stdout: []byte("out}")}, nil
}

func (r *recorder) LookPath(name string) (string, error) { return "/bin/" + name, nil }

// ranBy loads a profile as a node would, and returns the programs that the load
// ran in addition to those that are always the same.
func ranBy(machine *host.Host, text string) []string {
	programs := &recorder{}
	h := *machine
	h.Live, h.Exec = true, programs
	l := &profile.Loader{Host: &h, Dirs: []string{}, Execute: true, Builtin: fstest.MapFS{
		"p/tuned.conf": &fstest.MapFile{Data: []byte(text), Mode: fs.FileMode(0o644)},
	}}
	_, _ = l.Load(context.Background(), "p") // what cannot be loaded may still have run
	return slices.DeleteFunc(programs.ran, func(p string) bool { return p == "virt-what" || p == "lscpu" })
}

// sound fails where a text that is not refused runs a program anyway. It
// returns whether the text was refused, and whether it would have run one.
func sound(t *testing.T, machine *host.Host, text string) (refused, runs bool) {
	t.Helper()
	all, err := profile.Sections("p", []byte(text))
	if err != nil {
		return false, false
	}
	refused = len(Check("p", all, nil)) > 0
	ran := ranBy(machine, text)
	if !refused && len(ran) > 0 {
		t.Errorf("not refused, but a load ran %q:\n%s", ran, text)
	}
	return refused, len(ran) > 0
}

func boundaryMachine(t testing.TB) *host.Host {
	return machine.Mounted(t, map[string]string{"/proc/cpuinfo": "model\t: x\n", "/proc/sys/kernel/ostype": "Linux\n"})
}

// scribe writes random texts in the language of calls, some of them broken.
type scribe struct{ *rand.Rand }

func (r scribe) pick(from ...string) string { return from[r.Intn(len(from))] }

func (r scribe) text(depth int) string {
	var b strings.Builder
	for range 1 + r.Intn(2) {
		switch n := r.Intn(10); {
		case n < 3 || depth > 2:
			b.WriteString(r.pick("x", "exec", "f", "strip", "{f:exec:id}", "exec:id}", ":exec:id}", ":id}", "}", "$", "\\", "{", "${", "${f", "${f:", "${f:exec:id", "${a}{f:exec:id}", "$${a}", "${b}${a}"))
		case n < 6:
			b.WriteString(r.pick("${a}", "${b}"))
		default:
			b.WriteString("${f:" + r.pick("strip", "strip", "log", "exec", "virt_check:x", "${a}", r.text(depth+1)) + ":" + r.text(depth+1) + "}")
		}
	}
	text := b.String()
	switch r.Intn(12) {
	case 0:
		i := r.Intn(len(text))
		text = text[:i] + text[i+1:]
	case 1:
		text = "\\" + text
	}
	return text
}

// variable is often one of the parts that a call lacks in some text.
func (r scribe) variable() string {
	if r.Intn(2) == 0 {
		return r.pick("$", "x$", "{f:exec:id}", "}", "exec", "f:exec:id}", "${f:strip:$}", "${f")
	}
	return r.text(1)
}

// TestNothingRunsThatIsNotRefused puts random texts into variables and options:
// where Check finds nothing, the load on a node runs nothing of the profile's
// choice.
func TestNothingRunsThatIsNotRefused(t *testing.T) {
	r := scribe{rand.New(rand.NewSource(1))}
	m := boundaryMachine(t)
	const texts = 20000
	clean, ran := 0, 0
	for range texts {
		text := "[variables]\na=" + r.variable() + "\n"
		if r.Intn(2) == 0 {
			text += "b=" + r.variable() + "\n"
		}
		text += "[sysctl]\nx=" + r.text(0) + "\n"
		refused, runs := sound(t, m, text)
		if !refused {
			clean++
		}
		if runs {
			ran++
		}
	}
	t.Logf("%d of %d texts were not refused, %d ran a program", clean, texts, ran)
	if clean < 1000 || ran < 1000 {
		t.Errorf("%d of %d texts were not refused and %d ran a program: this test shows too little", clean, texts, ran)
	}
}

// Ways to put a call together that were thought of.
func TestCallsPutTogether(t *testing.T) {
	m := boundaryMachine(t)
	for _, text := range []string{
		"[sysctl]\nx=${f:exec:id}\n",
		"[variables]\na=exec\n[sysctl]\nx=${f:${a}:id}\n",
		"[sysctl]\nx=${f:${f:strip:exec}:id}\n",
		"[sysctl]\nx=${${f:strip:f}:exec:id}\n",
		"[variables]\na=$\n[sysctl]\nx=${a}{f:exec:id}\n",
		"[variables]\na=${f:strip:$}{f:exec:id}\n[sysctl]\nx=${a}\n",
		"[variables]\na=\\${f:exec:id}\n[sysctl]\nx=${a}\n",
		"[variables]\na={f:exec:id}\n[sysctl]\nx=$${a}\n",
		"[variables]\na=${f\n[sysctl]\nx=${a}:exec:id}\n",
		"[variables]\na=}\n[sysctl]\nx=${f:exec:id${a}\n",
		"[variables]\na=x\n[b]\ntype=variables\nc=$\n[sysctl]\nx=${c}{f:exec:id}\n",
		"[DEFAULT]\nx=${f:exec:id}\n[sysctl]\ny=1\n",
		"[x]\ntype=main\ny=${f:exec:id}\n",
		"[modules]\ntype=net\n${f:exec:id}=1\n",
		"[main]\ninclude=${f:exec:id}\n",
	} {
		if _, runs := sound(t, m, text); !runs {
			t.Errorf("this ran nothing, so that it shows nothing:\n%s", text)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		"[variables]\na=${f:strip:$}{f:exec:id}\n[sysctl]\nx=${a}\n",
		"[sysctl]\nx=${f:${f:strip:exec}:id}\n",
		"[net]\ndevices=\\${f:exec:id}\n[DEFAULT]\na=$${b}\n",
		"[main]\ninclude=p,${f:virt_check:a:b}\n",
	} {
		f.Add(text)
	}
	m := boundaryMachine(f)
	f.Fuzz(func(t *testing.T, text string) { sound(t, m, text) })
}
