package host

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// TestEachProcess: on this machine the raw calls read the same as the files do.
func TestEachProcess(t *testing.T) {
	read := func(h *Host) map[int]string {
		all := map[int]string{}
		if err := h.EachProcess("comm", func(pid int, text []byte) { all[pid] = string(text) }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	type otherFiles struct{ liveFiles }
	other := Live()
	other.Files = otherFiles{}
	got, want := read(Live()), read(other)
	// Other processes start and end meanwhile.
	maps.DeleteFunc(want, func(pid int, text string) bool { return text == "" || got[pid] == text })
	if own := got[os.Getpid()]; own == "" || !strings.HasSuffix(own, "\n") || len(want) > len(got)/10 {
		t.Errorf("own %q; of %d processes these differ: %v", own, len(got), want)
	}
	if err := Live().EachProcess("none", func(pid int, text []byte) {
		if text != nil {
			t.Errorf("process %d: %q", pid, text)
		}
	}); err != nil {
		t.Error(err)
	}
}
