package logs

import (
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// TestFollowCopyTruncate tests logrotate's copytruncate: the server continues at its old offset,
// and all new lines are read, whatever precedes them.
func TestFollowCopyTruncate(t *testing.T) {
	for _, length := range []int{40, 400, 40_000} { // requests before
		path := filepath.Join(t.TempDir(), "access.log")
		log, err := os.Create(path) // without O_APPEND, as the server has it open
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		add := func(n int) {
			t.Helper()
			if _, err := log.WriteString(accessLine(n)); err != nil {
				t.Fatal(err)
			}
		}
		for range length {
			add(0)
		}
		found, err := source.Find(host.Live(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		as, err := logformat.Parse("puppet-apache")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Follow(host.Live(), []string{path}, source.NewSet(found), []*logformat.Format{as}, Options{By: [][]string{{"path"}}, Groups: 1000}, false)
		if err != nil {
			t.Fatal(err)
		}
		came := func(want string) {
			t.Helper()
			if got, r := poll(t, f); got != want || f.Lost > 0 || r.Unread.Lines > 0 {
				t.Fatalf("%d: %q, %d lost, %d not read, want %q", length, got, f.Lost, r.Unread.Lines, want)
			}
		}
		add(1)
		came("/1:1")
		add(2)
		copied, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".1", copied, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		add(3)
		came("/1:1 /2:1 /3:1")
		add(4)
		came("/1:1 /2:1 /3:1 /4:1")
		if n := f.Report("count", 0).Logs[0].ZeroBytes; n != int64(len(copied)) {
			t.Errorf("%d: %d zero bytes, want %d", length, n, len(copied))
		}
	}
}
