package run

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func header(objects int) Header {
	return Header{Run: "r", Began: time.Unix(1, 0).UTC(), Server: "https://x", Cluster: "uid", File: "f", Objects: objects, Plan: "sum"}
}

// TestAnyCut tests that whatever part a crash cuts off, earlier records are complete, and later
// ones are added after complete lines.
func TestAnyCut(t *testing.T) {
	dir := t.TempDir()
	j, err := Create(dir, header(10))
	if err != nil {
		t.Fatal(err)
	}
	steps := []func(){
		func() { _ = j.Begin(Running) }, func() { _ = j.Reserve(8) }, func() { j.Created(0, "u0") }, func() { j.Created(3, "u3") },
		func() { j.Reused(1, "u1") }, func() { j.Failed(2, "no\n\"way\"") }, func() { j.Created(2, "u2") }, func() { j.Gone(3) }, func() { j.Kept(0, "because") }, func() { _ = j.Begin(Ended) },
	}
	for _, s := range steps {
		s()
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Object{{JournalKept, "u0", "because", false}, {Reused, "u1", "", false}, {Created, "u2", "no\n\"way\"", false}, {Gone, "u3", "", false}}
	if !reflect.DeepEqual(s.Objects[:4], want) || s.Reserved != 8 || s.Phase != Ended || s.Header.Plan != "sum" {
		t.Errorf("%+v", s)
	}
	first := strings.IndexByte(string(whole), '\n') + 1
	for cut := first; cut <= len(whole); cut += 3 {
		for _, tail := range []string{"", "\x00\x00\x00\x00\n\x00\x00"} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal"), append(whole[:cut:cut], tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			j, before, err := Open(dir)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if lines := strings.Count(string(whole[:cut]), "\n"); lines >= 4 && before.Objects[0].UID != "u0" {
				t.Fatalf("cut at %d: object 0 is lost", cut)
			}
			j.Created(9, "u9")
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			after, err := Read(dir)
			if err != nil || after.Objects[9].UID != "u9" || after.Reserved != before.Reserved {
				t.Fatalf("cut at %d: %+v %v", cut, after, err)
			}
		}
	}
	for cut := 0; cut < first; cut += 10 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "no header") {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// TestDamage tests that damage in the middle is an error, and never skipped.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	j, err := Create(dir, header(1000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		j.Created(i, "0123456789")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		damaged := append([]byte(nil), text...)
		damaged[rand.IntN(len(text)-100)] ^= 1 << rand.IntN(8)
		if _, _, err := parse(damaged); err == nil {
			t.Fatal("a journal with a bit that has changed is believed")
		}
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	j, err := Create(dir, header(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one: %v", err)
	}
	if s, err := Read(dir); err != nil || !s.Held {
		t.Errorf("read meanwhile: %+v, %v", s, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(dir); err != nil || s.Held {
		t.Errorf("nobody is at it: %+v, %v", s, err)
	}
	if j, _, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, header(1)); err == nil {
		t.Error("a journal was made over another one")
	}
}

// TestFull tests that nothing is reported as stored if the disk is full.
func TestFull(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	j := start(f)
	if err := j.Reserve(5); err == nil || !strings.Contains(err.Error(), "cannot write the journal") {
		t.Errorf("reserved: %v", err)
	}
	if j.Err() == nil || j.Sync() == nil {
		t.Error("the error is forgotten")
	}
	if err := j.Close(); err == nil {
		t.Error("closed without a word")
	}
}

func FuzzJournalParse(f *testing.F) {
	text := appendLine(nil, letterHeader, `{"version":1,"objects":3}`)
	text = appendLine(text, letterReserved, "2")
	text = appendLine(text, letterCreated, "1 uid")
	f.Add(append([]byte(nil), text...))
	text = appendLine(text, letterFailed, `0 "x"`)
	f.Add(append(text, "0000"...))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, whole, err := parse(text)
		if err == nil && (whole > len(text) || s.Reserved > len(s.Objects)) {
			t.Errorf("%d of %d, %+v", whole, len(text), s)
		}
	})
}

// TestJournalRefused tests that the record of a certain rejection is valid until the run continues.
func TestJournalRefused(t *testing.T) {
	dir := t.TempDir()
	j, err := Create(dir, header(3))
	if err != nil {
		t.Fatal(err)
	}
	refused := func() []bool {
		t.Helper()
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
		s, err := Read(dir)
		if err != nil || s.Count(Failed) != 2 || s.Objects[1].Why != "403" {
			t.Fatalf("%+v %v", s, err)
		}
		return []bool{s.Objects[0].Refused, s.Objects[1].Refused}
	}
	j.Failed(0, "lost")
	j.Refused(1, "403")
	if got := refused(); got[0] || !got[1] {
		t.Error(got)
	}
	for phase, want := range map[Phase]bool{Ended: true, Undoing: true} {
		if _ = j.Begin(phase); refused()[1] != want {
			t.Error(phase)
		}
	}
	if _ = j.Begin(Running); refused()[1] {
		t.Error("it may be asked for again")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
