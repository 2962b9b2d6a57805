package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestList tests that a directory without a run of fettle is not listed, and that an unreadable run
// is listed with the reason.
func TestList(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id := NewID(time.Date(2026, 2, 3, 4, 5, 6, 7e6, time.UTC))
	for _, name := range []string{"1", "4711", "self", "sys", "2026-02-03", "20260203-040506", id} {
		if err := os.Mkdir(filepath.Join(s.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0].ID != id || all[0].Err == nil {
		t.Errorf("%v %+v", err, all)
	}
}

// TestDamaged tests that a run with an unreadable load reports the reason, and the label of its
// objects in the cluster.
func TestDamaged(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	id := NewID(time.Date(2026, 2, 3, 4, 5, 6, 7e6, time.UTC))
	if _, err := s.Load(id); err == nil || err.Error() != "run "+id+" not found in "+s.Dir {
		t.Errorf("no such run: %v", err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	want := func(why string) {
		t.Helper()
		_, err := s.Load(id)
		if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(s.Dir, id, loadFile)+" is damaged: "+why+"; ") || !strings.HasSuffix(err.Error(), "fettle.dev/load-run="+id) {
			t.Errorf("%s: %v", why, err)
		}
	}
	want("file missing")
	for text, why := range map[string]string{"": "unexpected end of JSON input", `{"load": `: "unexpected end of JSON input", "{}": "contains no load"} {
		if err := os.WriteFile(filepath.Join(s.Dir, id, loadFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want(why)
	}
	// One that is too large is not read.
	if err := os.Truncate(filepath.Join(s.Dir, id, loadFile), maxLoad+1); err != nil {
		t.Fatal(err)
	}
	want("larger than 256 MiB")
}
