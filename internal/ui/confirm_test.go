package ui_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// watched sends everything written to it to a channel.
type watched struct{ said chan string }

func (w watched) Write(b []byte) (int, error) {
	w.said <- string(b)
	return len(b), nil
}

// TestConfirm: only yes is yes, and Ctrl-C ends the question at once.
func TestConfirm(t *testing.T) {
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "yours\n": false} {
		person, side := root.Terminal(t)
		os.Stdin = side
		if _, err := person.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		s := &ui.Screen{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
		if got, err := s.Confirm(t.Context(), "Do it?"); got != want || err != nil {
			t.Errorf("%q: %t %v", answer, got, err)
		}
	}
	_, os.Stdin = root.Terminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	w := watched{make(chan string, 10)}
	ended := make(chan error)
	go func() {
		_, err := (&ui.Screen{Out: w, Err: w}).Confirm(ctx, "Do it?")
		ended <- err
	}()
	if q := <-w.said; q != "Do it? [y/N] " {
		t.Errorf("%q", q)
	}
	interrupt()
	select {
	case err := <-ended:
		if ui.Code(err) != ui.Interrupted || !strings.Contains(err.Error(), "nothing changed") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the question is still asked")
	}
}
