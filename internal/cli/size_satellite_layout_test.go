package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	sized "fettle.dev/fettle/internal/guide/sizing/satellite"
	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// written is what size has written, taken from its files and its command line: a
// name for each value, as the values of the answer are called.
func written(t *testing.T, r *sizing.Result) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, a := range r.Files {
		switch a.Name {
		case sized.HieraFile:
			var keys map[string]any
			if err := yaml.Unmarshal([]byte(a.Content), &keys); err != nil {
				t.Fatal(err)
			}
			for k, v := range keys {
				if sub, ok := v.(map[string]any); ok {
					for name, v := range sub {
						all["hiera/"+k+"/"+name] = fmt.Sprint(v)
					}
					continue
				}
				all["hiera/"+k] = fmt.Sprint(v)
			}
		default:
			group := map[string]string{sized.SysctlFile: "sysctl", sized.HTTPDFile: "httpd", sized.MosquittoFile: "mosquitto"}[a.Name]
			if group == "" {
				t.Fatalf("the test does not know where %s goes", a.Name)
			}
			for line := range strings.Lines(a.Content) {
				if k, v, ok := strings.Cut(line, "="); ok && line[0] != '#' {
					all[group+"/"+strings.TrimSpace(k)] = strings.TrimSpace(v)
				}
			}
		}
	}
	for _, s := range r.Steps {
		words := strings.Fields(s.Command)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "satellite-installer":
			for i := 1; i+1 < len(words); i += 2 {
				all["installer/"+words[i]] = words[i+1]
			}
		case "fettle":
			if words[1] == "tune" {
				all["system/tuned_profile"] = words[2]
			}
		case "grubby":
			_, all["system/transparent_hugepage"], _ = strings.Cut(words[2], "transparent_hugepage=")
		}
	}
	// They are the values that the answer gives.
	for key, v := range all {
		group, name, _ := strings.Cut(key, "/")
		if said := r.Value(group, name); said == nil || fmt.Sprint(said.Value) != v {
			t.Errorf("%s is written as %q, and the answer has %+v", key, v, said)
		}
	}
	for _, v := range r.Values {
		if _, ok := all[v.Group+"/"+v.Name]; !ok && slices.Contains([]string{"installer", "hiera", "sysctl", "system", "mosquitto"}, v.Group) {
			t.Errorf("%s/%s is said and not written", v.Group, v.Name)
		}
	}
	return all
}

// layOut makes the machine that comes of it: a sosreport's directory, with the
// files that foreman-installer and its modules write for these options and keys,
// systemd, httpd and the kernel.
func layOut(t *testing.T, w satelliteWish, v map[string]string) string {
	t.Helper()
	files := map[string]string{}
	number := func(key string, otherwise int) int {
		if n, err := strconv.Atoi(v[key]); err == nil {
			return n
		}
		return otherwise
	}
	foreman := map[string]string{"6.9": "2.3", "6.10": "2.5", "6.11": "3.1", "6.12": "3.3", "6.13": "3.5", "6.14": "3.7", "6.15": "3.9", "6.16": "3.12", "6.17": "3.14", "6.18": "3.16"}[w.version]
	var rpm strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rpm, "lib%d-1.0-1.el8.x86_64      Tue 02 Apr 2024\n", i)
	}
	fmt.Fprintf(&rpm, "satellite-%s.1-1.el8sat.noarch      Tue 02 Apr 2024\nforeman-%s.0.4-1.el8sat.noarch      Tue 02 Apr 2024\n", w.version, foreman)
	files["installed-rpms"] = rpm.String()

	// The installer's memory of what it was told.
	size := v["installer/--tuning"]
	files["etc/foreman-installer/scenarios.d/satellite.yaml"] = "---\n:answer_file: \"/etc/foreman-installer/scenarios.d/satellite-answers.yaml\"\n:facts:\n  tuning: " + size + "\n"
	files["etc/foreman-installer/scenarios.d/last_scenario.yaml"] = "-> /etc/foreman-installer/scenarios.d/satellite.yaml"
	workers, least, most := v["installer/--foreman-foreman-service-puma-workers"], v["installer/--foreman-foreman-service-puma-threads-min"], v["installer/--foreman-foreman-service-puma-threads-max"]
	files["etc/foreman-installer/scenarios.d/satellite-answers.yaml"] = "foreman:\n  foreman_service_puma_workers: " + workers + "\n  foreman_service_puma_threads_min: " + least + "\n  foreman_service_puma_threads_max: " + most + "\n  db_pool: ''\n"
	var keys, entries strings.Builder
	for _, k := range slices.Sorted(maps.Keys(v)) {
		key, ok := strings.CutPrefix(k, "hiera/")
		if !ok {
			continue
		}
		if _, sub, ok := strings.Cut(key, "/"); ok {
			fmt.Fprintf(&entries, "  %s: %s\n", sub, v[k])
			continue
		}
		fmt.Fprintf(&keys, "%s: %s\n", key, v[k])
	}
	if entries.Len() > 0 {
		keys.WriteString("postgresql::server::config_entries:\n" + entries.String())
	}
	files["etc/foreman-installer/custom-hiera.yaml"] = "---\n" + keys.String()

	// Puma.
	files["usr/lib/systemd/system/foreman.service"] = "[Service]\nExecStart=/usr/share/foreman/bin/rails server\n"
	files["etc/systemd/system/foreman.service.d/installer.conf"] = "[Service]\nEnvironment=FOREMAN_PUMA_THREADS_MIN=" + least + "\nEnvironment=FOREMAN_PUMA_THREADS_MAX=" + most + "\nEnvironment=FOREMAN_PUMA_WORKERS=" + workers + "\n"
	threads := number("installer/--foreman-foreman-service-puma-threads-max", 5)
	pool := max(5, threads)
	if !slices.Contains([]string{"6.9", "6.10", "6.11", "6.12", "6.13", "6.14", "6.15"}, w.version) {
		pool = threads + 4
	}
	files["etc/foreman/database.yml"] = fmt.Sprintf("production:\n  adapter: postgresql\n  host: localhost\n  pool: %d\n", pool)

	// Dynflow and Pulp.
	wants := "etc/systemd/system/multi-user.target.wants/"
	each := number("installer/--foreman-dynflow-worker-concurrency", 5)
	unit := func(name string, threads int) {
		files[wants+"dynflow-sidekiq@"+name+".service"] = "-> /usr/lib/systemd/system/dynflow-sidekiq@.service"
		files["etc/foreman/dynflow/"+name+".yml"] = fmt.Sprintf(":concurrency: %d\n", threads)
	}
	files["usr/lib/systemd/system/dynflow-sidekiq@.service"] = "[Service]\nExecStart=/usr/bin/sidekiq\n"
	unit("orchestrator", 1)
	unit("worker-hosts-queue-1", each)
	for i := range number("installer/--foreman-dynflow-worker-instances", 1) {
		unit(fmt.Sprintf("worker-%d", i+1), each)
	}
	for i := range min(8, w.cpus) {
		files[fmt.Sprintf("%spulpcore-worker@%d.service", wants, i+1)] = "-> /usr/lib/systemd/system/pulpcore-worker@.service"
	}

	// PostgreSQL and Candlepin have what is published for the size.
	pg := map[string]string{"max_connections": "500", "shared_buffers": "512MB", "work_mem": "4MB", "checkpoint_completion_target": "0.9", "log_min_duration_statement": "1000"}
	heap := "-Xms1024m -Xmx4096m"
	if buffers := map[string]string{"medium": "4GB", "large": "8GB", "extra-large": "16GB", "extra-extra-large": "32GB"}[size]; buffers != "" {
		pg["max_connections"], pg["shared_buffers"], pg["effective_cache_size"], pg["autovacuum_vacuum_cost_limit"] = "1000", buffers, "16GB", "2000"
	}
	if strings.HasPrefix(size, "extra") {
		pg["work_mem"], pg["effective_cache_size"], heap = "8MB", "32GB", "-Xms1024m -Xmx8192m"
	}
	if limit := v["hiera/postgresql::server::config_entries/autovacuum_vacuum_cost_limit"]; limit != "" {
		pg["autovacuum_vacuum_cost_limit"] = limit
	}
	if buffers := v["hiera/postgresql::server::config_entries/shared_buffers"]; buffers != "" {
		pg["shared_buffers"] = buffers
	}
	var conf strings.Builder
	for _, k := range slices.Sorted(maps.Keys(pg)) {
		fmt.Fprintf(&conf, "%s = %s\n", k, pg[k])
	}
	const data = "var/lib/pgsql/data/"
	files[data+"postgresql.conf"], files[data+"postgresql.auto.conf"], files[data+"PG_VERSION"] = conf.String(), "# Do not edit this file manually!\n", "13\n"
	files["etc/tomcat/tomcat.conf"] = "JAVA_OPTS=\"" + heap + "\"\n"

	// httpd: puppetlabs-apache's 25 processes and 250 requests by default.
	mods := "etc/httpd/conf.modules.d/"
	medium := size != "default" && size != "development"
	if prefork := slices.Contains([]string{"6.9", "6.10", "6.11"}, w.version); prefork {
		limit, clients, end := 256, 256, 0
		if medium {
			limit, clients, end = 1024, 1024, 4000
		}
		files[mods+"prefork.load"] = "LoadModule mpm_prefork_module modules/mod_mpm_prefork.so\n"
		files[mods+"prefork.conf"] = fmt.Sprintf("<IfModule mpm_prefork_module>\n  StartServers %d\n  ServerLimit %d\n  MaxClients %d\n  MaxRequestsPerChild %d\n</IfModule>\n",
			number("hiera/apache::mod::prefork::startservers", 8), number("hiera/apache::mod::prefork::serverlimit", limit), number("hiera/apache::mod::prefork::maxclients", clients), end)
	} else {
		limit, requests, end := 25, 250, 0
		if medium {
			limit, requests = 64, 1024
		}
		if medium && slices.Contains([]string{"6.12", "6.13", "6.14"}, w.version) {
			end = 4000
		}
		files[mods+"event.load"] = "LoadModule mpm_event_module modules/mod_mpm_event.so\n"
		files[mods+"event.conf"] = fmt.Sprintf("<IfModule mpm_event_module>\n  ServerLimit %d\n  StartServers 2\n  MaxRequestWorkers %d\n  ThreadsPerChild 16\n  MaxRequestsPerChild %d\n</IfModule>\n",
			number("hiera/apache::mod::event::serverlimit", limit), number("hiera/apache::mod::event::maxrequestworkers", requests), number("hiera/apache::mod::event::maxrequestsperchild", end))
	}
	errors := "AH00163: Apache/2.4.37 (Red Hat Enterprise Linux) configured -- resuming normal operations\n"
	if timeout := v["hiera/apache::mod::proxy::proxy_timeout"]; timeout != "" {
		files[mods+"proxy.conf"] = "ProxyTimeout " + timeout + "\n"
		errors += "[proxy:error] AH00898: The timeout specified has expired: AH01102\n" // the symptom that it is for
	}
	files["etc/httpd/conf/httpd.conf"] = "ServerRoot \"/etc/httpd\"\nListen 80\nInclude \"/etc/httpd/conf.modules.d/*.load\"\nInclude \"/etc/httpd/conf.modules.d/*.conf\"\nIncludeOptional \"/etc/httpd/conf.d/*.conf\"\n"
	files["etc/httpd/conf.d/05-foreman-ssl.conf"] = "<VirtualHost *:443>\n  KeepAlive On\n  MaxKeepAliveRequests 100\n  KeepAliveTimeout 5\n</VirtualHost>\n"
	limits := func(service, text string) {
		files["usr/lib/systemd/system/"+service+".service"] = "[Service]\nExecStart=/usr/sbin/" + service + "\n"
		if text != "" {
			files["etc/systemd/system/"+service+".service.d/limits.conf"] = "[Service]\nLimitNOFILE=" + text + "\n"
		}
	}
	limits("httpd", v["httpd/LimitNOFILE"])
	if mode := v["installer/--foreman-proxy-plugin-remote-execution-script-mode"]; mode != "" {
		files["etc/foreman-proxy/settings.d/remote_execution_script.yml"] = "---\n:enabled: https\n:mode: " + mode + "\n"
		for _, option := range []string{"rate-limit", "resend-interval", "ttl"} {
			if n := v["installer/--foreman-proxy-plugin-remote-execution-script-mqtt-"+option]; n != "" {
				files["etc/foreman-proxy/settings.d/remote_execution_script.yml"] += ":mqtt_" + strings.ReplaceAll(option, "-", "_") + ": " + n + "\n"
			}
		}
		limits("mosquitto", v["mosquitto/LimitNOFILE"])
	}
	aio := "65536"
	if katelloAgent := slices.Contains([]string{"6.9", "6.10", "6.11", "6.12", "6.13", "6.14"}, w.version); katelloAgent {
		limits("qdrouterd", strconv.Itoa(number("hiera/qpid::router::open_file_limit", 150100)))
		limits("qpidd", strconv.Itoa(number("hiera/qpid::open_file_limit", 65536)))
		files["var/lib/qpidd/.qpidd/x"] = ""
		if n := v["sysctl/fs.aio-max-nr"]; n != "" {
			aio = n
		}
	}
	files["proc/sys/fs/aio-max-nr"] = aio + "\n"

	// The machine: a guest, or none.
	files["usr/lib/systemd/system/tuned.service"] = "[Service]\nExecStart=/usr/sbin/tuned\n"
	files[wants+"tuned.service"] = "-> /usr/lib/systemd/system/tuned.service"
	files["etc/tuned/active_profile"], files["etc/tuned/profile_mode"] = v["system/tuned_profile"]+"\n", "manual\n"
	files["sys/kernel/mm/transparent_hugepage/enabled"] = strings.Replace("always madvise never\n", v["system/transparent_hugepage"], "["+v["system/transparent_hugepage"]+"]", 1)
	files["sys/class/dmi/id/sys_vendor"], files["sys/class/dmi/id/product_name"], files["sys/class/dmi/id/chassis_type"] = "VMware, Inc.\n", "VMware7,1\n", "1\n"
	flags := "fpu sse2 lm hypervisor"
	if w.metal {
		files["sys/class/dmi/id/sys_vendor"], files["sys/class/dmi/id/product_name"], files["sys/class/dmi/id/chassis_type"] = "Dell Inc.\n", "PowerEdge R740\n", "23\n"
		flags = "fpu sse2 lm"
	}
	var cpus strings.Builder
	for i := range w.cpus {
		fmt.Fprintf(&cpus, "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz\nphysical id\t: 0\ncore id\t: %d\nflags\t\t: %s\n\n", i, i, flags)
	}
	files["proc/cpuinfo"] = cpus.String()
	for _, n := range []string{"online", "possible", "present"} {
		files["sys/devices/system/cpu/"+n] = fmt.Sprintf("0-%d\n", w.cpus-1)
	}
	// A crash kernel has some of the memory.
	files["proc/meminfo"] = fmt.Sprintf("MemTotal:       %d kB\nMemFree:        102400 kB\n", w.gib*(1<<20)*97/100)
	files["proc/sys/kernel/hostname"] = "satellite.example.com\n"
	files["proc/1/mountinfo"] = "61 1 8:1 / / rw - xfs /dev/sda1 rw\n"
	files["df"] = "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 4294967296 1000 4294966296 1% /\n"
	for _, d := range []string{"pulp", "candlepin"} {
		files["var/lib/"+d+"/x"] = ""
	}
	files["var/lib/foreman-maintain/satellite_metrics.yml"] = fmt.Sprintf("{\"hosts_by_type_count|Managed\": %d}\n", w.hosts)
	files["var/log/foreman/production.log"] = "2026-11-21 [I|app] Started GET\n"
	files["var/log/httpd/foreman-ssl_access_ssl.log"] = "h - - [d] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"\n"
	files["var/log/httpd/error_log"] = errors
	files["var/log/messages"] = "Nov 21 08:00:00 satellite systemd: Started\n"
	files["sos_commands/foreman/foreman_tasks_tasks"] = "id,label,state\n1,Actions::Katello::Host::Update,stopped\n"

	root := t.TempDir()
	testkitmachine.Write(t, root, files)
	return root
}

// auditOf is what check says of a machine, by rule, and of what it is not sure.
func auditOf(t *testing.T, c *rule.Catalogue, root string) map[string][]rule.Finding {
	t.Helper()
	h, err := host.Copy(root)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]rule.Finding{}
	for _, f := range c.Check(t.Context(), platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), []string{"satellite"}, nil) {
		all[f.ID] = append(all[f.ID], f)
	}
	return all
}

const pgKey = "postgresql::server::config_entries/"
