package ssh

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestHost(t *testing.T) {
	for word, want := range map[string]string{"ssh:web1": "web1", "ssh:root@web1.example": "root@web1.example", "ssh:[::1]": "[::1]",
		"web1": "", "ssh:": "", "ssh:-oProxyCommand=x": "", "ssh:a b": "", "ssh:$(x)": "", "ssh:a;b": ""} {
		if got, ok := ParseHost(word); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %t", word, got, ok)
		}
	}
}

func start(t *testing.T, script string) *Session {
	t.Helper()
	s, err := Start(t.Context(), []string{"sh", "-c", script}, 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestSession(t *testing.T) {
	s := start(t, `while read -r x; do echo "heard $x"; done; echo bye >&2`)
	for _, word := range []string{"one", "two"} {
		if _, err := s.Write([]byte(word + "\n")); err != nil {
			t.Fatal(err)
		}
		if line, err := s.Line(); err != nil || string(line) != "heard "+word {
			t.Errorf("%q %v", line, err)
		}
	}
	s.Close()
	if _, err := s.Line(); err == nil || !strings.Contains(err.Error(), "bye") {
		t.Errorf("after its end: %v", err)
	}
}

func TestWhy(t *testing.T) {
	for script, want := range map[string]string{
		`echo "ssh: Could not resolve hostname web9" >&2; exit 255`: "ssh: Could not resolve hostname web9",
		`exit 127`: "not installed on the remote host",
		`echo "fettle: no such thing" >&2; exit 2`: "the program ended: fettle: no such thing (exit status 2)",
		`exit 3`:                "the program ended: exit status 3",
		`true`:                  "the program ended: EOF",
		`printf %0101d 1; echo`: "more than 100 bytes",
	} {
		s := start(t, script)
		if _, err := s.Line(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
}

// TestEnds: a program that ignores the end of its input is killed with its children.
func TestKill(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, []string{"sh", "-c", `trap "" TERM; echo up; sleep 3600 & wait; sleep 3600`}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := s.Line(); err != nil || string(line) != "up" {
		t.Fatal(err)
	}
	cancel()
	done := make(chan struct{})
	go func() { s.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}
