package satellite

import "testing"

// What custom-hiera.yaml says is not known where it leads out of the copy, and where
// Hiera would not take it.
func TestCustomHiera(t *testing.T) {
	const file = "etc/foreman-installer/custom-hiera.yaml"
	none := answers{"hiera_keys": unknown, "checkpoint_segments": unknown, "overridden": unknown, "unsuited": unknown}
	for name, c := range map[string]struct {
		text string
		want answers
	}{
		"none":                   {"", answers{"hiera_keys": absent, "checkpoint_segments": absent, "overridden": []string{}}},
		"nothing but comments":   {"# a: 1\n", answers{"hiera_keys": []string{}, "checkpoint_segments": ""}},
		"an empty document":      {"---\n", answers{"hiera_keys": []string{}, "checkpoint_segments": "", "overridden": []string{}}},
		"a map":                  {"---\npostgresql::server::config_entries:\n  checkpoint_segments: 32\n", answers{"checkpoint_segments": "32", "hiera_keys": []string{"postgresql::server::config_entries/checkpoint_segments"}}},
		"a link out of the copy": {"-> /root/hiera/custom.yaml", none},
		"a link to itself":       {"-> custom-hiera.yaml", none},
		"a list":                 {"---\n- a\n", none},
		"a word":                 {"a\n", none},
	} {
		t.Run(name, func(t *testing.T) {
			files := satelliteFiles(map[string]string{file: c.text})
			if c.text == "" {
				delete(files, file)
			}
			s := sosreport(t, files)
			check(t, s, c.want)
			if a := s.Answer("satellite.checkpoint_segments"); a.Value == "32" && a.At != "/"+file+":3" {
				t.Errorf("%+v", a)
			}
			if _, why := s.Items("satellite.override"); (why != "") != (c.want["overridden"] == unknown) {
				t.Errorf("its overriding keys: %q", why)
			}
		})
	}
}
