package tune

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

func TestFrom(t *testing.T) {
	for _, tt := range []struct {
		reason setting.Reason
		want   string
	}{
		{setting.Reason{File: "/usr/lib/tuned/mine/tuned.conf", Line: 4, Text: "a=/sys/b/c/d"}, "mine/tuned.conf:4"},
		{setting.Reason{Text: "/sys/kernel/mm/ksm/run=1"}, "/sys/kernel/mm/ksm/run=1"},
		{setting.Reason{Text: "--persist"}, "--persist"},
	} {
		if got := from(&ui.Screen{}, tt.reason); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.reason, got, tt.want)
		}
	}
}

// TestUndoneKept tests that a kept value equal to the former one is not reported, and that
// different values never look equal.
func TestUndoneKept(t *testing.T) {
	sysctl := func(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }
	var out strings.Builder
	u := &Undone{Undoes: []int{1}, Result: journal.ResultDone, Values: []UndoneValue{
		{Setting: sysctl("vm.dirty_ratio"), Found: setting.Text("30"), To: setting.Text("20"), State: journal.KeptNow, Why: "somebody has changed it since"},
		{Setting: sysctl("vm.dirty_bytes"), Found: setting.Text("0"), To: setting.Text("0"), State: journal.KeptNow, Why: "belongs to sysctl:vm.dirty_ratio"},
		{Setting: setting.Setting{Kind: "file", Name: "/etc/x"}, Found: setting.Text("# a\none\n"), To: setting.Text("# a\ntwo\n"), State: journal.KeptNow, Why: "somebody has changed it since"},
	}}
	u.Values = append(u.Values, UndoneValue{Setting: sysctl("vm.swappiness"), Found: setting.Text("10"), To: setting.Text("60"), State: journal.Restored})
	h := u.Summarize()
	PrintUndone(&ui.Screen{Out: &out, Format: ui.Table}, u, &h, false)
	got := out.String()
	if strings.Contains(got, "swappiness") {
		t.Errorf("a restored value is listed without --details:\n%s", got)
	}
	out.Reset()
	u.Remains = []Remaining{{sysctl("vm.nr_hugepages"), "3 huge pages are in use"}}
	PrintUndone(&ui.Screen{Out: &out, Format: ui.Table}, u, &h, true)
	if details := out.String(); !strings.Contains(details, "vm.swappiness  10   60\n") || !strings.Contains(details, "3 huge pages are in use") {
		t.Errorf("--details:\n%s", details)
	}
	for _, want := range []string{"vm.dirty_ratio  30 ", "# a … (2 lines), not the same  # a … (2 lines)", "2 kept (changed by another program)"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "dirty_bytes") {
		t.Errorf("a value that is as it was is a row:\n%s", got)
	}
}
