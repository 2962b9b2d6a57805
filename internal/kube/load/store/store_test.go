package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestList: a directory that is no run of fettle's is not listed, a run that cannot be
// read is, with why.
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
