package product

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// Bench is a product on this machine with its own journal.
type Bench struct {
	testing.TB
	Product product.Product
	Host    *host.Host
	Engine  *tune.Engine
}

// New creates a journal for a product's settings.
func New(t testing.TB, p product.Product) *Bench {
	h := host.Live()
	return &Bench{t, p, h, &tune.Engine{
		Host: h, Kinds: setting.Kinds{p.Name: p.Kind(h)}, StateDir: filepath.Join(t.TempDir(), "state"),
		Main: profile.DefaultMain(), User: "test", Reason: t.Name(),
	}}
}

// Try sets options, given as names and values in turn.
func (b *Bench) Try(pairs ...string) (*tune.Applied, error) {
	var changes []setting.Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, setting.Change{
			Setting: setting.Setting{Kind: b.Product.Name, Name: pairs[i]}, Want: setting.Text(pairs[i+1]), Reason: setting.Reason{Text: "test"},
		})
	}
	return b.Engine.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return b.Engine.PlanAsked(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply})
}

// Set sets options and expects the given activations.
func (b *Bench) Set(activations []string, pairs ...string) {
	b.Helper()
	a, err := b.Try(pairs...)
	if err != nil || a.Result != journal.ResultDone {
		b.Fatalf("%v: %v, %+v", pairs, err, a)
	}
	var planned []string
	for _, x := range a.Plan.Activations() {
		planned = append(planned, x.String())
	}
	if got, want := strings.Join(planned, "; "), strings.Join(activations, "; "); got != want {
		b.Errorf("%v: the plan has %q, want %q", pairs, got, want)
	}
}

// Undo reverts all changes.
func (b *Bench) Undo() {
	b.Helper()
	if _, err := b.Engine.Undo(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// Refused tries options that must be rolled back automatically, with an error that contains
// text.
func (b *Bench) Refused(text string, pairs ...string) {
	b.Helper()
	a, err := b.Try(pairs...)
	var incomplete *tune.IncompleteError
	if err == nil || errors.As(err, &incomplete) || a != nil && a.Result != journal.ResultRolledBack || !strings.Contains(err.Error(), text) {
		b.Errorf("%v: %v, %+v, want an error with %q and a complete rollback", pairs, err, a, text)
	}
	if _, err := b.Engine.Undo(context.Background()); !errors.Is(err, tune.ErrNothing) {
		b.Errorf("%v: something is left: %v", pairs, err)
	}
}

// Installed returns the only instance.
func (b *Bench) Installed() product.Installed {
	b.Helper()
	all, err := b.Product.Find(context.Background(), b.Host)
	if err != nil || len(all) != 1 {
		b.Fatalf("%d of %s: %v", len(all), b.Product.Name, err)
	}
	return all[0]
}

// Archived returns the only instance from a recording of this machine.
func (b *Bench) Archived() product.Installed {
	b.Helper()
	recorder, recording := host.Record(b.Host)
	if _, err := b.Product.Find(context.Background(), recorder); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	if _, err := recording.WriteTo(&text); err != nil {
		b.Fatal(err)
	}
	archive, err := host.ParseArchive("archive", []byte(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	all, err := b.Product.Find(context.Background(), archive)
	if err != nil || len(all) != 1 {
		b.Fatalf("the archive has %d of %s: %v", len(all), b.Product.Name, err)
	}
	return all[0]
}

// Running expects the running value of an option.
func (b *Bench) Running(option, want string) {
	b.Helper()
	o := b.Installed().Option(option)
	if v, ok := o.Running.Get(); !ok || v != want {
		b.Errorf("%s runs with %q (%s), want %q", option, v, o.Running.Unknown(), want)
	}
}

// Reads checks an instance's options, written "VALUE SOURCE", and its answers to inputs.
func Reads(t testing.TB, i product.Installed, options map[string]string, answers map[string]any) {
	t.Helper()
	for option, want := range options {
		o := i.Option(option).File
		if got := o.Or("") + " " + o.Source(); got != want {
			t.Errorf("%s is %s (%s), want %s", option, got, o.Unknown(), want)
		}
	}
	for input, want := range answers {
		if got := i.Answer(input); !reflect.DeepEqual(got.Value, want) {
			t.Errorf("%s: %+v, want %v", input, got, want)
		}
	}
}

// Command runs a program and returns what it prints.
func Command(t testing.TB, argv ...string) string {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.WaitDelay = 2 * time.Second // a server may keep the output open
	out, err := c.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Eventually waits up to a minute until ask returns true.
func Eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	if !root.Eventually(time.Minute, ask) {
		t.Fatalf("never: %s", what)
	}
}

// Read returns the text of a file.
func Read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Same expects a file to be unchanged.
func Same(t testing.TB, name, before string) {
	t.Helper()
	if got := Read(t, name); got != before {
		t.Errorf("%s is not as before:\n%s", name, got)
	}
}

// Bytes sets an option in a machine's files through its setting kind, expects to read the value
// back, reverts it, and expects the original bytes. Rejected files and values are not a
// failure.
func Bytes(t *testing.T, p product.Product, files map[string]string, option, value string) {
	dir := machine.Dir(t)
	for name, text := range files {
		machine.WriteFile(t, dir, name, text)
	}
	ctx, h := context.Background(), host.Mounted(dir)
	kind := p.Kind(h)
	s, err := kind.Resolve(setting.Setting{Kind: p.Name, Name: option})
	if err != nil {
		return
	}
	before, err := kind.Read(ctx, s)
	if err != nil {
		return
	}
	if err := kind.Write(ctx, s, setting.Text(value)); err != nil {
		want(t, dir, files)
		return
	}
	now, err := kind.Read(ctx, s)
	if err != nil || !kind.Equal(now, setting.Text(value)) {
		t.Fatalf("%s = %q reads back as %q, %v", s, value, now, err)
	}
	if err := kind.Write(ctx, s, before); err != nil {
		t.Fatalf("%s back to %q: %v", s, before, err)
	}
	want(t, dir, files)
}

func want(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if got := Read(t, filepath.Join(dir, name)); got != text {
			t.Fatalf("%s was %q, is %q", name, text, got)
		}
	}
}
