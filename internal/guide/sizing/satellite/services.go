package satellite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// hiera is the part of custom-hiera.yaml that a plan writes, without keys for which the size has
// the same value.
type hiera struct {
	EventLimit   int         `yaml:"apache::mod::event::serverlimit,omitempty"`
	EventWorkers int         `yaml:"apache::mod::event::maxrequestworkers,omitempty"`
	EventEnd     int         `yaml:"apache::mod::event::maxrequestsperchild,omitempty"`
	ForkLimit    int         `yaml:"apache::mod::prefork::serverlimit,omitempty"`
	ForkClients  int         `yaml:"apache::mod::prefork::maxclients,omitempty"`
	ForkStart    int         `yaml:"apache::mod::prefork::startservers,omitempty"`
	ProxyTimeout int         `yaml:"apache::mod::proxy::proxy_timeout,omitempty"`
	RouterFiles  int         `yaml:"qpid::router::open_file_limit,omitempty"`
	BrokerFiles  int         `yaml:"qpid::open_file_limit,omitempty"`
	PostgreSQL   *postgresql `yaml:"postgresql::server::config_entries,omitempty"`
}

type postgresql struct {
	SharedBuffers string `yaml:"shared_buffers,omitempty"`
	CostLimit     int    `yaml:"autovacuum_vacuum_cost_limit,omitempty"`
}

// web decides httpd's requests and open files.
func (p *plan) web() error {
	p.httpd = int(p.services.Number("httpd files", "value"))
	p.add("httpd", "LimitNOFILE", p.httpd, "", "a connection takes a file on each side of the proxy", guide("5.3.2"))
	// One registration is several requests: the Tuning Guide has 582 for 150 registrations.
	each := p.services.Number("registrations", "value") / p.services.Number("registrations", "for")
	want := math.Ceil(float64(p.Registrations) * each)
	row, err := p.tuning.Row(p.size)
	if err != nil {
		return err
	}
	_, p.event = row.Cells["apache::mod::event::threadsperchild"]
	had := p.tuned("apache::mod::event::maxrequestworkers")
	name := "MaxRequestWorkers"
	if !p.event {
		name, had = "MaxClients", p.tuned("apache::mod::prefork::maxclients")
	}
	workers, why := had, fmt.Sprintf("size %s sets it", p.size)
	switch {
	case had == 0 && !p.event:
		workers = max(want, p.services.Number("registrations", "value"))
		why = "the Tuning Guide's figure for 150 registrations at once; httpd's default limit of 256 would reject hosts"
		if want > p.services.Number("registrations", "value") {
			why = text.Sprintf("%s at once cause %.0f requests (Tuning Guide: 150 cause 582); httpd's default limit of 256 would reject hosts", text.Count(p.Registrations, "registration"), want)
		}
		p.hiera.ForkLimit, p.hiera.ForkClients, p.hiera.ForkStart = int(workers), int(workers), int(p.services.Number("prefork start", "value"))
		p.add("hiera", "apache::mod::prefork::startservers", p.hiera.ForkStart, "", text.Sprintf("processes that wait for the first requests; the installer sets %.0f", p.services.Number("prefork start", "has")), guide("5.3.1"))
		p.add("hiera", "apache::mod::prefork::serverlimit", int(workers), "", "prefork starts no more than this, whatever MaxClients is", guide("5.3.1"))
		p.add("hiera", "apache::mod::prefork::maxclients", int(workers), "", why, guide("5.3.1"))
	case had == 0 && want > p.services.Number("httpd threads", "has"):
		perChild := p.tuned("apache::mod::event::threadsperchild")
		limit := math.Ceil(max(want, p.services.Number("httpd threads", "value")) / perChild)
		workers = limit * perChild
		why = text.Sprintf("%s at once cause %.0f requests (Tuning Guide: 150 cause 582), and the tuning size leaves httpd's limit at 250", text.Count(p.Registrations, "registration"), want)
		p.hiera.EventLimit, p.hiera.EventWorkers = int(limit), int(workers)
		p.add("hiera", "apache::mod::event::serverlimit", int(limit), "", text.Sprintf("x %.0f threads each = %.0f", perChild, workers), guide("5.3.3"))
		p.add("hiera", "apache::mod::event::maxrequestworkers", int(workers), "", why, guide("5.3.3"))
		if row, err := p.tuning.Row("medium"); err == nil && row.Cells["apache::mod::event::maxrequestsperchild"] != nil {
			p.hiera.EventEnd = int(p.tuning.Number("medium", "apache::mod::event::maxrequestsperchild"))
			p.add("hiera", "apache::mod::event::maxrequestsperchild", p.hiera.EventEnd, "", "requests after which httpd replaces a process, to free its memory; sizes from medium up set it", guide("5.3.3"))
		}
	case had == 0:
		workers, why = p.services.Number("httpd threads", "has"), fmt.Sprintf("the default of httpd's module; size %s does not set it", p.size)
	}
	p.r.Add(sizing.Value{Group: "httpd", Name: name, Value: int(workers), Why: why, Sources: p.ofSize()})
	p.r.Max(sizing.Limit{Name: "requests of registrations at once", Maximum: workers, Wanted: want, Why: "582 requests for 150 registrations", Sources: []rule.Source{guide("5.3.1")}})
	if want > workers {
		p.r.Note("%s at once may cause %.0f requests to httpd, and size %s serves %.0f: set serverlimit and maxrequestworkers together in custom-hiera.yaml if so many hosts register at once, and only then, because both override --tuning (S44)", text.Count(p.Registrations, "registration"), want, p.size, workers)
	}
	p.r.Spend("open files of httpd", "files", float64(p.httpd), sizing.Part{Name: "two for each request", Amount: workers * p.services.Number("httpd files", "each")})
	if len(p.Capsules) > 0 && p.Registrations > 0 {
		p.hiera.ProxyTimeout = int(p.services.Number("proxy timeout", "value"))
		p.add("hiera", "apache::mod::proxy::proxy_timeout", p.hiera.ProxyTimeout, "s", "registrations through Capsules time out if very many arrive at once", guide("5.9.1"))
	}
	return nil
}

// messages decides the transport of jobs and notifications to hosts: qpid up to 6.14, MQTT if
// requested.
func (p *plan) messages() error {
	hosts := float64(p.Hosts)
	p.qpid = slices.Contains(p.services.Keys(), "qpidd files")
	if p.qpid {
		for _, s := range []struct {
			name, row, key string
			to             *int
		}{
			{"qdrouterd", "qdrouterd files", "qpid::router::open_file_limit", &p.hiera.RouterFiles},
			{"qpidd", "qpidd files", "qpid::open_file_limit", &p.hiera.BrokerFiles},
		} {
			each, own, has := p.services.Number(s.row, "each"), p.services.Number(s.row, "own"), p.services.Number(s.row, "has")
			need := hosts*each + own
			why := text.Sprintf("%d x %.0f + %.0f = %.0f; the default is %.0f", p.Hosts, each, own, need, has)
			section := guide("5.4.1")
			if s.name == "qpidd" {
				section = guide("5.4.2")
			}
			if need > has {
				*s.to = int(need)
				p.add("hiera", s.key, int(need), "", why, section)
			}
			p.add("qpid", s.name+"_open_files", int(max(need, has)), "", why, section)
			p.r.Spend("open files of "+s.name, "files", max(need, has), sizing.Part{Name: "hosts with katello-agent", Amount: hosts * each}, sizing.Part{Name: s.name, Amount: own})
		}
		each, own, has := p.services.Number("aio requests", "each"), p.services.Number("aio requests", "own"), p.services.Number("aio requests", "has")
		if need := hosts*each + own; need > has {
			p.sysctls = append(p.sysctls, fmt.Sprintf("fs.aio-max-nr = %.0f", need))
			p.add("sysctl", "fs.aio-max-nr", int(need), "", text.Sprintf("more than %.0f for each of %s: qpidd's journals; the kernel's default is %.0f", each, text.Count(p.Hosts, "host"), has), guide("5.4.3"))
		}
	}
	if p.MQTTHosts == 0 {
		if p.RateLimit+p.Resend+p.TTL > 0 {
			return sizing.Instead("mqtt-hosts", p.Hosts, "not given; set the number of hosts that get their jobs over MQTT, to which rate limit, resend interval and ttl apply")
		}
		return nil
	}
	p.tell("--foreman-proxy-plugin-remote-execution-script-mode", "pull-mqtt", "a Satellite or a Capsule has one transport: ssh or MQTT", guide("5.6.1"))
	// If there is only one transport, every host may use it.
	own := p.services.Number("mosquitto files", "own")
	p.mosquitto = max(int(hosts*p.services.Number("mosquitto files", "each")+own), int(p.services.Number("mosquitto files", "has")))
	p.add("mosquitto", "LimitNOFILE", p.mosquitto, "", text.Sprintf("one file per connection, and %.0f for the proxy and mosquitto itself; %s use MQTT, and all %d may, because it is the only transport; at least 1024", own, text.Count(p.MQTTHosts, "host"), p.Hosts), guide("5.6.1"))
	p.r.Spend("open files of mosquitto", "files", float64(p.mosquitto), sizing.Part{Name: "hosts over MQTT", Amount: float64(p.MQTTHosts)}, sizing.Part{Name: "the proxy and mosquitto itself", Amount: own})
	if err := p.pace(); err != nil {
		return err
	}
	p.r.Note("the installer can manage mosquitto's drop-in: systemd::dropin_files in custom-hiera.yaml, with the same lines")
	p.r.Note("a Capsule that sends jobs over MQTT needs mosquitto's drop-in too, with the number of its own hosts")
	return nil
}

// pace sets the number of hosts that are notified of jobs at once, and the interval (5.6.2).
func (p *plan) pace() error {
	const option = "--foreman-proxy-plugin-remote-execution-script-mqtt-"
	resend, ttl := int(p.services.Number("mqtt resend interval", "has")), int(p.services.Number("mqtt ttl", "has"))
	own := func(asked int, has *int, text string) string {
		if asked == 0 {
			return text + "; the proxy's default"
		}
		*has = asked
		return text
	}
	whyResend, whyTTL := own(p.Resend, &resend, "seconds after which a host that has not picked up its job is notified again"), own(p.TTL, &ttl, "seconds that a host has to pick up its job")
	if resend < 2*ttl {
		return sizing.Instead("mqtt-resend-interval", max(900, 2*ttl), "%d s is less than twice the ttl of %d s: slow hosts would be notified repeatedly (S75)", resend, ttl)
	}
	if p.RateLimit > 0 {
		p.tell(option+"rate-limit", p.RateLimit, "jobs that may run at once; more increase the load, and the proxy cannot be scaled", guide("5.6.2"))
	}
	p.tell(option+"resend-interval", resend, whyResend, guide("5.6.2"))
	p.tell(option+"ttl", ttl, whyTTL, guide("5.6.2"))
	if p.RateLimit == 0 {
		p.r.Note("MQTT: no rate limit is set, so all hosts of a job query the proxy at once, and its memory may grow until it is killed (S32, Bug 2244811). The guide gives no number; fettle load mqtt --pull measures what this machine handles, and --mqtt-rate-limit N writes it")
	}
	return nil
}

// tasks decides Dynflow and Redis.
func (p *plan) tasks() error {
	workers, threads := p.services.Number("dynflow workers", "value"), p.services.Number("dynflow threads", "value")
	p.tell("--foreman-dynflow-worker-instances", int(workers), "with the single default worker publishing, promoting and synchronizing wait for each other", guide("5.5"))
	p.tell("--foreman-dynflow-worker-concurrency", int(threads), "more threads in a Ruby process hardly help; more workers do", guide("5.5"))
	p.add("redis", "memory", uint64(p.budget.Number("redis", "memory")), "bytes", "its share in the budget below; the Tuning Guide has no figure, and expects it to be stable", p.budget.Sources...)
	return nil
}

// database lists PostgreSQL's options as the size sets them, and those that must differ.
func (p *plan) database() error {
	row, err := p.tuning.Row(p.size)
	if err != nil {
		return err
	}
	for _, o := range []struct{ name, why string }{
		{"max_connections", "the budget below lists the consumers"},
		{"shared_buffers", fmt.Sprintf("of %s", sizing.Amount(uint64(p.ram), "bytes")) + optimal(p.buffers, float64(p.ram))},
		{"work_mem", "of each sort; 8 MiB are more than enough"},
		{"effective_cache_size", "what the planner assumes to be cached"},
		{"autovacuum_vacuum_cost_limit", "so that vacuuming keeps up"},
	} {
		v, ok := row.Cells[entries+o.name].(float64)
		if !ok {
			continue
		}
		value := sizing.Value{Group: "postgresql", Name: o.name, Value: int(v), Why: "size " + p.size + " sets it; " + o.why, Sources: p.ofSize()}
		if o.name == "shared_buffers" && p.buffers != v {
			value.Why, v = fmt.Sprintf("custom-hiera.yaml sets it, size %s has %s; %s", p.size, unit.Size(v), o.why), p.buffers
			value.Sources = []rule.Source{guide("5.7")}
		}
		if o.name == "shared_buffers" || o.name == "work_mem" || o.name == "effective_cache_size" {
			value.Value, value.Unit = uint64(v), "bytes"
		}
		p.r.Add(value)
	}
	if p.tuned(entries+"autovacuum_vacuum_cost_limit") == 0 {
		limit := int(p.services.Number("autovacuum", "value"))
		p.postgresql().CostLimit = limit
		p.add("hiera", entries+"autovacuum_vacuum_cost_limit", limit, "", "the sizes from medium up set it, this one leaves PostgreSQL at 200", guide("5.7"))
	}
	if p.buffers != p.tuned(entries+"shared_buffers") {
		text := fmt.Sprintf("%.0fGB", p.buffers/(1<<30))
		p.postgresql().SharedBuffers = text
		p.add("hiera", entries+"shared_buffers", text, "", "the Tuning Guide's example, where its optimum of 2 GiB to a quarter of the memory begins, irrespective of the size", guide("5.7"))
	}
	heap, why := p.budget.Number("candlepin", "memory"), "the default of Candlepin's module"
	if set := heapOf(p.javaOpts()); set > 0 {
		heap, why = set*(1<<20), "size "+p.size+" sets "+p.javaOpts()
	}
	p.add("candlepin", "heap", uint64(heap), "bytes", why, p.ofSize()...)
	return nil
}

// postgresql returns PostgreSQL's part of custom-hiera.yaml.
func (p *plan) postgresql() *postgresql {
	if p.hiera.PostgreSQL == nil {
		p.hiera.PostgreSQL = &postgresql{}
	}
	return p.hiera.PostgreSQL
}

// optimal compares the buffers with the Tuning Guide's optimum, 2 GiB to a quarter of the memory
// (5.7).
func optimal(buffers, ram float64) string {
	switch {
	case buffers < 2<<30:
		return "; less than 2 GiB, where the Tuning Guide's optimum begins, as the installer sets it"
	case buffers > ram/4:
		return "; more than a quarter of the memory, where the Tuning Guide's optimum ends"
	}
	return "; the Tuning Guide calls 2 GiB to a quarter of the memory optimal"
}

// largest describes the largest part.
func largest(parts []sizing.Part) string {
	if len(parts) == 0 {
		return ""
	}
	most := slices.MaxFunc(parts, func(a, b sizing.Part) int { return cmp.Compare(a.Amount, b.Amount) })
	return fmt.Sprintf(", of which %s has %s", most.Name, unit.Digits(most.Amount))
}

// budgets adds the budgets of connections and memory.
func (p *plan) budgets() error {
	parts, _ := p.connections()
	p.r.Spend("connections of PostgreSQL (S34)", "connections", p.tuned(entries+"max_connections"), parts...)
	parts, _ = p.memory()
	p.r.Spend("memory (S35)", "MiB", math.Floor(float64(p.ram)/(1<<20)), parts...)
	return nil
}

// disks adds the space of the directories.
func (p *plan) disks() error {
	e := p.r.Table("satellite-disk")
	var parts []sizing.Part
	for _, dir := range e.Keys() {
		gb := e.Number(dir, "gb")
		parts = append(parts, sizing.Part{Name: dir, Amount: gb})
		p.r.Add(sizing.Value{Group: "disk", Name: dir, Value: gb, Unit: "GB", Why: "grows with content and hosts (installation guide)", Sources: e.Sources})
	}
	if p.qpid {
		gb := sizing.Round(float64(p.Hosts) * p.services.Number("qpidd disk", "each") / 1e9)
		parts = append(parts, sizing.Part{Name: "/var/lib/qpidd", Amount: gb})
		p.add("disk", "/var/lib/qpidd", gb, "GB", fmt.Sprintf("2 MiB for each of %s with katello-agent", text.Count(p.Hosts, "host")), guide("5.4.4"))
	}
	need := sizing.Round(sum(parts))
	total := need
	if p.Disk != 0 {
		if total = sizing.GB(float64(p.Disk)); total < need {
			return sizing.Instead("disk", fmt.Sprintf("%.0fGB", math.Ceil(need)), "%s GB is less than the %s GB that Satellite's directories need%s", unit.Digits(total), unit.Digits(need), largest(parts))
		}
	}
	p.r.Spend("disk space", "GB", total, parts...)
	p.r.Note("/var/lib/pgsql/data must stay on the file system of /var/lib/pgsql, or upgrades break (S66); a benchmark of PostgreSQL (fettle bench postgres) would need 100 GiB there, and is not for a Satellite in use (S36)")
	return nil
}
