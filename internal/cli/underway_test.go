package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// TestUnderWayOrCutOff has a transaction that is not closed: it is under way as
// long as a process has the lock, and was cut off when none has.
func TestUnderWayOrCutOff(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, err := journal.Lock(dir, journal.Options{BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := j.Begin(journal.Begin{Kind: journal.Tune, Time: time.Now(), BootID: "b", Reason: "fettle tune x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Stage(tx, []journal.Before{{N: 1, Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("1"), Want: setting.Text("2")}}); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		t.Helper()
		var out bytes.Buffer
		m := &tune.Machine{Engine: &tune.Engine{Host: host.Live(), Kinds: setting.Kinds{}, StateDir: dir, Tell: func(text string) { fmt.Fprintln(&out, text) }}}
		if _, err := m.ReadState(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := said(); !strings.Contains(got, "transaction 1 (fettle tune x) is in progress: process ") {
		t.Errorf("while process %d has the lock: %q", os.Getpid(), got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := said(); !strings.Contains(got, "transaction 1 (fettle tune x) was interrupted; fettle undo") {
		t.Errorf("with nobody at work: %q", got)
	}
}
