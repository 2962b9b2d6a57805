// Package satellite answers rule inputs for a Satellite, a Foreman with Katello or a Capsule, in
// addition to the options of single products. They are version and size, the installer's options,
// combined settings of the services, and logs.
package satellite

import (
	"context"
	"path"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/redis"
	"fettle.dev/fettle/internal/systemd"
)

// Source answers the inputs "satellite.*".
func Source() platform.Source {
	s := platform.Source{Prefix: "satellite", Sets: []string{overrideSet, toldSet, storageSet, filesystemSet, workerSet, queueSet}}
	for _, in := range inputs() {
		s.Inputs = append(s.Inputs, in.Input)
	}
	s.Open = func(ctx context.Context, m *platform.Subject) platform.Answers { return open(ctx, m) }
	return s
}

// input is an input and its answer; item is an item of a set.
type input struct {
	fact.Input
	answer func(s *satellite, item string) fact.Answer
}

// satellite is the audited machine. It reads each file and program on demand, once.
type satellite struct {
	ctx     context.Context // of the audit
	host    *host.Host
	subject *platform.Subject
	units   *systemd.Reader
	files   map[string]file

	product   *satelliteProduct
	installer *installer
	tasks     *tasks
	queued    []redis.Queue // nil until read, or if noQueues has a reason
	noQueues  string
	envs      map[string]environment
	logs      map[string]sign
}

func open(ctx context.Context, m *platform.Subject) *satellite {
	return &satellite{ctx: ctx, host: m.Host, subject: m, units: systemd.New(m.Host), files: map[string]file{}, envs: map[string]environment{}, logs: map[string]sign{}}
}

// Answer implements platform.Answers.
func (s *satellite) Answer(name string) fact.Answer {
	for _, in := range inputs() {
		before, after, set := strings.Cut(in.Name, "*")
		switch {
		case in.Name == name && s.none():
			return fact.Answer{At: s.find().at}
		case in.Name == name:
			return in.answer(s, "")
		case set && len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after):
			return in.answer(s, name[len(before):len(name)-len(after)])
		}
	}
	return fact.Answer{Unknown: "a Satellite has no " + name}
}

// none reports whether the machine certainly is neither a Satellite nor a Capsule. Then no file is
// read.
func (s *satellite) none() bool {
	p := s.find()
	return p.role == "" && p.unknown == ""
}

// Items implements platform.Answers.
func (s *satellite) Items(set string) (names []string, unknown string) {
	if p := s.find(); p.role == "" {
		return nil, p.unknown
	}
	switch set {
	case overrideSet:
		return s.overrides()
	case toldSet:
		return s.toldKeys()
	case storageSet:
		return s.directories()
	case filesystemSet:
		return s.filesystems()
	case workerSet:
		return s.dynflowUnits()
	case queueSet:
		return s.queueNames()
	}
	return nil, "a Satellite has no set " + set
}

// one declares an input of the machine.
func one(name string, t fact.Type, unit, doc string, answer func(*satellite) fact.Answer) input {
	return input{fact.Input{Name: "satellite." + name, Type: t, Unit: unit, Doc: doc}, func(s *satellite, _ string) fact.Answer { return answer(s) }}
}

// each declares an input of every item in a set.
func each(set, name string, t fact.Type, unit, doc string, answer func(s *satellite, item string) fact.Answer) input {
	return input{fact.Input{Name: set + ".*." + name, Type: t, Unit: unit, Doc: doc}, answer}
}

// server restricts an answer to servers; on a Capsule the input is absent.
func server(answer func(*satellite) fact.Answer) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		switch p := s.find(); {
		case p.unknown != "":
			return fact.Answer{Unknown: p.unknown}
		case p.role != "server":
			return fact.Answer{}
		}
		return answer(s)
	}
}

const ofDatabase = "An option of PostgreSQL: the server's value, or what the installer would set if PostgreSQL is not set up yet."

var inputs = sync.OnceValue(func() []input {
	all := []input{
		one("version", fact.Text, "", "Version of Satellite; for an upstream Foreman, of the Satellite based on it.", (*satellite).version),
		one("foreman_version", fact.Text, "", "The version of Foreman: 3.3 is Satellite 6.12.", (*satellite).foremanVersion),
		one("release", fact.Text, "", "Installed product and version: Satellite 6.16.1, or Foreman 3.12.0 without a package of Satellite.", (*satellite).release),
		one("judged_as", fact.Text, "", "Satellite version whose tables apply: the newest that fettle knows up to the installed release, or else the oldest.", (*satellite).judgedAs),
		one("release_known", fact.Truth, "", "Whether the tables belong to the installed release.", (*satellite).releaseKnown),
		one("role", fact.Text, "", "server or capsule.", (*satellite).role),
		one("hosts", fact.Number, "", "Registered hosts, as the last usage report of satellite-maintain counted them.", (*satellite).hosts),
		one("capsule_hosts", fact.Number, "", "Registered hosts, on a Capsule only.", (*satellite).capsuleHosts),
		one("mqtt_hosts", fact.Number, "", "Registered hosts, if they receive jobs over MQTT.", (*satellite).mqttHosts),
		one("pending_host_tasks", fact.Number, "", "Tasks Actions::Katello::Host::* that have not ended.", server((*satellite).pendingTasks)),
		one("pending_host_tasks_hour", fact.Number, "", "Tasks Actions::Katello::Host::* that began more than an hour ago and have not ended.", server((*satellite).oldTasks)),
		one("oldest_host_task", fact.Number, "s", "Age of the oldest of these tasks.", server((*satellite).oldestTask)),
		each(queueSet, "length", fact.Number, "", "Jobs that wait in a queue of Dynflow's Sidekiq.", ofQueue(queueLength)),
		each(queueSet, "oldest", fact.Number, "s", "How long the next job of the queue has waited.", ofQueue(queueOldest)),

		one("tuning", fact.Text, "", "Configured installation size (--tuning).", server((*satellite).tuning)),
		one("puma_workers_told", fact.Number, "", "Configured number of Puma workers of the installer; absent if the installer calculates it.", server(told("foreman", "foreman_service_puma_workers"))),
		one("db_pool_told", fact.Number, "", "Configured database pool of the installer.", server(told("foreman", "db_pool"))),
		one("hiera_keys", fact.List, "", "Keys of custom-hiera.yaml; a key inside a map follows a slash.", (*satellite).hieraKeys),
		one("checkpoint_segments", fact.Text, "", "Value of PostgreSQL's checkpoint_segments in custom-hiera.yaml; empty if not set.", (*satellite).checkpointSegments),
		one("overridden", fact.List, "", "The keys of custom-hiera.yaml that the chosen size sets as well.", server((*satellite).overridden)),
		each(overrideSet, "value", fact.Text, "", "Value in custom-hiera.yaml.", (*satellite).overrideValue),
		each(overrideSet, "size_value", fact.Text, "", "Value of the chosen size.", (*satellite).sizeValue),
		one("unsuited", fact.List, "", "Overridden keys that are correct: only their value suits this machine, or the Tuning Guide sets them for any size (5.7).", server((*satellite).unsuited)),
		each(overrideSet, "suits", fact.Truth, "", "Whether the value of the size suits this machine; shared buffers above a quarter of the memory do not.", (*satellite).sizeSuits),
		each(overrideSet, "in_guide", fact.Truth, "", "Whether the value is in the range that the Tuning Guide sets for all sizes (5.7).", (*satellite).overrideInGuide),
		each(overrideSet, "value_suits", fact.Truth, "", "The value of custom-hiera.yaml suits this machine.", (*satellite).overrideSuits),
		each(overrideSet, "lower", fact.Truth, "", "Whether both values are amounts and the value of custom-hiera.yaml is the lower one.", (*satellite).overrideLower),

		each(toldSet, "value", fact.Text, "", "Value of a key for the installer: from custom-hiera.yaml, or else from the chosen size.", (*satellite).toldValue),
		each(toldSet, "product", fact.Text, "", "Value in the product's own configuration that the key sets.", (*satellite).toldProduct),
		each(toldSet, "same", fact.Truth, "", "Whether both values are the same.", (*satellite).toldHas),

		one("puma_workers", fact.Number, "", "Workers of the Puma that runs Foreman.", server(pumaOption("workers"))),
		one("puma_threads_min", fact.Number, "", "Minimum threads of each Puma worker.", server(pumaOption("threads_min"))),
		one("puma_threads_max", fact.Number, "", "Maximum threads of each Puma worker.", server(pumaOption("threads_max"))),
		one("db_pool", fact.Number, "", "Connection pool of each Puma worker (database.yml; default 5).", server((*satellite).dbPool)),
		one("database_local", fact.Truth, "", "The database runs on this machine: Foreman's, on a Capsule Pulp's.", (*satellite).databaseLocal),
		one("max_connections", fact.Number, "", ofDatabase, server(database("max_connections", fact.Number))),
		one("shared_buffers", fact.Number, "bytes", ofDatabase, server(database("shared_buffers", fact.Bytes))),
		one("work_mem", fact.Number, "bytes", ofDatabase, server(database("work_mem", fact.Bytes))),
		one("effective_cache_size", fact.Number, "bytes", ofDatabase, server(database("effective_cache_size", fact.Bytes))),
		one("autovacuum_vacuum_cost_limit", fact.Number, "", ofDatabase, server(database("autovacuum_vacuum_cost_limit", fact.Number))),
		one("log_min_duration_statement", fact.Number, "ms", ofDatabase, server(database("log_min_duration_statement", fact.Number))),
		one("checkpoint_completion_target", fact.Number, "", ofDatabase, server(database("checkpoint_completion_target", fact.Number))),

		one("dynflow_workers", fact.Number, "", "Units dynflow-sidekiq@worker or worker-N that start at boot.", server((*satellite).dynflowWorkers)),
		one("dynflow_threads", fact.Number, "", "The concurrency of all Dynflow units together.", server((*satellite).dynflowThreads)),
		one("dynflow_units", fact.Number, "", "All Dynflow units, the orchestrator and the queue of hosts among them.", server((*satellite).dynflowCount)),
		each(workerSet, "concurrency", fact.Number, "", "Threads of one Dynflow unit.", (*satellite).concurrency),
		one("executor_memory_limit", fact.Number, "bytes", "EXECUTOR_MEMORY_LIMIT of the Dynflow executor.", server(executor("EXECUTOR_MEMORY_LIMIT", fact.Bytes))),
		one("executor_memory_delay", fact.Number, "s", "EXECUTOR_MEMORY_MONITOR_DELAY of the Dynflow executor.", server(executor("EXECUTOR_MEMORY_MONITOR_DELAY", fact.Number))),
		one("executor_memory_interval", fact.Number, "s", "EXECUTOR_MEMORY_MONITOR_INTERVAL of the Dynflow executor.", server(executor("EXECUTOR_MEMORY_MONITOR_INTERVAL", fact.Number))),
		one("pulp_workers", fact.Number, "", "Units pulpcore-worker@N that start at boot.", (*satellite).pulpWorkers),
		one("candlepin_heap", fact.Number, "bytes", "-Xmx of Candlepin's Tomcat.", server((*satellite).candlepinHeap)),

		one("httpd_mpm", fact.Text, "", "How httpd handles requests: event, worker or prefork.", web("mpm")),
		one("httpd_server_limit", fact.Number, "", "ServerLimit.", web("server_limit")),
		one("httpd_max_request_workers", fact.Number, "", "MaxRequestWorkers, MaxClients before httpd 2.4.", web("max_request_workers")),
		one("httpd_threads_per_child", fact.Number, "", "ThreadsPerChild.", web("threads_per_child")),
		one("httpd_start_servers", fact.Number, "", "StartServers.", web("start_servers")),
		one("httpd_requests_per_child", fact.Number, "", "MaxConnectionsPerChild, MaxRequestsPerChild before httpd 2.4; 0 means unlimited.", web("MaxConnectionsPerChild")),
		one("httpd_keepalive", fact.Text, "", "KeepAlive of Foreman's virtual host.", server(virtualHost("keepalive"))),
		one("httpd_keepalive_requests", fact.Number, "", "MaxKeepAliveRequests of Foreman's virtual host.", server(virtualHost("maxkeepaliverequests"))),
		one("httpd_keepalive_timeout", fact.Number, "s", "KeepAliveTimeout of Foreman's virtual host.", server(virtualHost("keepalivetimeout"))),
		one("proxy_timeout", fact.Number, "s", "ProxyTimeout of httpd, or else its Timeout.", web("proxy_timeout_s")),

		one("httpd_open_files", fact.Number, "", "Open files that httpd may have.", openFiles("httpd.service")),
		one("qdrouterd_open_files", fact.Number, "", "Open files that qdrouterd may have.", openFiles("qdrouterd.service")),
		one("qpidd_open_files", fact.Number, "", "Open files that qpidd may have.", openFiles("qpidd.service")),
		one("mosquitto_open_files", fact.Number, "", "Open files that mosquitto may have.", openFiles("mosquitto.service")),
		one("dynflow_core_open_files", fact.Number, "", "Open files that smart_proxy_dynflow_core may have.", openFiles("smart_proxy_dynflow_core.service")),
		one("qpid_mgmt_pub_interval", fact.Number, "s", "mgmt-pub-interval of qpidd.", (*satellite).mgmtPubInterval),
		one("rex_mode", fact.Text, "", "The transport of remote execution: ssh, ssh-async or pull-mqtt.", remoteExecution(":mode")),
		one("mqtt_rate_limit", fact.Number, "", "Jobs that may run at the same time over MQTT.", remoteExecution(":mqtt_rate_limit")),
		one("mqtt_resend_interval", fact.Number, "s", "Time after which a notification is sent again.", remoteExecution(":mqtt_resend_interval")),
		one("mqtt_ttl", fact.Number, "s", "Time within which a host must pick up a job.", remoteExecution(":mqtt_ttl")),

		one("qpidd_size_bytes", fact.Number, "bytes", "The size of the file system of /var/lib/qpidd.", (*satellite).qpiddSize),
		one("qpidd_beside", fact.List, "", "The directories that grow on the file system of /var/lib/qpidd.", (*satellite).qpiddBeside),
		each(filesystemSet, "size_bytes", fact.Number, "bytes", "The size of a file system on which directories of Satellite grow.", (*satellite).spaceSize),
		each(filesystemSet, "directories", fact.List, "", "Directories of Satellite that grow on a file system.", func(s *satellite, point string) fact.Answer { return s.growing(point) }),
		one("pgsql_mount", fact.Text, "", "Where the file system of /var/lib/pgsql is mounted.", mountOf("/var/lib/pgsql")),
		one("pgsql_data_mount", fact.Text, "", "Where the file system of /var/lib/pgsql/data is mounted.", mountOf("/var/lib/pgsql/data")),
		each(storageSet, "mount", fact.Text, "", "Where the file system of a directory is mounted.", (*satellite).mount),
		each(storageSet, "type", fact.Text, "", "The type of the file system of a directory.", (*satellite).mountType),
		one("root_rotational", fact.Truth, "", "Whether a disk below / is rotational.", func(s *satellite) fact.Answer { return s.rotational("/") }),
		each(storageSet, "rotational", fact.Truth, "", "Whether a disk below a directory is rotational.", (*satellite).rotational),
		each(storageSet, "size_bytes", fact.Number, "bytes", "The size of the file system of a directory.", (*satellite).spaceSize),
		each(storageSet, "free_bytes", fact.Number, "bytes", "Free space of the file system of a directory.", (*satellite).spaceFree),
	}
	for _, sg := range signs {
		all = append(all, one("log."+sg.name, fact.Number, "", sg.doc, func(s *satellite) fact.Answer { return s.sign(sg) }))
	}
	return all
})

// within resolves a file name relative to a directory.
func within(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}
