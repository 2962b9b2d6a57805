package satellite

import (
	"fmt"
	"slices"
	"testing"
)

// Each key by which the installer sets a product is compared with what the product
// has, as the product reads it, whoever of the two was changed.
func TestTold(t *testing.T) {
	const (
		pg    = "postgresql::server::config_entries/"
		event = "apache::mod::event::"
		hiera = "/etc/foreman-installer/custom-hiera.yaml"
		conf  = "/var/lib/pgsql/data/postgresql.conf"
		mpm   = "/etc/httpd/conf.modules.d/event.conf"
		size  = "what the installer sets for the size large"
	)
	tree := func(custom, database, processes string) map[string]string {
		return satelliteFiles(map[string]string{
			hiera: "---\n" + custom, conf: database, "var/lib/pgsql/data/postgresql.auto.conf": "", "var/lib/pgsql/data/PG_VERSION": "12\n",
			"etc/httpd/conf/httpd.conf":              "Include conf.modules.d/*.conf\nIncludeOptional conf.d/*.conf\n",
			"etc/httpd/conf.modules.d/00-event.conf": "LoadModule mpm_event_module modules/mod_mpm_event.so\n", mpm: processes, "etc/httpd/conf.d/x.conf": "",
		})
	}
	const (
		asSized   = "ServerLimit 64\nStartServers 2\nMaxRequestWorkers 1024\nThreadsPerChild 16\nMaxRequestsPerChild 4000\n"
		sizeOfOur = "max_connections = 1000\nshared_buffers = 8192MB\nwork_mem = 4MB\neffective_cache_size = 16GB\nautovacuum_vacuum_cost_limit = 2000\nlog_min_duration_statement = 1s\ncheckpoint_completion_target = 0.9\n"
	)
	for name, c := range map[string]struct {
		custom, database, processes string
		differ                      map[string]string // product, told, where the told is
	}{
		"as the size":          {"", sizeOfOur, asSized, nil},
		"as custom-hiera.yaml": {pgMap("work_mem: 16MB", "log_min_duration_statement: 500"), sizeOfOur + "work_mem = 16384kB\nlog_min_duration_statement = 500\n", asSized, nil},
		"the installer is to run": {event + "serverlimit: 60\n" + event + "maxrequestsperchild: 0\n" + pgMap("autovacuum_vacuum_cost_limit: 200"), sizeOfOur, asSized, map[string]string{
			event + "serverlimit": "64, 60, " + hiera + ":2", event + "maxrequestsperchild": "4000, 0, " + hiera + ":3", pg + "autovacuum_vacuum_cost_limit": "2000, 200, " + hiera + ":5"}},
		"changed by hand":  {"", sizeOfOur + "work_mem = 64MB\n", asSized + "ServerLimit 65\n", map[string]string{pg + "work_mem": "64MB, 4MB, " + size, event + "serverlimit": "65, 64, " + size}},
		"another module's": {"apache::mod::prefork::serverlimit: 582\n", sizeOfOur, asSized, nil},
		"no such unit":     {pgMap("work_mem: 8mb"), sizeOfOur, asSized, map[string]string{pg + "work_mem": unknown}},
		"PostgreSQL is not known": {"", "include '/none'\n", asSized, map[string]string{
			pg + "max_connections": unknown, pg + "shared_buffers": unknown, pg + "work_mem": unknown, pg + "effective_cache_size": unknown,
			pg + "autovacuum_vacuum_cost_limit": unknown, pg + "log_min_duration_statement": unknown, pg + "checkpoint_completion_target": unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sosreport(t, tree(c.custom, c.database, c.processes))
			keys, why := s.Items(toldSet)
			if why != "" || !slices.Contains(keys, event+"serverlimit") || !slices.Contains(keys, pg+"shared_buffers") || slices.Contains(keys, "apache::mod::prefork::serverlimit") {
				t.Fatalf("%q: %v", why, keys)
			}
			seen := 0
			for _, key := range keys {
				same, told, product := s.Answer(toldSet+"."+key+".same"), s.Answer(toldSet+"."+key+".value"), s.Answer(toldSet+"."+key+".product")
				want, differs := c.differ[key]
				got := ""
				switch {
				case same.Unknown != "":
					got = unknown
				case same.Value == false:
					got = fmt.Sprintf("%v, %v, %s", product.Value, told.Value, told.At)
				}
				if got != want {
					t.Errorf("%s: %q, want %q (%+v)", key, got, want, same)
				}
				if differs {
					seen++
				}
			}
			if seen != len(c.differ) {
				t.Errorf("%d of %d were asked for: %v", seen, len(c.differ), keys)
			}
		})
	}
}

func pgMap(entries ...string) string {
	out := "postgresql::server::config_entries:\n"
	for _, e := range entries {
		out += "  " + e + "\n"
	}
	return out
}
