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
			t.Fatalf("%s = %q: refused, and changed all the same: %v", s, value, err)
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
