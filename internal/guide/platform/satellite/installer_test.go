package satellite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/platform"
)

func TestInstaller(t *testing.T) {
	s := sosreport(t, satelliteFiles(map[string]string{
		"etc/foreman-installer/custom-hiera.yaml": "---\napache::mod::event::serverlimit: 64\napache::mod::event::maxrequestworkers: 2048\na::b: 1\npostgresql::server::config_entries:\n  max_connections: 600\n  shared_buffers: 4GB\n  shared_buffers: 2GB\n  checkpoint_segments: 32\nlist: [a, b]\n",
	}))
	check(t, s, answers{
		"tuning": "large", "puma_workers_told": 9, "db_pool_told": absent, "db_pool": 7, "database_local": true,
		"max_connections": 600, "shared_buffers": 2 << 30, "work_mem": 4 << 20, "effective_cache_size": 16 << 30, "autovacuum_vacuum_cost_limit": 2000,
		"hiera_keys": []string{"a::b", "apache::mod::event::maxrequestworkers", "apache::mod::event::serverlimit", "list",
			"postgresql::server::config_entries/checkpoint_segments", "postgresql::server::config_entries/max_connections", "postgresql::server::config_entries/shared_buffers"},
	})
	items, why := s.Items("satellite.override")
	want := []string{"apache::mod::event::serverlimit", "apache::mod::event::maxrequestworkers", "postgresql::server::config_entries/max_connections", "postgresql::server::config_entries/shared_buffers"}
	if diff := cmp.Diff(want, items); diff != "" || why != "" {
		t.Errorf("%s\n%s", why, diff)
	}
	check(t, s, answers{
		"override.apache::mod::event::serverlimit.value": "64", "override.apache::mod::event::serverlimit.size_value": "64", "override.apache::mod::event::serverlimit.lower": false,
		"override.apache::mod::event::maxrequestworkers.lower":                   false,
		"override.postgresql::server::config_entries/max_connections.size_value": "1000",
		"override.postgresql::server::config_entries/max_connections.lower":      true,
		"override.postgresql::server::config_entries/shared_buffers.value":       "2GB",
		"override.postgresql::server::config_entries/shared_buffers.size_value":  "8GB",
		"override.postgresql::server::config_entries/shared_buffers.lower":       true,
	})
	if a := s.Answer("satellite.override.postgresql::server::config_entries/shared_buffers.value"); a.At != "/etc/foreman-installer/custom-hiera.yaml:8" {
		t.Errorf("the later of two keys counts: %+v", a)
	}
}

// A key that the size has too is excused where the size's value does not suit the
// memory and its own does; a value that suits it even less is not.
func TestNeeded(t *testing.T) {
	const key = "override.postgresql::server::config_entries/shared_buffers."
	for value, c := range map[string]struct{ size, own, needed bool }{
		"4GB": {false, true, true}, "5GB": {false, true, true}, "6GB": {false, false, false}, "64GB": {false, false, false}, "8gb": {false, false, false}, "655360": {false, true, true}, "1048576": {false, false, false},
	} {
		s := sosreport(t, satelliteFiles(map[string]string{ // of the size large, whose buffers are 8 GB
			"proc/meminfo": "MemTotal:       20971520 kB\n",
			"etc/foreman-installer/custom-hiera.yaml": "---\nqpid::open_file_limit: 1\npostgresql::server::config_entries:\n  shared_buffers: " + value + "\n  max_connections: 999\n",
		}))
		needed := []string{}
		at := "/etc/foreman-installer/custom-hiera.yaml:4"
		if c.needed {
			needed, at = append(needed, "postgresql::server::config_entries/shared_buffers"), "/etc/foreman-installer/custom-hiera.yaml:5"
		}
		check(t, s, answers{key + "suits": c.size, key + "value_suits": c.own, "unsuited": needed})
		if a := s.Answer("satellite.overridden"); a.At != at {
			t.Errorf("%s: %+v, want at %s", value, a, at)
		}
	}
}

// The guide's example for PostgreSQL (5.7) is right on every size, in its bounds.
func TestGuidesPostgreSQL(t *testing.T) {
	const prefix = "override.postgresql::server::config_entries/"
	hiera := func(tuning, kib string, entries ...string) *platform.Subject {
		return sosreport(t, satelliteFiles(map[string]string{
			"proc/meminfo": "MemTotal:       " + kib + " kB\n",
			"etc/foreman-installer/scenarios.d/satellite.yaml": ":answer_file: \"/etc/foreman-installer/scenarios.d/satellite-answers.yaml\"\n:facts:\n  tuning: " + tuning + "\n",
			"etc/foreman-installer/custom-hiera.yaml":          "---\npostgresql::server::config_entries:\n  " + strings.Join(entries, "\n  ") + "\n",
		}))
	}
	example := []string{"max_connections: 1000", "shared_buffers: 2GB", "work_mem: 8MB", "autovacuum_vacuum_cost_limit: 2000"}
	for _, tuning := range []string{"default", "large"} {
		s := hiera(tuning, "20971520", example...)
		names, _ := s.Items("satellite.override")
		if len(names) < 3 {
			t.Errorf("%s: %v", tuning, names)
		}
		check(t, s, answers{"unsuited": names})
	}
	for value, within := range map[string]bool{"shared_buffers: 5GB": true, "shared_buffers: 6GB": false, "shared_buffers: 1GB": false, "work_mem: 64MB": false, "max_connections: 1500": false, "max_connections: 400": false, "max_connections: 700": true} {
		key, _, _ := strings.Cut(value, ":")
		check(t, hiera("default", "20971520", value), answers{prefix + key + ".in_guide": within})
	}
}

// The installer's own files go before what was published.
func TestInstallersOwnSizes(t *testing.T) {
	const dir = "usr/share/foreman-installer/config/foreman.hiera/tuning/"
	s := sosreport(t, satelliteFiles(map[string]string{
		dir + "common.yaml":                       "postgresql::server::config_entries:\n  max_connections: 501\n  work_mem: 5MB\n",
		dir + "sizes/large.yaml":                  "postgresql::server::config_entries:\n  max_connections: 1001\n",
		"etc/foreman-installer/custom-hiera.yaml": "# nothing\n",
	}))
	check(t, s, answers{"max_connections": 1001, "work_mem": 5 << 20, "shared_buffers": absent, "overridden": []string{}})
}

func TestInstallerUnknown(t *testing.T) {
	files := satelliteFiles(nil)
	delete(files, "etc/foreman-installer/scenarios.d/satellite-answers.yaml")
	files["etc/foreman-installer/custom-hiera.yaml"] = "a: [\n"
	check(t, sosreport(t, files), answers{"puma_workers_told": unknown, "hiera_keys": unknown, "overridden": unknown, "max_connections": unknown, "tuning": "large"})
	check(t, sosreport(t, satelliteFiles(map[string]string{"etc/foreman/database.yml": "production:\n  host: db.example.com\n"})),
		answers{"database_local": false, "max_connections": unknown, "db_pool": 5})
}
