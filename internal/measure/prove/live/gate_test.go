package live

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
)

// xz is the beginning of a file in a format that fettle does not read.
const xz = "\xfd7zXZ\x00rest"

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// TestRotated tests that a log that was just rotated is waited for, or that the earlier log
// determines its format. A log without a writer is reported as such.
func TestRotated(t *testing.T) {
	const line = "2026-11-21T08:00:00 [I|app|] Completed 200 OK in 12ms (Views: 1ms)\n"
	for name, x := range map[string]struct {
		files map[string]string // by what follows the path
		grow  string            // comes while it is waited for
		says  string
		waits bool
		told  bool
	}{
		"lines":                  {files: map[string]string{"": line}},
		"just rotated":           {files: map[string]string{"": "", ".1": line}},
		"and not there yet":      {files: map[string]string{".1": line}},
		"by dates":               {files: map[string]string{"": "", "-20260101": "other\n", "-20260102": line}},
		"and not of requests":    {files: map[string]string{"": "Started GET\n", ".1": line}},
		"packed":                 {files: map[string]string{"": "", ".1.gz": gzipped(line)}},
		"packed, another line":   {files: map[string]string{"": "Started GET\n", "-20260101.gz": gzipped(line)}},
		"packed by xz":           {files: map[string]string{"": "", ".1.xz": xz}, grow: line, waits: true},
		"by xz, another line":    {files: map[string]string{"": "Started GET\n", "-20260101.xz": xz}, grow: line, waits: true},
		"new":                    {files: map[string]string{"": ""}, grow: line, waits: true},
		"for ever":               {files: map[string]string{"": ""}, says: "the log is still empty after 40s", waits: true},
		"none":                   {files: map[string]string{}, says: "no such file"},
		"of something else":      {files: map[string]string{"": "other\n"}, says: "unknown log format"},
		"both of something else": {files: map[string]string{"": "other\n", ".1": "other\n"}, says: "unknown log format"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "production.log")
			for more, text := range x.files {
				write(t, file+more, text)
			}
			set := &Set{Host: host.Live()}
			if _, err := set.Metric("logs:" + file + ":p99"); err != nil {
				t.Fatal(err)
			}
			c := &clock{now: time.Unix(1e9, 0)}
			c.work = func(time.Time) error {
				if len(c.waits) == 3 && x.grow != "" {
					write(t, file, x.grow)
				}
				return nil
			}
			told := 0
			w := &Window{Length: 10 * time.Second, Sources: set.Sources(), Clock: c, Wait: c.wait, Tell: func(error) { told++ }}
			err := w.Check(t.Context())
			if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v, want %q", err, x.says)
			}
			if waited := len(c.waits) > 0; waited != x.waits || told != map[bool]int{true: 1}[x.waits] {
				t.Errorf("waited %v, told %d times", c.waits, told)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "old.log")
	write(t, file, line)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, past, past); err != nil {
		t.Fatal(err)
	}
	for recent, idle := range map[time.Duration]bool{0: false, 2 * time.Hour: false, time.Minute: true} {
		set := &Set{Host: host.Live(), Recent: recent}
		if _, err := set.Metric("logs:" + file + ":p99"); err != nil {
			t.Fatal(err)
		}
		if err := set.Sources()[0].Check(t.Context()); errors.Is(err, ErrIdle) != idle || idle && !strings.Contains(err.Error(), "its last line came 1h0m") {
			t.Errorf("%v: %v", recent, err)
		}
	}
}

// TestClock tests that windows are measured with a clock that cannot be set.
func TestClock(t *testing.T) {
	if now := host.Live().Clock.Now(); now == now.Round(0) { //nolint:staticcheck // equal with the monotonic reading
		t.Errorf("%v has no monotonic reading", now)
	}
}
