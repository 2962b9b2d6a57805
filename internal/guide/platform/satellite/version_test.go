package satellite

import "testing"

func TestVersion(t *testing.T) {
	const scenarios = "etc/foreman-installer/scenarios.d/"
	for _, c := range []struct {
		name  string
		files map[string]string
		live  bool
		want  answers
	}{
		{"a sosreport of a Satellite", map[string]string{"installed-rpms": rpms("satellite-6.12.5-1.el8sat.noarch", "foreman-3.3.0.23-1.el8sat.noarch")}, false,
			answers{"version": "6.12.5", "foreman_version": "3.3.0.23", "role": "server"}},
		{"a sosreport of a Capsule", map[string]string{"installed-rpms": rpms("satellite-capsule-6.16.1-1.el9sat.noarch", "foreman-proxy-3.12.0-1.el9sat.noarch")}, false,
			answers{"version": "6.16.1", "foreman_version": "3.12.0", "role": "capsule", "puma_workers": absent, "tuning": absent}},
		{"an upstream Foreman with Katello", map[string]string{"installed-rpms": rpms("katello-4.13.1-1.el9.noarch", "foreman-3.11.2-1.el9.noarch")}, false,
			answers{"version": "6.15", "foreman_version": "3.11.2", "role": "server"}},
		{"Foreman alone", map[string]string{"installed-rpms": rpms("foreman-3.11.2-1.el9.noarch")}, false, answers{"version": absent, "role": absent}},
		{"another machine's sosreport", map[string]string{"installed-rpms": rpms()}, false, answers{"version": absent}},
		{"a list that was cut off", map[string]string{"installed-rpms": "a-1-1.noarch\n"}, false, answers{"version": unknown}},
		{"a copy of nothing", map[string]string{"etc/os-release": "ID=rhel\n"}, false, answers{"version": unknown, "puma_workers": unknown}},
		{"a live Satellite", map[string]string{"usr/share/foreman/VERSION": "3.12.0.4\n", scenarios + "satellite.yaml": "---\n", scenarios + "last_scenario.yaml": "-> /" + scenarios + "satellite.yaml"}, true,
			answers{"version": "6.16", "foreman_version": "3.12.0.4", "role": "server"}},
		{"a live Foreman without Katello", map[string]string{"usr/share/foreman/VERSION": "3.12.0\n", scenarios + "foreman.yaml": "---\n", scenarios + "last_scenario.yaml": "-> foreman.yaml"}, true, answers{"version": absent}},
		{"a live Capsule", map[string]string{"usr/share/foreman-proxy/VERSION": "3.5.1\n", scenarios + "capsule.yaml": "---\n", scenarios + "last_scenario.yaml": "-> capsule.yaml"}, true,
			answers{"version": "6.13", "role": "capsule"}},
		{"a live machine of somebody else", map[string]string{"etc/os-release": "ID=debian\n"}, true, answers{"version": absent, "hosts": absent, "httpd_open_files": absent, "log.oom_kills": absent}},
		{"a version that nobody knows", map[string]string{"usr/share/foreman/VERSION": "develop\n"}, true, answers{"version": unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.live {
				check(t, mounted(t, c.files), c.want)
			} else {
				check(t, sosreport(t, c.files), c.want)
			}
		})
	}
}

// A release that fettle does not know is judged by the tables of one that it does, and
// that is said.
func TestUnknownRelease(t *testing.T) {
	for _, c := range []struct {
		packages        []string
		release, judged string
		known           bool
	}{
		{[]string{"satellite-6.12.5", "foreman-3.3.0"}, "Satellite 6.12.5", "Satellite 6.12", true},
		{[]string{"satellite-6.18.0", "foreman-3.16.0"}, "Satellite 6.18.0", "Satellite 6.18", true},
		{[]string{"satellite-capsule-6.7.1", "foreman-proxy-1.24.0"}, "Satellite 6.7.1", "Satellite 6.7", true},
		{[]string{"satellite-7.16.0", "foreman-3.12.0"}, "Satellite 7.16.0", "Satellite 6.18", false},
		{[]string{"satellite-6.19.1", "foreman-3.18.0"}, "Satellite 6.19.1", "Satellite 6.18", false},
		{[]string{"satellite-6.5.3", "foreman-1.20.1"}, "Satellite 6.5.3", "Satellite 6.7", false},
		{[]string{"satellite-capsule-8.0"}, "Satellite 8.0", "Satellite 6.18", false},
		{[]string{"katello-4.13.1", "foreman-3.11.2"}, "Foreman 3.11.2", "Satellite 6.15", true},
		{[]string{"katello-4.13.1", "foreman-3.16.9"}, "Foreman 3.16.9", "Satellite 6.18", true},
		{[]string{"katello-4.19.0", "foreman-3.17.0"}, "Foreman 3.17.0", "Satellite 6.18", false},
	} {
		var list []string
		for _, p := range c.packages {
			list = append(list, p+"-1.el9.noarch")
		}
		check(t, sosreport(t, map[string]string{"installed-rpms": rpms(list...)}), answers{"release": c.release, "judged_as": c.judged, "release_known": c.known})
	}
	check(t, sosreport(t, map[string]string{"installed-rpms": rpms()}), answers{"release": absent, "judged_as": absent, "release_known": absent})
}

func TestReleases(t *testing.T) {
	for foreman, want := range map[string]string{"3.3": "6.12", "3.4.1": "6.12", "3.16.0-rc1": "6.18", "4.1": "6.18", "1.24": "6.7", "1.2": "", "x": ""} {
		if got := satelliteOf(foreman); got != want {
			t.Errorf("Foreman %s is Satellite %q, want %q", foreman, got, want)
		}
	}
	for i := 1; i < len(releases); i++ {
		a, _ := minor(releases[i-1].foreman)
		b, _ := minor(releases[i].foreman)
		if a <= b || foremanOf(releases[i].satellite) != releases[i].foreman {
			t.Errorf("%v comes after %v", releases[i], releases[i-1])
		}
	}
}
