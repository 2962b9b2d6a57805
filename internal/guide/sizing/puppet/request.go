// Package puppet sizes a Puppet Server from its request log. It decides whether catalogs should
// contain the metadata of files, whether a cache in front of the server is worthwhile, and how
// many interpreters and how much memory the other requests need. It writes files for the server
// and the installed web server. The caller reads the server's configuration and the log.
package puppet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Request describes a server that can serve the traffic of a log.
type Request struct {
	Log      sizing.Log
	CPUs     int
	RAM      unit.Size
	FrontEnd string   // nginx or apache; "" for the installed one
	Parts    []string // parts to write even if the log does not require them: static, cache, jruby
	Seconds  int      // lifetime of a cached response
	Port     int      // of the server behind the front end
	Certname string   // "" for the server's own

	// Traffic and Server are set by the caller, before Size.
	Traffic *Traffic
	Server  Server

	inputs []*sizing.Input
}

// New returns a request with the defaults.
func New() *Request {
	w := &Request{Seconds: 300, Port: 8139}
	w.inputs = append(w.Log.Inputs("log of the server's requests (default the log of the Puppet Server on this machine)"),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the machine", 1, 1024),
		sizing.Size(&w.RAM, "ram", "memory of the machine, or the part of it for Puppet Server", 512*unit.MiB, 64*unit.TiB),
		sizing.Word(&w.FrontEnd, "front-end", "the web server for the cache (default the installed one, or nginx)", "nginx", "apache"),
		sizing.Words(&w.Parts, "parts", "parts to write even if the log gives no reason for them: static, cache, jruby", "static", "cache", "jruby"),
		sizing.Count(&w.Seconds, "cache-seconds", "lifetime of a cached response in seconds; agents may get a changed file this much later", 1, 86_400).Because("agents run some fifty times a day"),
		sizing.Count(&w.Port, "port", "port on 127.0.0.1 at which the server listens behind the front end", 1024, 65_535).Because("lower ports need root"),
		sizing.Text(&w.Certname, "certname", "name of the server's certificate (default from its configuration, or the only one)", certname),
	)
	return w
}

func certname(s string) error {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return fmt.Errorf("%q is not a certname: want lower-case letters, digits, dots, - and _", s)
		}
	}
	return nil
}

// Inputs implements sizing.Request.
func (w *Request) Inputs() []*sizing.Input { return w.inputs }

// plan is a request in progress.
type plan struct {
	*Request
	*sizing.Result
	log     *Traffic
	figures *sizing.Edition

	static bool // catalogs contain metadata, or will after the change
	cached bool
}

// Size implements sizing.Request.
func (w *Request) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	switch {
	case w.Traffic == nil:
		return nil, sizing.Instead("log", "/var/log/puppetlabs/puppetserver/puppetserver-access.log", "not given; name a log of the server's requests")
	case w.Traffic.Count == 0:
		return nil, sizing.Bad("log", "%s has no requests", w.Traffic.names())
	case w.CPUs == 0:
		return nil, sizing.Instead("cpus", "8", "not given; set the number of CPUs of the machine")
	case w.RAM == 0:
		return nil, sizing.Instead("ram", "16GiB", "not given; set the memory of the machine")
	case len(w.Traffic.Of) == 0:
		return nil, sizing.Bad("log", "none of the %s in %s is for Puppet: name the log of a Puppet Server, or of the web server in front of it", text.Count(w.Traffic.Count, "request"), w.Traffic.names())
	case w.Traffic.Seconds == 0:
		return nil, sizing.Bad("log", "%s has no durations: add %%D to the format of the log (P06)", w.Traffic.names())
	}
	if w.Server.Version != "" && w.Server.Interpreters == 0 {
		w.Server.Interpreters = defaultInterpreters(w.CPUs) // the copy does not record the number of CPUs
	}
	r := sizing.NewResult(f, "puppet", w.Server.Version)
	p := &plan{Request: w, Result: r, log: w.Traffic, figures: r.Newest("puppet-requests")}
	p.RecordInputs(w.inputs)
	p.summary()
	for _, step := range []func() error{p.staticCatalogs, p.cache, p.interpreters} {
		if err := step(); p.Err() != nil || err != nil {
			return nil, cmp.Or(p.Err(), err)
		}
	}
	p.catalogs()
	p.headline()
	p.nothingWritten()
	return p.Result, nil
}

// headline adds the answer to the headline, and the values of the default output.
func (p *plan) headline() {
	h := &p.Headline
	verdict := func(group string) any { return p.Value(group, "verdict").Value }
	h.Line("Static catalogs: %v. Cache: %v. %s with %s of heap for %s in %s", verdict("static catalogs"), verdict("cache"),
		h.Count("jruby_max_active_instances", p.Value("jruby", "max-active-instances").Value.(int), "interpreter"), p.InHeadline("jruby", "heap"),
		h.Count("log_requests", int(p.log.Count), "request"), unit.FormatSeconds(p.log.SpanSeconds))
	p.TightestInHeadline()
	name := p.log.byTime()[0]
	nothing := ""
	if p.Server.Version == "" {
		nothing = "Nothing is written: no Puppet Server " + p.where() + ". "
	}
	h.Line(nothing+"Most of the time goes to %s requests: %s of %s of work", name, h.Figure("largest_share_percent", 100*p.log.share(name), "%"), unit.FormatSeconds(p.log.Seconds))
	p.First("static catalogs/*", "cache/*", "jruby/*", "log/*")
}

// nothingWritten adds notes: why there are no files, and the next step.
func (p *plan) nothingWritten() {
	worthwhile := func(group string) bool {
		v := p.Value(group, "verdict")
		return v != nil && v.Value == "worthwhile"
	}
	switch {
	case len(p.Files) > 0:
		return
	case p.Server.Version == "" && (worthwhile("static catalogs") || worthwhile("cache")):
		p.Note("nothing is written: there is no Puppet Server %s. %s", p.where(), p.next())
	case p.Server.Version == "":
		p.Note("nothing is written: neither static catalogs nor a cache are worthwhile, and there is no Puppet Server %s whose interpreters and memory could be set. %s", p.where(), p.next())
	case len(p.Steps) > 0: // the steps tell who writes the files
	default:
		p.Note("nothing is written: the log calls for no change")
	}
	if p.Server.Version == "" {
		p.Steps = append(p.Steps, sizing.Step{
			Do: "Collect the configuration of the Puppet Server, on its machine", Command: "fettle facts --archive puppet-server.txt",
			Check: "the same call with --root puppet-server.txt writes the files for it",
		})
	}
}

// where returns the machine that was searched, as text.
func (p *plan) where() string {
	if p.Server.Copy != "" {
		return "in the copy " + p.Server.Copy
	}
	return "here"
}

// next returns how to run this command for a server.
func (p *plan) next() string {
	if p.Server.Copy != "" {
		return "Next: fettle facts --archive FILE on the server itself, and --root FILE instead of " + p.Server.Copy
	}
	return "Next: run the same command on the server, or with --root FILE (made on the server by fettle facts --archive FILE)"
}

// mostlyCatalogs is the share of the time from which catalogs are the main load.
const mostlyCatalogs = 0.5

// catalogs adds a note with the next step if compiling catalogs takes most of the time. Neither
// static catalogs nor a cache reduce that.
func (p *plan) catalogs() {
	if share := p.log.share("catalog"); share >= mostlyCatalogs {
		p.Note("%.0f %% of the time goes to catalogs, which no cache answers: each takes an interpreter and a CPU while it compiles. Next: fettle logs puppet-reports DIR shows which nodes and resources take the time; environment_timeout = unlimited with a flush at each deployment avoids reading the manifests again; for the rest a longer runinterval, more CPUs or another compiler", 100*share)
	}
}

// defaultInterpreters returns a server's default number: CPUs minus one, from 1 to 4 (jruby-utils
// 036176f, jruby_core.clj, default-pool-size).
func defaultInterpreters(cpus int) int { return min(4, max(1, cpus-1)) }

// figure returns a value of the table.
func (p *plan) figure(row string) float64 { return p.figures.Number(row, "value") }

// forced reports whether a part is requested even if the log does not require it.
func (p *plan) forced(part string) bool { return slices.Contains(p.Parts, part) }

func (p *plan) add(group, name string, value any, unit, why string, sources ...rule.Source) {
	p.Add(sizing.Value{Group: group, Name: name, Value: value, Unit: unit, Why: why, Sources: sources})
}

// Documents cited by several values.
func resourceStatistics() rule.Source {
	return rule.Cite("puppet-caching", "Statistics by resource type")
}
func cachingInApache() rule.Source {
	return rule.Cite("puppet-caching", "Turning on Caching in Apache")
}
func staticCatalogPages() rule.Source { return rule.Cite("puppet-docs", "Static catalogs") }
func serverTuning() rule.Source       { return rule.Cite("puppet-docs", "Puppet Server tuning guide") }
func termination() rule.Source {
	return rule.Cite("puppet-docs", "External SSL termination with Puppet Server")
}

// summary adds the figures of the log by indirector, longest total time first.
func (p *plan) summary() {
	l := p.log
	p.add("log", "requests", l.Count, "", text.Sprintf("in %s of %s, %s of work; %s requested a catalog", unit.FormatSeconds(l.SpanSeconds), l.names(), unit.FormatSeconds(l.Seconds), text.Count(l.Nodes, "node")))
	for _, name := range l.byTime() {
		s := l.Of[name]
		p.add("log", name, s.Count, "", fmt.Sprintf("%s, %.1f %% of the time; %s each", unit.FormatSeconds(s.Seconds), 100*l.share(name), unit.FormatSeconds(s.Seconds/float64(s.Count))))
	}
	p.add("log", "busiest_minute", sizing.Round(l.Busiest), "requests", fmt.Sprintf("in progress, on average; %.2f of them neither file_metadata, file_metadatas nor file_content", l.BusiestRest))
}
