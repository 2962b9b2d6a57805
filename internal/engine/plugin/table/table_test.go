package table

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/testkit/machine"
)

var name = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// TestDocumented tests the texts from which the manual's tables are generated.
func TestDocumented(t *testing.T) {
	var names []string
	for _, p := range All {
		names = append(names, p.Name)
		if !name.MatchString(p.Name) {
			t.Errorf("plug-in name %q: want lower-case letters", p.Name)
		}
		oneSentence(t, p.Name, p.Doc)
		seen := map[string]bool{}
		options := p.Options
		if p.Free != nil {
			for _, free := range []string{"/sys/x", "net.core.somaxconn", "cmdline_x", "group.x", "service.x", "nvme"} {
				if o, ok := p.Free(free); ok {
					options = append(slices.Clip(options), o)
				}
			}
		}
		if len(options) == 0 && p.Name != "rtentsk" {
			t.Errorf("[%s] has no option", p.Name)
		}
		for _, o := range options {
			at := "[" + p.Name + "] " + o.Name
			oneSentence(t, at, o.Doc)
			if seen[o.Name] {
				t.Errorf("%s is listed twice", at)
			}
			seen[o.Name] = true
			if o.Control != (o.Plan == nil) {
				t.Errorf("%s: want a Plan, or Control", at)
			}
			if o.PerDevice && p.Devices == nil {
				t.Errorf("%s is per device, and the plug-in has no devices", at)
			}
		}
	}
	if !sort.StringsAreSorted(names) {
		t.Errorf("not sorted: %s", strings.Join(names, " "))
	}
}

func oneSentence(t *testing.T, at, doc string) {
	t.Helper()
	if doc == "" || strings.HasSuffix(doc, ".") || strings.Contains(doc, "\n") {
		t.Errorf("%s: Doc %q: want one sentence without a full stop", at, doc)
	}
}

func TestUnknownType(t *testing.T) {
	if p := plugin.UnknownType(All, &profile.Unit{Type: "sysctls"}); p.Text != `unknown plug-in "sysctls" (did you mean "sysctl"?)` {
		t.Error(p.Text)
	}
}

func TestKinds(t *testing.T) {
	k := Kinds(machine.Mounted(t, nil))
	for _, want := range []string{"sysctl", "sysfs", "file", "pmqos", "hdparm"} {
		if k[want] == nil {
			t.Errorf("no kind %q", want)
		}
	}
	if _, ok := plugin.Find(All, "nothing"); ok {
		t.Error("found a plug-in that is not there")
	}
}
