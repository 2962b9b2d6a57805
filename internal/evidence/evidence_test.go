package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
)

func run(n int) *Run {
	return &Run{Kind: "prove", Command: "fettle prove -- true", Version: "test", Began: time.Date(2026, 1, 2, 3, 4, 5, n, time.UTC),
		Machine: Machine{Name: "a", CPU: "one <fast> & other", CPUs: 2, Settings: map[string]string{"sysctl:vm.swappiness": "60"}},
		Verdict: fmt.Sprintf("faster by %d %%", n), Body: json.RawMessage(fmt.Sprintf(`{"n": %d}`, n))}
}

func TestStore(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	if all, err := s.All(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	var ids []string
	for _, n := range []int{3, 1, 2, 2} { // one twice
		r := run(n)
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	all, err := s.All()
	if err != nil || len(all) != 3 || all[0].ID != ids[1] || all[2].ID != ids[0] {
		t.Fatalf("%v, %v", all, err)
	}
	r, err := s.Get(ids[0][:6])
	if err != nil || r.Verdict != "faster by 3 %" || r.Machine.CPU != "one <fast> & other" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Get("zz"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := s.Get(""); err == nil {
		t.Error("no ID names a run")
	}

	// A changed record is rejected and does not hide others.
	path := filepath.Join(s.Dir, ids[1]+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "faster by 1", "faster by 9", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err = s.All()
	if len(all) != 2 || err == nil || !strings.Contains(err.Error(), "was changed after it was recorded") {
		t.Errorf("%d, %v", len(all), err)
	}

	// So is a record without its ID, or under another one.
	for name, text := range map[string]string{
		ids[1]:             strings.Replace(string(text), `"id": "`+ids[1]+`"`, `"id": ""`, 1),
		ids[2]:             strings.Replace(string(text), `"id": "`+ids[1]+`",`, "", 1),
		"0123456789abcdef": string(text),
	} {
		path := filepath.Join(s.Dir, name+".json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if r, err := s.Get(name); !errors.As(err, &damaged) || damaged.Path != path {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if err := os.Remove(filepath.Join(s.Dir, ids[0]+".json")); err != nil {
		t.Fatal(err)
	}
	if all, err := s.All(); all == nil || len(all) != 0 || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestManyWriters(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 10 {
				if err := s.Put(run(n)); err != nil { // the same ten from each
					t.Error(err)
				}
			}
			u, err := s.Begin(run(1000 + i))
			if err == nil {
				err = s.Finish(u)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := s.All()
	if err != nil || len(all) != 26 {
		t.Errorf("%d runs, %v", len(all), err)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) != 26 {
		t.Errorf("%d files are left", len(left))
	}
}

// TestUnfinishedAtEachByte: whatever part of the last write reached the disk,
// earlier lines are kept, and the run can be resumed.
func TestUnfinishedAtEachByte(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	u, err := s.Begin(run(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resume(filepath.Base(strings.TrimSuffix(u.Path, ".jsonl")), nil); !errors.Is(err, ErrInProgress) {
		t.Errorf("a run under way: %v", err)
	}
	var ends []int
	for i := range 3 {
		if err := u.Append(map[string]int{"visit": i}); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(u.Path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(st.Size()))
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.Path)
	if err != nil {
		t.Fatal(err)
	}
	names, err := s.Unfinished()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	head := strings.IndexByte(string(text), '\n') + 1
	for at := range len(text) + 1 {
		if err := os.WriteFile(u.Path, text[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		v, err := s.Resume(names[0], func([]byte) error { n++; return nil })
		if at < head {
			if err == nil {
				t.Fatalf("cut at %d: no header, and no error", at)
			}
			continue
		}
		want := 0
		for _, end := range ends {
			if end <= at {
				want++
			}
		}
		if err != nil || n != want || v.Run.Verdict != "faster by 1 %" {
			t.Fatalf("cut at %d: %d lines, want %d, %v", at, n, want, err)
		}
		if err := v.Append(map[string]int{"visit": 9}); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		again, _ := os.ReadFile(u.Path)
		if got := strings.Count(string(again), "\n"); got != want+2 {
			t.Fatalf("cut at %d: %d lines after one more, want %d", at, got, want+2)
		}
	}
}

// TestReplace: there is always exactly one line, locked by its process, and
// nothing is left of a dropped or finished run.
func TestReplace(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	u, err := s.Begin(run(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Replace(0); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				n, whole := -1, 0
				r, alive, err := s.Peek(u.Name(), func(text []byte) error { whole++; return json.Unmarshal(text, &n) })
				if err != nil || !alive || whole != 1 || n < 0 || r.Verdict != "faster by 1 %" {
					t.Errorf("%v, alive %v, %d lines, the last is %d", err, alive, whole, n)
					return
				}
				if err := s.Drop(u.Name()); err != nil && !errors.Is(err, ErrInProgress) {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 60 {
		if err := u.Replace(n); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	wg.Wait()
	if err := os.WriteFile(u.Path+replaceSuffix, []byte("half a l"), 0o600); err != nil { // killed in Replace
		t.Fatal(err)
	}
	if names, err := s.Unfinished(); err != nil || len(names) != 1 || names[0] != u.Name() {
		t.Error(names, err)
	}
	if err := s.Finish(u); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if u, err = s.Begin(run(2)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.Replace("a"), u.Close(), os.WriteFile(u.Path+replaceSuffix, nil, 0o600), s.Drop(u.Name())); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestRefusedStore(t *testing.T) {
	dir := t.TempDir()
	for name, prepare := range map[string]func(string) error{
		"a file":           func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a link":           func(p string) error { return os.Symlink(dir, p) },
		"open for writing": func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) },
	} {
		s := Store{filepath.Join(dir, name)}
		if err := prepare(s.Dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(run(1)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestFingerprint(t *testing.T) {
	a, b := Fingerprint(host.Live()), Fingerprint(host.Live())
	if a.CPUs < 1 || a.MemoryBytes < 1<<20 || a.Kernel == "" || a.Hardware == "" || a.Settings["sysctl:vm.swappiness"] == "" {
		t.Errorf("%+v", a)
	}
	if a.Hardware != b.Hardware {
		t.Error("not the same machine twice")
	}
	b.Settings["sysctl:vm.swappiness"] = "1000"
	delete(b.Settings, "sysctl:vm.overcommit_memory")
	got := strings.Join(a.Differing(b), " ")
	if !strings.Contains(got, "sysctl:vm.overcommit_memory") || !strings.Contains(got, "sysctl:vm.swappiness") {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	text, err := run(1).sealed()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"schema": "fettle/run/v1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(text)
		if err != nil {
			return
		}
		if again, err := r.sealed(); err != nil || string(again) != string(text) {
			t.Errorf("read, but not what was written: %v", err)
		}
	})
}
