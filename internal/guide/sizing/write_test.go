package sizing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/host"
)

// plan makes artefacts of names and contents in turn.
func plan(content ...string) []sizing.Artefact {
	var all []sizing.Artefact
	for i := 0; i < len(content); i += 2 {
		all = append(all, sizing.Artefact{Name: content[i], Content: content[i+1]})
	}
	return all
}

// states are what became of the files, as "name state, name state".
func states(out []sizing.WrittenFile) string {
	var all []string
	for _, w := range out {
		all = append(all, w.Name+" "+w.State)
	}
	return strings.Join(all, ", ")
}

// tree is every file below a directory but the ledger, with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if d.IsDir() {
			all[name+"/"] = ""
		} else if name != ".fettle-size.json" {
			text, err := os.ReadFile(p)
			all[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A plan leaves nothing of the one before it; what another program has changed since is
// kept and named, as often as it is asked, and the files of another product stay.
func TestWriteFormerPlan(t *testing.T) {
	dir := t.TempDir()
	files := host.Mounted(dir).Files
	write := func(owner, want string, content ...string) {
		t.Helper()
		out, err := sizing.Write(files, owner, plan(content...), false)
		if got := states(out); err != nil || got != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	}
	write("satellite", "a new, etc/b new, c new", "a", "1", "etc/b", "2", "c", "3")
	write("postgresql", "conf.d/p new", "conf.d/p", "1")
	write("satellite", "a as it was, c removed, etc/b removed", "a", "1")
	if got := fmt.Sprint(tree(t, dir)); got != "map[./: a:1 conf.d/: conf.d/p:1 etc/:]" {
		t.Error(got)
	}
	write("satellite", "etc/b new, a removed", "etc/b", "2")
	if err := os.WriteFile(filepath.Join(dir, "etc/b"), []byte("somebody's"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		write("satellite", "a new, etc/b kept", "a", "1")
		write("satellite", "a as it was, etc/b kept", "a", "1")
		write("satellite", "a removed, etc/b kept")
	}
	if got := fmt.Sprint(tree(t, dir)); got != "map[./: conf.d/: conf.d/p:1 etc/: etc/b:somebody's]" {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(dir, "etc/b")); err != nil {
		t.Fatal(err)
	}
	write("satellite", "")
	// A file that two plans have the same is of both; of two that differ neither
	// writes over the other.
	write("openshift", "m new", "m", "1")
	write("network", "m as it was", "m", "1")
	write("openshift", "")
	write("openshift", "m as it was", "m", "1")
	_, err := sizing.Write(files, "network", plan("m", "2"), false)
	var foreign *sizing.ForeignError
	if !errors.As(err, &foreign) || !slices.Equal(foreign.Taken, []string{"m (openshift)"}) {
		t.Fatal(err)
	}
	if out, err := sizing.Write(files, "network", plan("m", "2"), true); err != nil || states(out) != "m replaced" {
		t.Fatal(out, err)
	}
	write("openshift", "")
	write("network", "m removed")
	// A plan without a predecessor removes nothing.
	write("", "x new", "x", "1")
	write("", "y new", "y", "1")
	if got := fmt.Sprint(tree(t, dir)); got != "map[./: conf.d/: conf.d/p:1 etc/: x:1 y:1]" {
		t.Error(got)
	}
	// A ledger of before there were owners takes nothing away either.
	text, err := json.Marshal(map[string]any{"schema": "fettle/size-ledger/v1", "files": map[string]any{"/x": []string{"0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".fettle-size.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	write("satellite", "")
}

// faulty fails at a certain write.
type faulty struct {
	host.Files
	left int
}

func (f *faulty) next(op, p string) error {
	if f.left--; f.left == -1 {
		return &fs.PathError{Op: op, Path: p, Err: syscall.ENOSPC}
	}
	return nil
}

func (f *faulty) Replace(p string, data []byte, a host.Attr) error {
	if err := f.next("replace", p); err != nil {
		return err
	}
	return f.Files.Replace(p, data, a)
}

func (f *faulty) Remove(p string) error {
	if err := f.next("remove", p); err != nil {
		return err
	}
	return f.Files.Remove(p)
}

func (f *faulty) Mkdir(p string, m fs.FileMode) error {
	if _, err := f.Lstat(p); err == nil {
		return f.Files.Mkdir(p, m)
	}
	if err := f.next("mkdir", p); err != nil {
		return err
	}
	return f.Files.Mkdir(p, m)
}

// Whichever write fails, the directory is as it was, and the next run knows it.
func TestWriteFails(t *testing.T) {
	failed := 0
	for at := 0; ; at++ {
		dir := t.TempDir()
		files := host.Mounted(dir).Files
		if err := os.WriteFile(filepath.Join(dir, "c"), []byte("somebody's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sizing.Write(files, "satellite", plan("a", "1", "etc/b", "2", "old", "3"), false); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		ledger, err := os.ReadFile(filepath.Join(dir, ".fettle-size.json"))
		if err != nil {
			t.Fatal(err)
		}
		next := plan("a", "4", "etc/b", "2", "c", "5", "new/d/e", "6")
		_, err = sizing.Write(&faulty{files, at}, "satellite", next, true)
		if err == nil {
			break
		}
		failed++
		after, _ := os.ReadFile(filepath.Join(dir, ".fettle-size.json"))
		if !errors.Is(err, syscall.ENOSPC) || fmt.Sprint(tree(t, dir)) != fmt.Sprint(before) || string(after) != string(ledger) {
			t.Fatalf("write %d: %v: %v, want %v\n%s", at, err, tree(t, dir), before, after)
		}
		if info, err := os.Stat(filepath.Join(dir, "c")); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("write %d: c is %v, %v", at, info.Mode(), err)
		}
		if out, err := sizing.Write(files, "satellite", next, true); err != nil || states(out) != "a replaced, etc/b as it was, c replaced, new/d/e new, old removed" {
			t.Fatal(states(out), err)
		}
	}
	if failed < 8 {
		t.Errorf("%d writes have failed", failed)
	}
}

// What is in the way of a file is said before anything is written.
func TestWriteInTheWay(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"a link that leads outside": {func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "etc")) }, "etc is a link to /etc, which is not a subdirectory"},
		"a dangling link":           {func(dir string) error { return os.Symlink("none", filepath.Join(dir, "etc")) }, "etc is a link to none, which is not"},
		"a file for a directory":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, "etc"), nil, 0o644) }, "etc is not a directory"},
		"a link to a file": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o644), os.Symlink("f", filepath.Join(dir, "etc")))
		}, "etc is a link to f, which is not"},
		"a directory for a file": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "etc/b"), 0o755) }, "etc/b is not a regular file"},
		"a link for a file": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "etc"), 0o755), os.Symlink("/etc/passwd", filepath.Join(dir, "etc/b")))
		}, "etc/b is a link to /etc/passwd"},
		"a ledger that leads outside": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".fettle-size.json"), []byte(`{"owners":{"/../x":["satellite"]}}`), 0o644)
		}, "not below the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			_, err := sizing.Write(host.Mounted(dir).Files, "satellite", plan("a", "1", "etc/b", "2"), true)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if _, err := os.Lstat(filepath.Join(dir, "a")); err == nil {
				t.Error("something was written")
			}
		})
	}
	// A link to a directory inside is one.
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("/real", filepath.Join(dir, "etc"))); err != nil {
		t.Fatal(err)
	}
	if out, err := sizing.Write(host.Mounted(dir).Files, "satellite", plan("etc/b", "2"), false); err != nil || states(out) != "etc/b new" {
		t.Error(states(out), err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "real/b")); err != nil || string(text) != "2" {
		t.Error(string(text), err)
	}
}

// Write puts its own files anew, leaves those of others alone, and knows them apart
// also after one was changed.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	files := host.Mounted(dir).Files
	write := func(force bool, content ...string) ([]string, error) {
		t.Helper()
		var all []sizing.Artefact
		for i := 0; i < len(content); i += 2 {
			all = append(all, sizing.Artefact{Name: content[i], Content: content[i+1]})
		}
		out, err := sizing.Write(files, "", all, force)
		var states []string
		for _, w := range out {
			states = append(states, w.State)
		}
		return states, err
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	step := func(force bool, want string, content ...string) {
		t.Helper()
		got, err := write(force, content...)
		if err != nil || strings.Join(got, ", ") != want {
			t.Fatalf("%v, %v, want %s", got, err, want)
		}
	}
	step(false, "new, new", "a.yaml", "1", "etc/sysctl.d/x.conf", "2")
	step(false, "replaced, as it was", "a.yaml", "3", "etc/sysctl.d/x.conf", "2")
	if read("a.yaml") != "3" || read("etc/sysctl.d/x.conf") != "2" {
		t.Error("not what was written")
	}
	put("a.yaml", "somebody's")
	put("b.yaml", "somebody's")
	for range 2 { // a refusal does not make them ours
		_, err := write(false, "a.yaml", "4", "b.yaml", "5", "c.yaml", "6")
		var foreign *sizing.ForeignError
		if !errors.As(err, &foreign) || !slices.Equal(foreign.Names, []string{"a.yaml", "b.yaml"}) {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "c.yaml")); err == nil || read("a.yaml") != "somebody's" {
			t.Fatal("something was written")
		}
	}
	step(true, "replaced, replaced, new", "a.yaml", "4", "b.yaml", "5", "c.yaml", "6")
	step(false, "replaced", "b.yaml", "7")
	// Equal content needs no question.
	put("d.yaml", "8")
	step(false, "as it was", "d.yaml", "8")
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../b", ".fettle-size.json", "a/"} {
		if _, err := write(true, name, "x"); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	// A link is followed inside the directory only, and no file is put behind one.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("o"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := write(true, "link.yaml", "x"); err == nil {
		t.Error("written through a link")
	}
	if text, _ := os.ReadFile(outside); string(text) != "o" {
		t.Error("written outside")
	}
	put(".fettle-size.json", "{")
	if _, err := write(false, "e.yaml", "1"); err == nil {
		t.Error("a ledger that is broken is none")
	}
}
