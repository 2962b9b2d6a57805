package daemon

import (
	"slices"
	"strings"
	"testing"

	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// A bare program brings all that a package would: units, the bus's policy,
// polkit's actions. What is there already, or what nothing would read, is not
// written.
func TestPersistWritesWhatAPackageWouldBring(t *testing.T) {
	testkitroot.Rights(t)
	const actions = "com.redhat.tuned.policy"
	for name, c := range map[string]struct {
		dirs, files []string
		want        []string
	}{
		"nothing installed": {
			[]string{"etc/dbus-1/system.d", "usr/share/polkit-1/actions"}, nil,
			[]string{"/etc/dbus-1/system.d/com.redhat.tuned.conf", "/etc/systemd/system/fettle-recover.service", "/etc/systemd/system/fettle.service", "/usr/share/polkit-1/actions/" + actions},
		},
		"a polkit that reads /etc": {
			[]string{"etc/polkit-1/actions", "usr/share/polkit-1/actions"}, nil,
			[]string{"/etc/polkit-1/actions/" + actions, "/etc/systemd/system/fettle-recover.service", "/etc/systemd/system/fettle.service"},
		},
		"by a package": {
			[]string{"etc/dbus-1/system.d", "etc/polkit-1/actions"},
			[]string{"usr/share/dbus-1/system.d/com.redhat.tuned.conf", "usr/share/polkit-1/actions/" + actions, "usr/lib/systemd/system/fettle.service", "usr/lib/systemd/system/fettle-recover.service"},
			nil,
		},
		"by our package, next to none of TuneD's": {
			[]string{"etc/dbus-1/system.d", "etc/polkit-1/actions"},
			[]string{"usr/share/dbus-1/system.d/dev.fettle.tuned.conf", "usr/share/polkit-1/actions/dev.fettle.tuned.policy", "usr/lib/systemd/system/fettle.service", "usr/lib/systemd/system/fettle-recover.service"},
			nil,
		},
		"no bus": {nil, nil, []string{"/etc/systemd/system/fettle-recover.service", "/etc/systemd/system/fettle.service"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for _, dir := range append(c.dirs, "run/systemd/system") {
				files[dir+"/"] = ""
			}
			for _, file := range c.files {
				files[file] = "packaged\n"
			}
			changes, err := PersistChanges(testkitmachine.Mounted(t, files))
			if err != nil {
				t.Fatal(err)
			}
			var wrote, units []string
			for _, ch := range changes {
				if ch.Setting.Kind != "file" {
					units = append(units, ch.Setting.Name)
					continue
				}
				wrote = append(wrote, ch.Setting.Name)
				if strings.HasSuffix(ch.Setting.Name, ".policy") && !strings.Contains(ch.Want.Text, `action id="com.redhat.tuned.switch_profile"`) {
					t.Errorf("%s says\n%s", ch.Setting.Name, ch.Want.Text)
				}
			}
			slices.Sort(wrote)
			if !slices.Equal(wrote, c.want) {
				t.Errorf("writes\n%q, want\n%q", wrote, c.want)
			}
			if want := []string{"fettle-recover.service/enabled", "fettle.service/enabled", "fettle.service/active"}; !slices.Equal(units, want) {
				t.Errorf("units %q, want %q", units, want)
			}
		})
	}
}

// TestUnguarded checks the warning before a trial.
func TestUnguarded(t *testing.T) {
	const unit = "fettle-recover.service"
	for _, c := range []struct {
		name  string
		files []string
		want  string
	}{
		{"no systemd", nil, ""},
		{"not installed", []string{"run/systemd/system/x"}, "to install and enable it, run: fettle tune PROFILE --persist"},
		{"not enabled", []string{"run/systemd/system/x", "usr/lib/systemd/system/" + unit}, "to enable it, run: systemctl enable " + unit},
		{"enabled", []string{"run/systemd/system/x", "usr/lib/systemd/system/" + unit, "etc/systemd/system/sysinit.target.wants/" + unit}, ""},
	} {
		files := map[string]string{}
		for _, f := range c.files {
			files[f] = ""
		}
		if got := TrialUnguarded(testkitmachine.Mounted(t, files)); (got == "") != (c.want == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q; want an end of %q", c.name, got, c.want)
		}
	}
}
