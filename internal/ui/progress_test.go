package ui

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks what a terminal and a pipe show of work of 100 s in ten steps, which is
// planned to take 50 s, and that a message does not stand behind the progress line.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 0} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := NewScreen(&out, &out)
			s.Width = width
			step, stop := s.Steps(50 * time.Second)
			step("first step", 0, 10)
			for n := range 10 {
				time.Sleep(10*time.Second - 7*time.Millisecond)
				step("step", n+1, 10)
				if n == 4 {
					s.Say("half of it")
				}
			}
			stop()
			stop()
			s.Status("")
			text := out.String()
			if width == 0 {
				const want = `fettle: step, about 90 s left
fettle: step, about 80 s left
fettle: step, about 70 s left
fettle: step, about 60 s left
fettle: half of it
fettle: step, about 50 s left
fettle: step, about 40 s left
fettle: step, about 30 s left
fettle: step, about 20 s left
fettle: step, about 10 s left
`
				if text != want {
					t.Errorf("%s", text)
				}
				return
			}
			for _, want := range []string{"\r\x1b[Kfirst step, about 49 s left\r", "\r\x1b[Kstep, about 50 s left\r", "\r\x1b[Kfettle: half of it\n\r\x1b[Kstep, about 5"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q", want)
				}
			}
			if !strings.HasSuffix(text, "about 1 s left\r\x1b[K") && !strings.HasSuffix(text, "step\r\x1b[K") {
				t.Errorf("ends with %q", text[len(text)-80:])
			}
		})
	}
}

// TestProgressLine checks the time left.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			now  Progress
			took time.Duration
			want string
		}{
			{Progress{Done: 25, All: 100}, 4 * time.Second, "reading, about 12 s left"},
			{Progress{Done: 99, All: 100}, 4 * time.Second, "reading, about 1 s left"},
			{Progress{Done: 1, All: 1000}, 3 * time.Second, "reading, about 50 min left"},
			{Progress{Done: 1, All: 1000, Until: time.Now().Add(time.Minute)}, 3 * time.Second, "reading, about 60 s left"},
			{Progress{Done: 100, All: 100}, 3 * time.Second, "reading"},
			{Progress{Done: 5000}, 3 * time.Second, "reading, for 3 s so far"},
			{Progress{All: 100}, 3 * time.Second, "reading, for 3 s so far"},
			{Progress{Takes: 3 * time.Hour}, time.Minute, "reading, about 3 h left"},
		} {
			c.now.Text = "reading"
			p := tracker{began: time.Now().Add(-c.took)}
			p.see(c.now)
			if got := p.line(); got != c.want {
				t.Errorf("%+v: %q, want %q", c.now, got, c.want)
			}
		}
	})
}
