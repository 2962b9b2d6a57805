package daemon

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Lines have the journal's "<6>" in front where standard error is the stream that
// systemd names, by whatever number, and nowhere else.
func TestJournalStream(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := syscall.Dup(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	again := os.NewFile(uintptr(fd), "again")
	defer again.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	this := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	if !isJournal(w, this) || !isJournal(again, this) {
		t.Errorf("%s is not taken for the journal's stream", this)
	}
	for _, other := range []string{"", "1", fmt.Sprintf("%d:%d", st.Dev, st.Ino+1)} {
		if isJournal(w, other) {
			t.Errorf("%s is taken for the journal's stream %q", this, other)
		}
	}
	if isJournal(&bytes.Buffer{}, this) {
		t.Error("what is no file is taken for the journal's stream")
	}
}
