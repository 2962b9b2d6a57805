package satellite

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/component/dynflow"
	"fettle.dev/fettle/internal/component/httpd"
	"fettle.dev/fettle/internal/component/postgresql"
	"fettle.dev/fettle/internal/component/puma"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/setting"
)

func subject(t *testing.T, h *host.Host) *platform.Subject {
	t.Helper()
	return platform.NewSubject(t.Context(), h, setting.Kernel(h), append(platform.Facts(), Source(), platform.Product(puma.Product), platform.Product(dynflow.Product),
		platform.Product(postgresql.Product), platform.Product(httpd.Product)))
}

// rpms is a sosreport's list of packages.
func rpms(more ...string) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "lib%d-1.0-1.el8.x86_64      Tue 02 Apr 2024\n", i)
	}
	for _, m := range more {
		fmt.Fprintf(&b, "%-59s Tue 02 Apr 2024 10:00:00 AM UTC\n", m)
	}
	return b.String()
}

func sosreport(t *testing.T, files map[string]string) *platform.Subject {
	t.Helper()
	return subject(t, hosttest.Copy(t, files))
}

func mounted(t *testing.T, files map[string]string) *platform.Subject {
	t.Helper()
	return subject(t, hosttest.Mounted(t, files))
}

type answers map[string]any

// absent and unknown stand for answers without a value.
const absent, unknown = "(absent)", "(unknown)"

func check(t *testing.T, s *platform.Subject, want answers) {
	t.Helper()
	for name, w := range want {
		a := s.Answer("satellite." + name)
		got := a.Value
		switch {
		case a.Unknown != "":
			got = unknown
			if len(a.Unknown) < 10 || a.Value != nil {
				t.Errorf("%s: %+v says not why", name, a)
			}
		case a.Value == nil:
			got = absent
		}
		if i, ok := w.(int); ok {
			w = float64(i)
		}
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s is %v, want %v (%+v)", name, got, w, a)
		}
	}
}

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

// satelliteFiles are a server's.
func satelliteFiles(more map[string]string) map[string]string {
	files := map[string]string{
		"installed-rpms": rpms("satellite-6.12.5-1.el8sat.noarch", "foreman-3.3.0.23-1.el8sat.noarch"),
		"etc/foreman-installer/scenarios.d/satellite.yaml":         ":answer_file: \"/etc/foreman-installer/scenarios.d/satellite-answers.yaml\"\n:facts:\n  tuning: large\n",
		"etc/foreman-installer/scenarios.d/last_scenario.yaml":     "-> satellite.yaml",
		"etc/foreman-installer/scenarios.d/satellite-answers.yaml": "foreman:\n  foreman_service_puma_workers: 9\n  db_pool:\n",
		"etc/foreman/database.yml":                                 "production:\n  host: satellite.example.com\n  pool: 7\n",
		"proc/sys/kernel/hostname":                                 "satellite.example.com\n",
		"etc/systemd/system/placeholder.service":                   "[Service]\n",
		"usr/lib/systemd/system/placeholder.service":               "[Service]\n",
	}
	for k, v := range more {
		files[k] = v
	}
	return files
}

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

func TestServices(t *testing.T) {
	const etc = "etc/systemd/system/"
	s := sosreport(t, satelliteFiles(map[string]string{
		etc + "foreman.service":                                                      "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=2 FOREMAN_PUMA_THREADS_MAX=x\n",
		etc + "foreman.service.d/installer.conf":                                     "[Service]\nEnvironment=\"FOREMAN_PUMA_WORKERS=12\"\n",
		etc + "dynflow-sidekiq@.service":                                             "[Service]\nEnvironment=EXECUTOR_MEMORY_LIMIT=2gb\n",
		etc + "multi-user.target.wants/dynflow-sidekiq@orchestrator.service":         "-> /etc/systemd/system/dynflow-sidekiq@.service",
		etc + "multi-user.target.wants/dynflow-sidekiq@worker-1.service":             "-> /etc/systemd/system/dynflow-sidekiq@.service",
		etc + "multi-user.target.wants/dynflow-sidekiq@worker-hosts-queue-1.service": "-> /etc/systemd/system/dynflow-sidekiq@.service",
		etc + "multi-user.target.wants/pulpcore-worker@1.service":                    "-> /etc/systemd/system/pulpcore-worker@.service",
		"etc/foreman/dynflow/orchestrator.yml":                                       ":concurrency: 1\n:queues:\n- dynflow_orchestrator\n",
		"etc/foreman/dynflow/worker-1.yml":                                           "---\n:concurrency: 5\n",
		"etc/foreman/dynflow/worker-hosts-queue-1.yml":                               "---\n:concurrency: 7\n",
		"etc/tomcat/tomcat.conf":                                                     "JAVA_OPTS=\"-Xms1024m -Xmx4096m -Xmx8g\"\n",
		etc + "httpd.service":                                                        "[Service]\n",
		etc + "qpidd.service":                                                        "[Service]\nLimitNOFILE=65536\n",
		etc + "qpidd.service.d/90-limits.conf":                                       "[Service]\nLimitNOFILE=infinity\n",
		"etc/qpid/qpidd.conf":                                                        "# x\nmgmt_pub_interval=5\n",
		"etc/foreman-proxy/settings.d/remote_execution_ssh.yml":                      "---\n:enabled: true\n:mode: pull-mqtt\n:mqtt_ttl: 30\n",
		"var/lib/foreman-maintain/satellite_metrics.yml":                             "{\"foreman.hosts_by_type_count|Managed\": 4100}\n",
	}))
	check(t, s, answers{
		"puma_workers": 12, "puma_threads_max": unknown, "puma_threads_min": unknown,
		"dynflow_workers": 1, "dynflow_units": 3, "dynflow_threads": 13, "dynflow_unit.worker-hosts-queue-1.concurrency": 7, "pulp_workers": 1,
		"executor_memory_limit": 2 << 30, "executor_memory_delay": absent, "candlepin_heap": 8 << 30,
		"httpd_open_files": 1024, "qpidd_open_files": 1 << 30, "qdrouterd_open_files": absent, "qpid_mgmt_pub_interval": 5,
		"rex_mode": "pull-mqtt", "mqtt_ttl": 30, "mqtt_rate_limit": absent, "mqtt_hosts": 4100, "hosts": 4100, "capsule_hosts": absent,
	})
}

// Aliases of aliases do not keep the reader busy.
func TestAliases(t *testing.T) {
	text := "a0: &a0 {}\n"
	for i := 1; i < 19; i++ {
		text += fmt.Sprintf("a%d: &a%d {%s}\n", i, i, strings.Join([]string{"a", "b", "c", "d", "e"}, fmt.Sprintf(": *a%d, ", i-1))+fmt.Sprintf(": *a%d", i-1))
	}
	if _, err := entries(text); err == nil {
		t.Error("read to the end")
	}
}

// What httpd may do is what it reads, from its main file on: a later file counts more
// than the installer's, one that nothing includes does not, and what cannot be read
// leaves it unknown.
func TestApache(t *testing.T) {
	const (
		mods  = "etc/httpd/conf.modules.d/"
		event = "<IfModule mpm_event_module>\n  ServerLimit 64\n  MaxRequestWorkers    \\\n  1024\n  ThreadsPerChild \"16\"\n</IfModule>\n"
		main  = "ServerRoot \"/etc/httpd\"\nInclude conf.modules.d/*.load\nInclude conf.modules.d/*.conf\nIncludeOptional conf.d/*.conf\n"
	)
	tree := func(more map[string]string) map[string]string {
		files := satelliteFiles(map[string]string{
			"etc/httpd/conf/httpd.conf":            main,
			mods + "event.load":                    "LoadModule mpm_event_module modules/mod_mpm_event.so\n",
			mods + "event.conf":                    event,
			mods + "prefork.conf":                  "<IfModule mpm_prefork_module>\n  ServerLimit 582\n  MaxClients 582\n</IfModule>\n",
			mods + "proxy.conf":                    "# ProxyTimeout 5\nProxyTimeout 600\n",
			"etc/httpd/conf.d/05-foreman-ssl.conf": "<VirtualHost *:443>\n  KeepAlive Off\n</VirtualHost>\n",
			"etc/httpd/conf.d/05-foreman.conf":     "KeepAliveTimeout 9\n",
		})
		maps.Copy(files, more)
		return files
	}
	none := answers{"httpd_server_limit": unknown, "httpd_max_request_workers": unknown, "httpd_threads_per_child": unknown, "proxy_timeout": unknown}
	for name, c := range map[string]struct {
		more map[string]string
		want answers
		at   string // of the workers
	}{
		"the installer's": {nil, answers{
			"httpd_mpm": "event", "httpd_server_limit": 64, "httpd_max_request_workers": 1024, "httpd_threads_per_child": 16, "httpd_start_servers": 3, "httpd_requests_per_child": 0,
			"proxy_timeout": 600, "httpd_keepalive": "Off", "httpd_keepalive_timeout": 9, "httpd_keepalive_requests": absent,
		}, "/" + mods + "event.conf:3"},
		"somebody's, which is read later": {map[string]string{"etc/httpd/conf.d/zz.conf": "MaxRequestWorkers 96\nServerLimit 6\n"},
			answers{"httpd_max_request_workers": 96, "httpd_server_limit": 6, "httpd_threads_per_child": 16}, "/etc/httpd/conf.d/zz.conf:1"},
		"the installer's, not included": {map[string]string{"etc/httpd/conf/httpd.conf": strings.Replace(main, "Include conf.modules.d/*.conf\n", "", 1)},
			answers{"httpd_max_request_workers": 400, "httpd_server_limit": 16, "proxy_timeout": 60}, "the default of the event module"},
		"a copy without what it includes": {map[string]string{"etc/httpd/conf/httpd.conf": strings.ReplaceAll(main, "conf.modules.d", "modules.d")}, none, ""},
		"a link out of the copy":          {map[string]string{mods + "event.conf": "-> /srv/event.conf"}, none, ""},
		"the main one a link out of it":   {map[string]string{"etc/httpd/conf/httpd.conf": "-> /srv/httpd.conf"}, none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sosreport(t, tree(c.more))
			check(t, s, c.want)
			if a := s.Answer("satellite.httpd_max_request_workers"); c.at != "" && a.At != c.at {
				t.Errorf("%+v, want at %s", a, c.at)
			}
		})
	}
	check(t, sosreport(t, satelliteFiles(map[string]string{"installed-rpms": rpms("satellite-6.12.5-1.el8sat.noarch", "foreman-3.3.0.23-1.el8sat.noarch", "httpd-2.4.37-1.el8.x86_64")})),
		answers{"httpd_mpm": unknown, "httpd_server_limit": unknown, "httpd_keepalive": unknown, "proxy_timeout": unknown})
	check(t, sosreport(t, satelliteFiles(nil)), answers{"httpd_mpm": absent, "httpd_max_request_workers": absent}) // its list of packages has none
}

func TestLogs(t *testing.T) {
	s := sosreport(t, satelliteFiles(map[string]string{
		"var/log/foreman/production.log":            "-> ../../../sos_strings/foreman/production.log.tailed",
		"sos_strings/foreman/production.log.tailed": "x\nActiveRecord::ConnectionTimeoutError: could not\ny\n" + "ActiveRecord::ConnectionTimeoutError: again\n",
		"var/log/httpd/foreman-ssl_access_ssl.log":  "h - - [d] \"GET / HTTP/1.1\" 503 1 \"-\" \"a\"\nh - - [d] \"GET /503?q=\\\" HTTP/1.1\" 200 503 \"-\" \"503 \"\nbroken\n",
		"var/log/httpd/error_log":                   "AH00484: server reached MaxRequestWorkers setting\n(104)Connection reset by peer: x\n[proxy] The timeout specified has expired\n",
		"sos_commands/logs/journalctl_--no-pager":   "qpidd[1]: [Broker] error Channel exception: not-attached: Channel 2 is not attached\nkernel: Out of memory: Killed process 7 (ruby)\n",
		"var/log/messages":                          "kernel: Out of memory: Killed process 7 (ruby)\n",
	}))
	check(t, s, answers{"log.pool_timeouts": 2, "log.http_503": 1, "log.max_request_workers": 1, "log.connection_resets": 1, "log.proxy_timeouts": 1, "log.qpid_not_attached": 1, "log.oom_kills": 1})
	if a := s.Answer("satellite.log.pool_timeouts"); a.At != "/var/log/foreman/production.log:4" {
		t.Errorf("%+v", a)
	}
	check(t, sosreport(t, satelliteFiles(nil)), answers{"log.pool_timeouts": unknown, "log.http_503": unknown, "log.oom_kills": unknown})
	check(t, mounted(t, map[string]string{"usr/share/foreman/VERSION": "3.3.0\n"}), answers{"log.pool_timeouts": absent})
}

// Of a large log the end is read, and no line is told that nobody counted; none in
// it is not known to be none.
func TestLargeLog(t *testing.T) {
	const (
		log   = "/var/log/foreman/production.log"
		other = "/var/log/httpd/foreman_access.log"
		ssl   = "/var/log/httpd/foreman-ssl_access_ssl.log"
		none  = "none in the last 1 MiB of "
		sign  = "ActiveRecord::ConnectionTimeoutError\n"
		away  = "h - - [d] \"GET / HTTP/1.1\" 503 1\n"
	)
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1<<10)
	for _, c := range []struct {
		name, input string
		files       map[string]string
		all         bool
		want        rule.Answer // AtLeast and Unknown by their beginning
		unread      string
	}{
		{"short", "pool_timeouts", map[string]string{log: sign}, false, rule.Answer{Value: 1.0, At: log + ":1"}, ""},
		{"one at the end", "pool_timeouts", map[string]string{log: sign + long + sign}, false, rule.Answer{Value: 1.0, At: log, AtLeast: "so many are in the last 1 MiB of " + log + "; --logs all"}, log},
		{"all", "pool_timeouts", map[string]string{log: sign + long + sign}, true, rule.Answer{Value: 2.0, At: log + ":1026"}, ""},
		{"at the beginning", "pool_timeouts", map[string]string{log: sign + long}, false, rule.Answer{At: log, Unknown: none + log + "; --logs all"}, log},
		{"at the beginning, all", "pool_timeouts", map[string]string{log: sign + long}, true, rule.Answer{Value: 1.0, At: log + ":1"}, ""},
		{"none at all", "pool_timeouts", map[string]string{log: "x\n" + long}, true, rule.Answer{Value: 0.0, At: log}, ""},
		{"in one of two", "http_503", map[string]string{ssl: away + long, other: away}, false, rule.Answer{Value: 1.0, At: other + ":1", AtLeast: "so many are in the last 1 MiB of " + ssl}, ssl},
		{"in neither", "http_503", map[string]string{ssl: away + long, other: "x\n"}, false, rule.Answer{At: ssl, Unknown: none + ssl}, ssl},
	} {
		tree := map[string]string{"usr/share/foreman/VERSION": "3.3.0\n"}
		for p, text := range c.files {
			tree[p[1:]] = text
		}
		s := mounted(t, tree)
		if s.LogBytes = 1 << 20; c.all {
			s.LogBytes = 0
		}
		a := s.Answer("satellite.log." + c.input)
		if a.Value != c.want.Value || a.At != c.want.At || !begins(a.AtLeast, c.want.AtLeast) || !begins(a.Unknown, c.want.Unknown) {
			t.Errorf("%s: %+v, want %+v", c.name, a, c.want)
		}
		if (c.unread != "") != (len(s.Unread) == 1) || c.unread != "" && s.Unread[c.unread] == 0 {
			t.Errorf("%s: not read %v, want of %q", c.name, s.Unread, c.unread)
		}
	}
}

// begins: text has the beginning, and is empty where that is.
func begins(text, with string) bool {
	return strings.HasPrefix(text, with) && (text == "") == (with == "")
}

func TestPendingTasks(t *testing.T) {
	const head = "id,type,label,started_at,ended_at,state,result\n"
	s := sosreport(t, satelliteFiles(map[string]string{"sos_commands/foreman/foreman_tasks_tasks": head +
		"1,T,Actions::Katello::Host::Update,a,,running,\n2,T,Actions::Katello::Host::Update,a,b,stopped,success\n3,T,Actions::Katello::ContentView::Publish,a,,paused,\n" +
		"4,T,\"Actions::Katello::Host::UploadPackageProfile\",\"a\nb\",,planned,\n5,T,Actions::Katello::Ho"}))
	check(t, s, answers{"pending_host_tasks": 2})
	if a := s.Answer("satellite.pending_host_tasks"); a.At != "/sos_commands/foreman/foreman_tasks_tasks:5" {
		t.Errorf("%+v", a)
	}
	check(t, sosreport(t, satelliteFiles(map[string]string{"sos_commands/foreman/foreman_tasks_tasks": "psql: error\n"})), answers{"pending_host_tasks": unknown})
	check(t, sosreport(t, satelliteFiles(nil)), answers{"pending_host_tasks": unknown})
}

func TestStorage(t *testing.T) {
	s := sosreport(t, satelliteFiles(map[string]string{
		"proc/1/mountinfo":                 "61 1 8:1 / / rw - xfs /dev/sda1 rw\n62 61 0:45 / /var/lib/pulp rw - nfs4 files:/pulp rw\n63 61 253:3 / /var/lib/pgsql rw - xfs /dev/mapper/vg-pg rw\n",
		"var/lib/pulp/x":                   "",
		"var/lib/pgsql/data/x":             "",
		"etc/systemd/system/qpidd.service": "[Service]\n",
		"df":                               "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 1000 400 600 40% /\nfiles:/pulp 2000 0 500 0% /var/lib/pulp\n",
		"sys/block/dm-3":                   "-> ../devices/virtual/block/dm-3",
		"sys/block/sdb":                    "-> ../devices/pci/block/sdb",
		"sys/devices/pci/block/sdb/queue/rotational":      "1\n",
		"sys/devices/pci/block/sdb/sdb2/partition":        "2\n",
		"sys/devices/virtual/block/dm-3/queue/rotational": "0\n",
		"sys/devices/virtual/block/dm-3/slaves/sdb2":      "-> ../../../../pci/block/sdb/sdb2",
		"sys/dev/block/253:3":                             "-> ../../devices/virtual/block/dm-3",
		"sys/class/block/dm-3":                            "-> ../../devices/virtual/block/dm-3",
	}))
	check(t, s, answers{
		"storage./var/lib/pulp.mount": "/var/lib/pulp", "storage./var/lib/pulp.type": "nfs4", "storage./var/lib/pulp.free_bytes": 500 << 10, "storage./var/lib/pulp.size_bytes": 2000 << 10,
		"storage./var/lib/pgsql.mount": "/var/lib/pgsql", "storage./var/lib/pgsql.rotational": true, "storage./var/lib/pgsql.free_bytes": unknown,
		"storage./.free_bytes": 600 << 10, "pgsql_mount": "/var/lib/pgsql", "pgsql_data_mount": "/var/lib/pgsql", "qpidd_size_bytes": unknown,
	})
	check(t, s, answers{
		"filesystem./var/lib/pulp.size_bytes": 2000 << 10, "filesystem./var/lib/pulp.directories": []string{"/var/lib/pulp"},
		"filesystem./.directories": []string{"/usr"}, "qpidd_beside": unknown,
	})
	if names, why := s.Items("satellite.filesystem"); why != "" || !reflect.DeepEqual(names, []string{"/var/lib/pulp", "/var/lib/pgsql", "/"}) {
		t.Errorf("%v, %s", names, why)
	}
	if names, why := s.Items("satellite.storage"); why != "" || !reflect.DeepEqual(names, []string{"/var/lib/pulp", "/var/lib/pgsql", "/"}) {
		t.Errorf("%v, %s", names, why)
	}
}

// Every input has an answer on every machine: a value of its type, or a reason.
func TestEveryInput(t *testing.T) {
	for name, s := range map[string]*platform.Subject{
		"sosreport": sosreport(t, satelliteFiles(nil)), "empty copy": sosreport(t, map[string]string{"etc/x": ""}), "live": mounted(t, map[string]string{"usr/share/foreman/VERSION": "3.12.0\n"}),
	} {
		for _, in := range Source().Inputs {
			a := s.Answer(strings.Replace(in.Name, "*", "/", 1))
			if a.Unknown != "" && a.Value != nil || strings.HasPrefix(a.Unknown, "a Satellite has no") {
				t.Errorf("%s, %s: %+v", name, in.Name, a)
			}
			if a.Value != nil && reflect.TypeOf(a.Value) != map[rule.Type]reflect.Type{rule.Number: reflect.TypeFor[float64](), rule.Text: reflect.TypeFor[string](), rule.Truth: reflect.TypeFor[bool](), rule.List: reflect.TypeFor[[]string]()}[in.Type] {
				t.Errorf("%s, %s is a %s and answers %T", name, in.Name, in.Type, a.Value)
			}
		}
	}
	if a := sosreport(t, nil).Answer("satellite.nothing"); a.Unknown == "" {
		t.Error("an input that there is none of has an answer")
	}
}

// A copy may have a drop-in, a process or the links of boot without the units.
func TestUnitsInPart(t *testing.T) {
	const etc, limits = "etc/systemd/system/", "Limit Soft Hard Units\nMax open files            1024                 4096                 files\n"
	files := satelliteFiles(map[string]string{
		etc + "foreman.service.d/installer.conf":          "[Service]\nEnvironment=FOREMAN_PUMA_WORKERS=4\n",
		etc + "qdrouterd.service.d/90-limits.conf":        "[Service]\nLimitNOFILE=150100\n",
		etc + "mosquitto.service.d/x.conf":                "[Service]\nNice=1\n",
		etc + "multi-user.target.wants/mosquitto.service": "-> /usr/lib/systemd/system/mosquitto.service",
		"proc/1101/comm":      "httpd\n",
		"proc/1101/limits":    limits,
		"proc/2201/comm":      "httpd\n",
		"var/lib/qpidd/x":     "",
		"etc/qpid/qpidd.conf": "mgmt_pub_interval=5\n",
		"etc/foreman-proxy/settings.d/remote_execution_ssh.yml": ":mode: :'pull-mqtt'\n",
	})
	delete(files, "usr/lib/systemd/system/placeholder.service")
	check(t, sosreport(t, files), answers{
		"puma_workers": 4, "puma_threads_min": unknown, "qdrouterd_open_files": 150100, "mosquitto_open_files": unknown,
		"httpd_open_files": 1024, "rex_mode": "pull-mqtt",
		// Nothing starts a qpidd, and none runs.
		"qpidd_open_files": absent, "qpidd_size_bytes": absent, "qpid_mgmt_pub_interval": absent,
	})
	delete(files, "proc/1101/comm")
	delete(files, "proc/2201/comm")
	check(t, sosreport(t, files), answers{"httpd_open_files": unknown, "qpidd_open_files": unknown, "qpid_mgmt_pub_interval": 5})
}

// A Capsule has Pulp's database, and logs of other names; a list of packages that
// was cut off still says what it names.
func TestCapsule(t *testing.T) {
	settings := "# \"HOST\": \"none\"\nDATABASES = {\"default\": {\"HOST\": \"%s\", \"NAME\": \"pulpcore\"}}\n"
	files := map[string]string{
		"installed-rpms": "satellite-capsule-6.12.2-1.el8sat.noarch Mon\nforeman-proxy-3.3.0-1.el8sat.noarch Mon\n",
		"etc/foreman-installer/custom-hiera.yaml":              "# proxy_timeout: 600\n",
		"etc/pulp/settings.py":                                 fmt.Sprintf(settings, "localhost"),
		"var/log/httpd/rhsm-pulpcore-https-443_access_ssl.log": "h - - [d] \"GET / HTTP/1.1\" 502 1 \"-\" \"a\"\n",
		"var/log/httpd/rhsm-pulpcore-https-443_error_ssl.log":  "(70007)The timeout specified has expired: [client 192.0.2.1] AH01102\n",
		"var/log/messages":                                     "mosquitto[1]: 17: Unable to accept new connection, system socket count has been exceeded.\nhttpd: Unable to accept new connection\n",
	}
	check(t, sosreport(t, files), answers{
		"version": "6.12.2", "foreman_version": "3.3.0", "role": "capsule", "database_local": true, "hiera_keys": []string{},
		"puma_workers": absent, "log.pool_timeouts": absent, "log.http_503": 0, "log.proxy_timeouts": 1, "log.mqtt_refused": 1,
	})
	files["etc/pulp/settings.py"] = fmt.Sprintf(settings, "db.example.com")
	check(t, sosreport(t, files), answers{"database_local": false})
	delete(files, "etc/pulp/settings.py")
	check(t, sosreport(t, files), answers{"database_local": unknown})
}

func TestSymbol(t *testing.T) {
	for text, want := range map[string]string{"ssh": "ssh", ":ssh": "ssh", ":'pull-mqtt'": "pull-mqtt", `:"pull-mqtt"`: "pull-mqtt", ":": "", ":'": "'", "": ""} {
		if got := symbol(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
