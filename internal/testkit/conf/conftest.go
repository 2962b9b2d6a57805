// Package conf contains helpers for the tests of all products' configuration.
package conf

import (
	"context"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
)

// RoundTrip sets an option in file, reads it back and restores it. It expects to read the
// written value, and the original bytes after the restore. A rejected name or value must change
// nothing.
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

// key returns the option of a resolved setting named NAME:/FILE#OPTION.
func key(s setting.Setting) string {
	_, key, _ := strings.Cut(s.Name, "#")
	return key
}

// Reads checks the values that read returns for good texts, and that it rejects bad ones.
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

// Checks calls check for cases of option, value and part of the error, which is "" for none.
func Checks(t testing.TB, check func(key, value string) error, cases [][3]string) {
	t.Helper()
	for _, c := range cases {
		if err := check(c[0], c[1]); (err == nil) != (c[2] == "") || err != nil && !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s %s: %v, want %q", c[0], c[1], err, c[2])
		}
	}
}
