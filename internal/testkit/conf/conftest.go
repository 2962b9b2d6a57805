// Package conf has what the tests of every product's configuration need.
package conf

import (
	"context"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
)

// Dir is a directory for a test, in memory where that can be had: each write of a
// configuration file is synced.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fettle-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// RoundTrip sets an option, reads it back and restores it: what was set is what
// is read, and the file has the bytes that it had. A name or a value that is
// refused changes nothing. file is where the option is.
func RoundTrip(t testing.TB, k setting.Kind, s setting.Setting, value, file string) {
	t.Helper()
	ctx := context.Background()
	bytes := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	s, err := k.Resolve(s)
	if err != nil {
		return
	}
	before := bytes()
	now, err := k.Read(ctx, s)
	if err != nil {
		return // a file that the product does not take
	}
	if err := k.Write(ctx, s, setting.Text(value)); err != nil {
		if bytes() != before {
			t.Fatalf("%s = %q: rejected, but changed: %v", s, value, err)
		}
		return
	}
	v, err := k.Read(ctx, s)
	if err != nil || v.Absent || !k.Equal(v, setting.Text(value)) {
		t.Fatalf("%s set to %q reads %q (%v)", s, value, v, err)
	}
	if more := strings.Count(bytes(), "\n") - strings.Count(before, "\n"); more > 1+strings.Count(key(s), "/") { // a map that was not there has a line too
		t.Fatalf("%s = %q: %d lines more", s, value, more)
	}
	if err := k.Write(ctx, s, now); err != nil {
		t.Fatalf("%s back to %q: %v", s, now, err)
	}
	if after := bytes(); after != before {
		t.Fatalf("%s: %q, was %q", s, after, before)
	}
}

// key is the option of a resolved setting: NAME:/FILE#OPTION.
func key(s setting.Setting) string {
	_, key, _ := strings.Cut(s.Name, "#")
	return key
}

// Reads holds read against what texts mean, and texts that it refuses.
func Reads[T comparable](t testing.TB, read func(string) (any, error), good map[string]T, bad ...string) {
	t.Helper()
	for text, want := range good {
		if got, err := read(text); err != nil || got != any(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range bad {
		if got, err := read(text); err == nil {
			t.Errorf("%q is read as %v, want an error", text, got)
		}
	}
}

// Checks holds check against options, values and a part of the error: "" for none.
func Checks(t testing.TB, check func(key, value string) error, cases [][3]string) {
	t.Helper()
	for _, c := range cases {
		if err := check(c[0], c[1]); (err == nil) != (c[2] == "") || err != nil && !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s %s: %v, want %q", c[0], c[1], err, c[2])
		}
	}
}
