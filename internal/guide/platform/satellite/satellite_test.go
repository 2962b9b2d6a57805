package satellite

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/foreman"
	"fettle.dev/fettle/internal/product/httpd"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

func subject(t *testing.T, h *host.Host) *platform.Subject {
	t.Helper()
	return platform.NewSubject(t.Context(), h, setting.Kernel(h), append(platform.Facts(), Source(), platform.Product(foreman.Puma), platform.Product(foreman.Dynflow),
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
	return subject(t, machine.Copy(t, files))
}

func mounted(t *testing.T, files map[string]string) *platform.Subject {
	t.Helper()
	return subject(t, machine.Mounted(t, files))
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
	maps.Copy(files, more)
	return files
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
		"in a condition": {map[string]string{"etc/httpd/conf.d/05-foreman-ssl.conf": "<VirtualHost *:443>\n  <IfVersion < 2.4>\n  KeepAlive Off\n  </IfVersion>\n</VirtualHost>\n"},
			answers{"httpd_keepalive": unknown, "httpd_max_request_workers": 1024}, "/" + mods + "event.conf:3"},
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
			if a.Value != nil && reflect.TypeOf(a.Value) != map[fact.Type]reflect.Type{fact.Number: reflect.TypeFor[float64](), fact.Text: reflect.TypeFor[string](), fact.Truth: reflect.TypeFor[bool](), fact.List: reflect.TypeFor[[]string]()}[in.Type] {
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
