package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// answers returns a host's answers about every path of the sample archive and
// its neighbors.
func answers(h *Host) map[string]string {
	got := map[string]string{}
	note := func(what string, answer any, err error) {
		if Unknown(err) {
			return
		}
		got[what] = fmt.Sprint(answer, err)
	}
	for _, p := range []string{"/proc/uptime", "/sys/block/sda/model", "/sys/block/sdb", "/etc/odd name", "/sys/secret",
		"/etc/shadow", "/sys/hypervisor", "/root/.x", "/sys", "/loop"} {
		b, err := h.Files.ReadFile(p)
		note("read "+p, string(b), err)
		list, err := h.Files.ReadDir(p)
		note("list "+p, list, err)
		to, err := h.Files.Readlink(p)
		note("link "+p, to, err)
	}
	list, err := h.Files.ReadDir("/sys/block")
	note("list", list, err)
	r, err := h.Exec.Run(context.Background(), Command{Argv: []string{"lscpu", "-J"}})
	note("run", r, err)
	for _, name := range []string{"numad", "tuned"} {
		at, err := h.Exec.LookPath(name)
		note("look up "+name, at, err)
	}
	links, err := h.Net.Links()
	note("links", links, err)
	for _, g := range NetGroups {
		params, err := h.Net.Params("eth0", g)
		note("params "+string(g), params, err)
	}
	return got
}

// An archive truncated at any byte says so, and its remaining answers are those
// of the whole one.
func TestArchiveCutAnywhere(t *testing.T) {
	whole, err := ParseArchive("x", []byte(sampleArchive))
	if err != nil || whole.Incomplete != "" {
		t.Fatalf("%v, %q", err, whole.Incomplete)
	}
	want, most := answers(whole), 0
	for i := range len(sampleArchive) - 1 {
		h, err := ParseArchive("x", []byte(sampleArchive[:i]))
		if err != nil {
			if strings.Contains(sampleArchive[:i], "\n-- ") {
				t.Errorf("cut at byte %d: %v", i, err)
			}
			continue
		}
		if !strings.Contains(h.Incomplete, "x is truncated") {
			t.Errorf("cut at byte %d: %q", i, h.Incomplete)
		}
		got := answers(h)
		most = max(most, len(got))
		for what, answer := range got {
			if answer != want[what] {
				t.Errorf("cut at byte %d: %s: %s; the whole archive says %s", i, what, answer, want[what])
			}
		}
	}
	if most < len(want)-4 {
		t.Errorf("at most %d of %d answers are left", most, len(want))
	}
	for _, end := range []string{strings.TrimSuffix(sampleArchive, "\n"), sampleArchive + "\n"} {
		if h, err := ParseArchive("x", []byte(end)); err != nil || h.Incomplete != "" {
			t.Errorf("another end of the last line: %v, %q", err, h.Incomplete)
		}
	}
}

// A truncated value is unknown, not a smaller number.
func TestArchiveCutInAValue(t *testing.T) {
	text, err := os.ReadFile("../../testdata/hosts/kvm-guest.txt")
	if err != nil {
		t.Fatal(err)
	}
	const place = "/proc/sys/vm/swappiness"
	at := strings.Index(string(text), place+" --\n60\n")
	if at < 0 {
		t.Fatal("no swappiness of 60")
	}
	h, err := ParseArchive("guest", text[:at+len(place+" --\n6")])
	if err != nil {
		t.Fatal(err)
	}
	if b, err := h.Files.ReadFile(place); !Unknown(err) {
		t.Errorf("%q, %v", b, err)
	}
	line := 1 + strings.Count(string(text[:at]), "\n")
	if want := fmt.Sprintf("the entry of line %d,", line); !strings.Contains(h.Incomplete, want) {
		t.Errorf("%q; want %q", h.Incomplete, want)
	}
}
