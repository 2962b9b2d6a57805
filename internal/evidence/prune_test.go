package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestDrop(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	u, err := s.Begin(run(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(u.Name()); !errors.Is(err, ErrInProgress) {
		t.Fatalf("one under way: %v", err)
	}
	if err := u.Append(map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	// A process that opened the file before it was dropped cannot resume the run.
	f, err := os.OpenFile(u.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(u.Name()); err != nil {
		t.Fatal(err)
	}
	if err := (&RunInProgress{&Run{}, u.Path, f}).resume(func([]byte) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	f.Close()
	if names, err := s.Unfinished(); len(names) > 0 || err != nil {
		t.Error(names, err)
	}
	if err := errors.Join(s.Drop(u.Name()), s.Drop("../no"), s.Remove("0123456789abcdef")); err != nil {
		t.Errorf("what is gone is gone: %v", err)
	}
	r := run(2)
	if err := s.Put(r); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(r.ID); err != nil {
		t.Fatal(err)
	}
	if all, err := s.All(); len(all) > 0 || err != nil {
		t.Error(all, err)
	}
}

// TestPruneBesideWriters: while runs begin, end and are listed, dropping
// unfinished runs never drops one in progress, and no record is lost.
func TestPruneDuringWrites(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "runs")}
	const writers, each = 4, 12
	var writing, pruning sync.WaitGroup
	stop := make(chan struct{})
	errs := make(chan error, 1000)
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				r := run(1 + w*each + i)
				r.Began = time.Date(2026, 1, 2, 3, w, i, 0, time.UTC)
				r.Body = json.RawMessage(fmt.Sprintf(`{"writer": %d, "n": %d}`, w, i))
				u, err := s.Begin(r)
				if err == nil {
					err = errors.Join(u.Append(1), s.Finish(u))
				}
				if err != nil {
					errs <- err
				}
			}
		})
	}
	pruning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			names, err := s.Unfinished()
			if err != nil {
				errs <- err
			}
			for _, name := range names {
				if err := s.Drop(name); err != nil && !errors.Is(err, ErrInProgress) {
					errs <- err
				}
			}
		}
	})
	writing.Wait()
	close(stop)
	pruning.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if all, err := s.All(); len(all) != writers*each || err != nil {
		t.Errorf("%d records of %d, %v", len(all), writers*each, err)
	}
}
