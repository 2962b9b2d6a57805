package satellite

import (
	"maps"
	"strings"
	"testing"
)

// What the installer would give PostgreSQL is no value of a server whose files cannot
// be read to the end.
func TestDatabase(t *testing.T) {
	const (
		data     = "var/lib/pgsql/data/"
		good     = "max_connections = 300\nshared_buffers = 3GB\nwork_mem = 4MB\ncheckpoint_completion_target = 0.8\n"
		server13 = "postgresql-server-13.14-1.el8.x86_64"
	)
	server := rpms("satellite-6.12.5-1.el8sat.noarch", "foreman-3.3.0.23-1.el8sat.noarch", server13)
	none := answers{"max_connections": unknown, "shared_buffers": unknown, "work_mem": unknown, "autovacuum_vacuum_cost_limit": unknown, "checkpoint_completion_target": unknown}
	only := func(name string) answers {
		return answers{"max_connections": 300, "work_mem": 4 << 20, name: unknown}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  answers
	}{
		"read":                           {map[string]string{data + "postgresql.conf": good}, answers{"max_connections": 300, "shared_buffers": 3 << 30, "checkpoint_completion_target": 0.8, "autovacuum_vacuum_cost_limit": -1}},
		"an include that is gone":        {map[string]string{data + "postgresql.conf": good + "include '/nonexistent/x.conf'\n"}, none},
		"includes itself":                {map[string]string{data + "postgresql.conf": good + "include 'postgresql.conf'\n"}, none},
		"garbage":                        {map[string]string{data + "postgresql.conf": good + "= \x01 what\n"}, none},
		"a unit that PostgreSQL has not": {map[string]string{data + "postgresql.conf": good + "shared_buffers = 8gb\n"}, only("shared_buffers")},
		"garbage of ALTER SYSTEM":        {map[string]string{data + "postgresql.conf": good, data + "postgresql.auto.conf": "\x00\x01\x02"}, none},
		"a link out of the copy":         {map[string]string{data + "postgresql.conf": "-> /srv/pg/postgresql.conf"}, none},
		"without its file":               {map[string]string{data + "PG_VERSION": "13\n"}, none},
		"only its package":               {map[string]string{}, none},
		"two of them":                    {map[string]string{data + "postgresql.conf": good, "var/lib/pgsql/16/data/postgresql.conf": good}, none},
		"its version's default":          {map[string]string{data + "postgresql.conf": "\n", data + "PG_VERSION": "13\n"}, answers{"checkpoint_completion_target": 0.5, "max_connections": 100}},
		"that of a later one":            {map[string]string{data + "postgresql.conf": "\n", data + "PG_VERSION": "16\n"}, answers{"checkpoint_completion_target": 0.9}},
		"that of nobody knows":           {map[string]string{data + "postgresql.conf": "\n"}, answers{"checkpoint_completion_target": unknown}},
		"not set up yet":                 {map[string]string{"installed-rpms": rpms("satellite-6.12.5-1.el8sat.noarch", "foreman-3.3.0.23-1.el8sat.noarch")}, answers{"max_connections": 1000, "shared_buffers": 8 << 30}},
		"no list of packages":            {map[string]string{"installed-rpms": "", "usr/share/foreman/VERSION": "3.3.0\n"}, none},
	} {
		t.Run(name, func(t *testing.T) {
			files := satelliteFiles(map[string]string{"installed-rpms": server, data + "postgresql.auto.conf": "# by ALTER SYSTEM\n"})
			maps.Copy(files, c.files)
			if files["installed-rpms"] == "" {
				delete(files, "installed-rpms")
			}
			s := sosreport(t, files)
			check(t, s, c.want)
			a := s.Answer("satellite.max_connections")
			if intended := strings.HasPrefix(a.At, "intended value, because PostgreSQL is not set up on this machine: "); intended != (name == "not set up yet") {
				t.Errorf("intended: %v (%+v)", intended, a)
			}
		})
	}
	// On the machine itself too a file that is gone hides the server's values.
	s := mounted(t, map[string]string{
		"usr/share/foreman/VERSION": "3.3.0\n", "etc/foreman/database.yml": "production:\n  host: localhost\n", data + "PG_VERSION": "13\n",
		"etc/foreman-installer/scenarios.d/satellite.yaml": ":facts:\n  tuning: large\n", "etc/foreman-installer/scenarios.d/last_scenario.yaml": "-> satellite.yaml",
	})
	check(t, s, none)
}
