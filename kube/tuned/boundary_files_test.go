package tuned

import (
	"strings"
	"testing"
)

// TestFilesOfVariables: a text of the cluster reads what is meant for profiles, and
// nothing that is allowed makes it read more.
func TestFilesOfVariables(t *testing.T) {
	all := Allow{}
	for _, k := range Kinds {
		all[k.Kind] = true
	}
	for _, c := range []struct {
		text    string
		refused bool
	}{
		{"[variables]\ninclude=/etc/tuned/cpu-partitioning-variables.conf\n", false},
		{"[variables]\ninclude=/usr/lib/tuned/profiles/x/v\n", false},
		{"[variables]\ninclude=etc/tuned/x.conf\n", false}, // from the root
		{"[variables]\ninclude=/etc/shadow\n", true},
		{"[variables]\ninclude=/etc/tuned/../shadow\n", true},
		{"[variables]\ninclude=/etc/tuned\n", true},
		{"[variables]\ninclude=/etc/tunedx/v\n", true},
		{"[variables]\ninclude=${i:PROFILE_DIR}/../../shadow\n", true},
		{"[more]\ntype=variables\ninclude=/etc/shadow\n", true},
		{"[DEFAULT]\ninclude=/etc/shadow\n[variables]\na=1\n", true},
		{"[main]\ninclude=openshift\n", false},  // names of profiles
		{"[net]\ninclude=/etc/shadow\n", false}, // an option that there is not
	} {
		got := check(t, c.text, all)
		if (len(got) > 0) != c.refused {
			t.Errorf("%q: %v", c.text, got)
		}
	}
	got := check(t, "[main]\n[variables]\ninclude=/etc/shadow\n", nil)
	want := "profile p, line 3: include=/etc/shadow in [variables]: a cluster profile may read only files below the node's profile directories (/usr/lib/tuned, /usr/lib/tuned/profiles, /etc/tuned, /etc/tuned/profiles)"
	if len(got) != 1 || got[0].Reason("operator") != want || got[0].Reason("agent") != want || strings.Contains(want, "allow") {
		t.Errorf("%v", got)
	}
}
