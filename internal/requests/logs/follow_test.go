package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// accessLine returns the log line of a request for the path /n.
func accessLine(n int) string {
	return fmt.Sprintf("::1 - - [18/Mar/2012:04:00:%02d +0000] \"GET /%d HTTP/1.1\" 200 1 5 \"-\" \"-\"\n", n%60, n)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
}

// poll returns the requests so far: "PATH:COUNT PATH:COUNT".
func poll(t *testing.T, f *Follower) (string, *Report) {
	t.Helper()
	if err := f.Poll(context.Background()); err != nil {
		t.Fatal(err)
	}
	r := f.Report("count", 0)
	var paths []string
	for _, g := range r.By[0].Top {
		paths = append(paths, fmt.Sprintf("%s:%d", strings.Join(g.Key, " "), g.Count))
	}
	return strings.Join(paths, " "), r
}

// follow follows one log from its end.
func follow(t *testing.T, path string, o Options) *Follower {
	t.Helper()
	found, err := source.Find(host.Live(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	head, err := set.Head(0, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	detected, err := logformat.Detect(head, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Follow(host.Live(), []string{path}, set, []*logformat.Format{detected}, o, false)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFollow tests that exactly the lines appended after the start are read, through partial lines,
// rotation, and a short absence of the log.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	add := func(text string) {
		t.Helper()
		appendTo(t, path, text)
	}
	add(accessLine(1) + accessLine(2) + accessLine(3)[:20])
	f := follow(t, path, Options{By: [][]string{{"path"}}, Groups: 1000, Percentiles: true, Slowest: 3})
	came := func(want string, unread uint64) {
		t.Helper()
		if got, r := poll(t, f); got != want || r.Unread.Lines != unread {
			t.Fatalf("%q and %d unread, want %q and %d", got, r.Unread.Lines, want, unread)
		}
	}
	came("", 0)
	add(accessLine(3)[20:] + accessLine(4))
	came("/3:1 /4:1", 0)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	came("/3:1 /4:1", 0) // between the two steps of a rotation
	old := path
	path += ".1"
	add(accessLine(5)) // by a server that has not opened its new log yet
	path = old
	add(accessLine(6) + "what is no request\n")
	came("/3:1 /4:1 /5:1 /6:1", 1)
	add(accessLine(7))
	came("/3:1 /4:1 /5:1 /6:1 /7:1", 1)
	if e := f.Report("count", 0).Unread.Examples; len(e) != 1 || e[0].Path != path || e[0].Text != "what is no request" {
		t.Errorf("examples %+v", e)
	}
}

// TestFollowWhileRotated: a rotation at any moment of a poll loses no line, counts none twice, and is
// no error.
func TestFollowWhileRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	appendTo(t, path, accessLine(1))
	f := follow(t, path, Options{By: [][]string{{"path"}}, Groups: 1000})
	const rotations = 300
	for i := range rotations {
		rotated := make(chan error)
		go func() {
			err := os.Rename(path, path+".1")
			for range i % 7 * 100 {
				runtime.Gosched()
			}
			rotated <- errors.Join(err, os.WriteFile(path, []byte(accessLine(1000+i)), 0o600))
		}()
		err := f.Poll(t.Context())
		if err := errors.Join(err, <-rotated, f.Poll(t.Context())); err != nil {
			t.Fatalf("rotation %d: %v", i, err)
		}
	}
	if r := f.Report("count", 0); r.Requests != rotations || f.Lost != 0 {
		t.Errorf("%d requests counted of %d, %d logs lost", r.Requests, rotations, f.Lost)
	}
}

// TestFollowDirectory tests that lines in a directory are read once, through rotation, also if
// older parts exist, and that compressed files are left out.
func TestFollowDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	add := func(name, text string) {
		t.Helper()
		appendTo(t, at(name), text)
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(at(from), at(to)); err != nil {
			t.Fatal(err)
		}
	}
	add("access.log", accessLine(2))
	add("access.log.1", accessLine(1))
	add("other.log.1", accessLine(100))
	add("other.log", "")
	add("access.log.2.gz", "\x1f\x8b\x08")
	found, err := source.Find(host.Live(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	var formats []*logformat.Format
	for i := range set.Logs {
		if _, err := set.Head(i, 1<<16); err != nil {
			t.Fatal(err)
		}
		f, err := logformat.Parse("puppet-apache")
		if err != nil {
			t.Fatal(err)
		}
		formats = append(formats, f)
	}
	f, err := Follow(host.Live(), []string{dir}, set, formats, Options{By: [][]string{{"path"}}, Groups: 1000}, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Packed) != 1 || f.Packed[0].Path != at("access.log.2.gz") || f.Packed[0].Why == "" || len(set.Logs) != 3 {
		t.Errorf("%+v; followed: %+v", f.Packed, set.Logs)
	}
	came := func(want string) {
		t.Helper()
		if got, _ := poll(t, f); got != want || f.Lost > 0 {
			t.Fatalf("%q and %d lost, want %q", got, f.Lost, want)
		}
	}
	came("")
	add("access.log", accessLine(3))
	add("other.log", accessLine(101))
	came("/101:1 /3:1")
	move("access.log.1", "access.log.3")
	add("access.log", accessLine(4))
	move("access.log", "access.log.1")
	came("/101:1 /3:1 /4:1") // between the two steps of a rotation
	add("access.log", accessLine(5))
	add("access.log.1", accessLine(6))
	came("/101:1 /3:1 /4:1 /5:1 /6:1")
	came("/101:1 /3:1 /4:1 /5:1 /6:1")
}
