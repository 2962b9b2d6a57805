// Package satellite sizes a Satellite for its hosts: the installation size, the installer's
// options, settings that differ from the size, and the Capsules. It checks whether connections,
// memory, open files and disks suffice.
package satellite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Request is the load that a Satellite is sized for.
type Request struct {
	Hosts         int
	CPUs          int       // 0 means the CPUs of the size
	RAM           unit.Size // 0 means the memory of the size
	BareMetal     bool
	Registrations int // at once
	Downloads     int // hosts at once, from the Satellite itself
	Content       string
	MQTTHosts     int
	RateLimit     int // jobs over MQTT at the same time; 0 for no limit
	Resend        int // seconds; 0 for the proxy's own
	TTL           int // seconds; 0 for the proxy's own
	Capsules      []Capsule
	Disk          unit.Size
	Version       string

	inputs []*sizing.Input
}

// The maximum accepted counts. The guide's largest size begins at 60,000 hosts. With more than
// 262,019 hosts qpidd would need more files than the kernel allows a process. Two Puma workers
// handled 480 simultaneous registrations in the Tuning Guide's test (5.2.5).
const (
	mostHosts         = 250_000
	mostRegistrations = 5_000
)

const (
	aboutHosts         = "the Tuning Guide's largest size begins at 60,000 hosts; beyond it use several Satellites"
	aboutRegistrations = "about ten times the 480 of the Tuning Guide's test; register more in batches"
)

// New returns a request with the defaults.
func New() *Request {
	w := &Request{Content: "balanced"}
	w.inputs = []*sizing.Input{
		sizing.Count(&w.Hosts, "hosts", "hosts that the Satellite manages, including those behind Capsules", 1, mostHosts).Because(aboutHosts),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the machine (default as many as the hosts need)", 1, 4096).Because("RHEL supports no larger machine"),
		sizing.Size(&w.RAM, "ram", "memory of the machine, such as 64GiB (default as much as the hosts need)", unit.GiB, 64*unit.TiB).Because("x86-64 addresses 64 TiB"),
		sizing.Truth(&w.BareMetal, "bare-metal", "the machine is not a virtual machine"),
		sizing.Count(&w.Registrations, "registrations", "hosts that register at the same time", 0, mostRegistrations).Because(aboutRegistrations),
		sizing.Count(&w.Downloads, "downloads", "hosts that download at the same time from the Satellite itself", 0, mostHosts).Because(aboutHosts),
		sizing.Word(&w.Content, "content", "main load: heavy is publishing and synchronizing", "balanced", "heavy"),
		sizing.Count(&w.MQTTHosts, "mqtt-hosts", "hosts that receive jobs over MQTT (pull-mqtt)", 0, mostHosts).Because(aboutHosts),
		sizing.Count(&w.RateLimit, "mqtt-rate-limit", "jobs over MQTT that may run at once; fettle load mqtt --pull measures what a Capsule handles", 1, mostHosts).Because(aboutHosts),
		sizing.Count(&w.Resend, "mqtt-resend-interval", "seconds until a host is notified of its job again (default 900)", 1, 86400).Because("a day"),
		sizing.Count(&w.TTL, "mqtt-ttl", "seconds that a host has to pick up a job (default 5)", 1, 86400).Because("a day"),
		sizing.Repeated("capsule", "a Capsule: NAME[,hosts=N][,downloads=N][,rex=N]; repeatable", "capsule", w.addCapsule, w.printCapsules),
		sizing.Disk(&w.Disk, "disk", "space for all of Satellite's directories, such as 500GB, to check whether it suffices", unit.GiB, 1024*unit.TiB).Because("RHEL's XFS holds 1024 TiB"),
		sizing.Text(&w.Version, "product-version", "version of Satellite, such as 6.12 (default the newest known)", nil),
	}
	return w
}

// Inputs implements sizing.Request.
func (w *Request) Inputs() []*sizing.Input { return w.inputs }

// plan is a request in progress.
type plan struct {
	*Request
	r *sizing.Result

	sizes, tuning, puma, budget, services *sizing.Edition

	size    string
	cpus    int
	ram     unit.Size
	workers int
	threads int
	pool    int
	pulp    int     // workers
	buffers float64 // PostgreSQL's shared buffers, in bytes
	event   bool
	qpid    bool

	installer []sizing.Value // the options of its command line
	hiera     hiera
	sysctls   []string
	httpd     int // open files
	mosquitto int // open files; 0 without MQTT
}

// Size implements sizing.Request.
func (w *Request) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if w.Hosts == 0 {
		return nil, sizing.Instead("hosts", "12000", "not given; for example 12,000")
	}
	for _, part := range []struct {
		name  string
		hosts int
	}{{"mqtt-hosts", w.MQTTHosts}, {"registrations", w.Registrations}, {"downloads", w.Downloads}} {
		if part.hosts > w.Hosts {
			return nil, sizing.Instead(part.name, w.Hosts, "%d is more than the %s", part.hosts, text.Count(w.Hosts, "host"))
		}
	}
	r, err := sizing.For(f, "satellite", "satellite-releases", w.Version)
	var bad *sizing.InputError
	if errors.As(err, &bad) {
		var works []string
		for _, option := range bad.Works {
			works = append(works, "--product-"+strings.TrimPrefix(option, "--"))
		}
		return nil, &sizing.InputError{Input: "product-version", Err: bad.Err, Works: works}
	}
	if err != nil {
		return nil, err
	}
	p := &plan{
		Request: w, r: r,
		sizes: r.Table("satellite_sizes"), tuning: r.Table("installer_tuning"), puma: r.Table("satellite-puma"),
		budget: r.Table("satellite-budget"), services: r.Table("satellite-services"),
	}
	r.RecordInputs(w.inputs)
	for _, step := range []func() error{p.hardware, p.frontEnd, p.web, p.messages, p.tasks, p.database, p.budgets, p.capsules, p.disks, p.artefacts} {
		if err := step(); r.Err() != nil || err != nil {
			return nil, cmp.Or(r.Err(), err)
		}
	}
	p.headline()
	return r, nil
}

// headline adds the answer to the headline, and the values of the default output.
func (p *plan) headline() {
	r, h := p.r, &p.r.Headline
	h.Line("Size %s: %s CPUs, %s, %s Puma workers with %s threads each, for %s", p.size, r.InHeadline("hardware", "cpus"), r.InHeadline("hardware", "memory"),
		r.InHeadline("puma", "workers"), r.InHeadline("puma", "threads"), h.Count("hosts", p.Hosts, "host"))
	r.TightestInHeadline()
	r.InterruptionsInHeadline()
	// The Capsule with the highest load comes first, because not all Capsules may fit.
	need := func(c Capsule) int { return max(c.REX, c.Downloads, c.Hosts) }
	for _, c := range slices.SortedStableFunc(slices.Values(p.Capsules), func(a, b Capsule) int { return need(b) - need(a) }) {
		r.First("capsule "+c.Name+"/size", "capsule "+c.Name+"/cpus", "capsule "+c.Name+"/memory")
	}
	r.First("mosquitto/*", "sysctl/*", "puma/workers", "disk/*", "hardware/storage", "postgresql/*", "httpd/*", "hiera/*")
}

// guide returns a section of the tuning guide.
func guide(section string) rule.Source { return rule.Cite("satellite-tuning", section) }

func (p *plan) add(group, name string, value any, unit, why string, sources ...rule.Source) {
	p.r.Add(sizing.Value{Group: group, Name: name, Value: value, Unit: unit, Why: why, Sources: sources})
}

// hardware selects the size by the number of hosts, and checks that the machine is large enough.
func (p *plan) hardware() error {
	row, err := p.sizes.Least("hosts_max", float64(p.Hosts))
	if err != nil {
		return err
	}
	p.size = row.Key
	upTo := "more hosts than the others"
	if most, ok := row.Cells["hosts_max"].(float64); ok {
		upTo = text.Sprintf("hosts up to %.0f", most)
	}
	p.r.Add(sizing.Value{
		Group: "size", Name: "tuning", Value: p.size, Why: fmt.Sprintf("%s; this size is for %s", text.Count(p.Hosts, "host"), upTo), Sources: []rule.Source{guide("2")},
	})
	asked := p.r.Table("installer_requirements")
	cores, ram := int(asked.Number(p.size, "cores")), unit.Size(asked.Number(p.size, "ram"))
	p.cpus, p.ram = p.CPUs, p.RAM
	if p.cpus == 0 {
		p.cpus = cores
	}
	if p.ram == 0 {
		p.ram = ram
	}
	small := func(input, format string, args ...any) error {
		return &sizing.InputError{Input: input, Err: fmt.Errorf(format, text.Numbers(args)...), Works: []string{fmt.Sprintf("--cpus=%d", max(p.cpus, cores)), fmt.Sprintf("--ram=%s", max(p.ram, ram))}}
	}
	if p.cpus < cores {
		return small("cpus", "size %s, for %s, needs %d CPUs, not %d: the installer rejects it (exit 102)", p.size, text.Count(p.Hosts, "host"), cores, p.cpus)
	}
	if float64(p.ram) < 0.9*float64(ram) {
		return small("ram", "size %s, for %s, needs %s, not %s: the installer rejects less than nine tenths of it (exit 103)", p.size, text.Count(p.Hosts, "host"), ram, p.ram)
	}
	p.r.Add(sizing.Value{Group: "hardware", Name: "cpus", Value: p.cpus, Why: text.Sprintf("size %s needs %d", p.size, cores), Sources: asked.Sources})
	p.r.Add(sizing.Value{Group: "hardware", Name: "memory", Value: uint64(p.ram), Unit: "bytes", Why: fmt.Sprintf("size %s needs %s; the installer tolerates a tenth less", p.size, sizing.Amount(uint64(ram), "bytes")), Sources: asked.Sources})
	// The largest size that the machine suffices for.
	larger := p.size
	for _, name := range p.sizes.Keys() {
		if float64(p.cpus) >= asked.Number(name, "cores") && float64(p.ram) >= 0.9*asked.Number(name, "ram") {
			larger = name
		}
	}
	if larger != p.size {
		p.r.Note("the machine suffices for size %s, with more connections and buffers of PostgreSQL; the %s do not need it", larger, text.Count(p.Hosts, "host"))
	}
	p.add("hardware", "storage", "SSD", "", "reads need at least 60 to 80 MB/s; a local SSD gives 600, rotating disks 100 to 200", guide("4"), guide("4.1"))
	tuned, why := "virtual-guest", "for a guest; use --bare-metal if this is not a guest"
	if p.BareMetal {
		tuned, why = "throughput-performance", "for bare metal"
	}
	p.r.Add(sizing.Value{
		Group: "system", Name: "tuned_profile", Value: tuned, Why: why, Sources: []rule.Source{guide("4.2")},
	})
	p.add("system", "transparent_hugepage", "never", "", "PostgreSQL and Redis access memory sparsely, and are slower with it; if both run on other machines it may stay on", guide("4.3"))
	p.tell("--tuning", p.size, "the size for the hosts", guide("2"))
	return nil
}

// tell adds an option to the installer's command line.
func (p *plan) tell(option string, value any, why string, sources ...rule.Source) {
	p.installer = append(p.installer, sizing.Value{Group: "installer", Name: option, Value: value, Why: why, Sources: sources})
}

// command returns the installer's command line, and adds its options as values.
func (p *plan) command() string {
	words := []string{"satellite-installer"}
	for _, o := range p.installer {
		p.r.Add(o)
		words = append(words, fmt.Sprintf("%s %v", o.Name, o.Value))
	}
	return strings.Join(words, " ")
}

// ofSize returns the source of the installer's files of the sizes.
func (p *plan) ofSize() []rule.Source { return p.tuning.Sources[:min(1, len(p.tuning.Sources))] }
