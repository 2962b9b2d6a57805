// Package puppet sizes a Puppet Server from what its log of requests says: whether
// catalogs should carry the metadata of files, whether a cache in front of it pays, and
// how many interpreters and how much memory the rest takes; with the files for the server
// and the web server that there are. The server's own configuration and what the log says
// are handed in.
package puppet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/unit"
)

// Wish is a server that is to answer what its log has, with less.
type Wish struct {
	Log      sizing.Log
	CPUs     int
	RAM      unit.Size
	FrontEnd string   // nginx or apache; "" for the one that is installed
	Parts    []string // what is written whatever the log says: static, cache, jruby
	Seconds  int      // for which the cache may give an answer
	Port     int      // of the server behind the front end
	Certname string   // "" for the server's own

	// Requests and Server are handed in before Size is called.
	Requests *Requests
	Server   Server

	inputs []*sizing.Input
}

// New is a wish with the defaults.
func New() *Wish {
	w := &Wish{Seconds: 300, Port: 8139}
	w.inputs = append(w.Log.Inputs("log of the server's requests; that of the server here where it is left out"),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the machine", 1, 1024),
		sizing.Size(&w.RAM, "ram", "memory of the machine, or of what Puppet Server may have of it", 512*unit.MiB, 64*unit.TiB),
		sizing.Word(&w.FrontEnd, "front-end", "the web server for the cache; the one that is installed, or nginx, where it is left out", "nginx", "apache"),
		sizing.Words(&w.Parts, "parts", "what is written though the log does not ask for it: static, cache, jruby", "static", "cache", "jruby"),
		sizing.Count(&w.Seconds, "cache-seconds", "for how long the cache may give an answer: a changed file may be missed for as long", 1, 86_400).Because("after a day agents have come some fifty times"),
		sizing.Count(&w.Port, "port", "port of the server on the loopback, behind the front end", 1024, 65_535).Because("below it needs root"),
		sizing.Text(&w.Certname, "certname", "name of the server's certificate; what its configuration says, or the only one that it has", certname),
	)
	return w
}

func certname(s string) error {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return fmt.Errorf("%q is no certname: want small letters, digits, points, - and _", s)
		}
	}
	return nil
}

// Inputs implements sizing.Wish.
func (w *Wish) Inputs() []*sizing.Input { return w.inputs }

// plan is a wish that is being worked out.
type plan struct {
	*Wish
	*sizing.Result
	log     *Requests
	figures *sizing.Edition

	static bool // catalogs will carry metadata, or do
	cached bool
}

// Size implements sizing.Wish.
func (w *Wish) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	switch {
	case w.Requests == nil:
		return nil, sizing.Instead("log", "/var/log/puppetlabs/puppetserver/puppetserver-access.log", "which? a log of the server's requests")
	case w.Requests.Count == 0:
		return nil, sizing.Bad("log", "%s has no request", w.Requests.names())
	case w.CPUs == 0:
		return nil, sizing.Instead("cpus", "8", "how many? for example 8")
	case w.RAM == 0:
		return nil, sizing.Instead("ram", "16GiB", "how much? for example 16GiB")
	case len(w.Requests.Of) == 0:
		return nil, sizing.Bad("log", "none of the %d requests in %s is Puppet's: name the log of a Puppet Server, or of the web server in front of it", w.Requests.Count, w.Requests.names())
	case w.Requests.Seconds == 0:
		return nil, sizing.Bad("log", "%s does not say how long requests took: %%D in the format of a log does (P06)", w.Requests.names())
	}
	e, err := sizing.Of(f, "puppet-requests", "")
	if err != nil {
		return nil, err
	}
	if w.Server.Version != "" && w.Server.Interpreters == 0 {
		w.Server.Interpreters = defaultInterpreters(w.CPUs) // the copy does not say how many CPUs it has
	}
	p := &plan{Wish: w, Result: sizing.NewResult("puppet", w.Server.Version), log: w.Requests, figures: e}
	p.Heard(w.inputs)
	p.said()
	for _, step := range []func() error{p.staticCatalogs, p.cache, p.interpreters} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	p.catalogs()
	p.nothingWritten()
	return p.Result, nil
}

// nothingWritten notes why there is no file, and what the next step is.
func (p *plan) nothingWritten() {
	pays := func(group string) bool {
		v := p.Value(group, "verdict")
		return v != nil && v.Value == "pays"
	}
	switch {
	case len(p.Files) > 0:
	case p.Server.Version == "" && (pays("static catalogs") || pays("cache")):
		p.Note("nothing is written: no Puppet Server is %s to write files for. %s", p.where(), p.next())
	case p.Server.Version == "":
		p.Note("nothing is written: neither static catalogs nor a cache pay, and no Puppet Server is %s whose interpreters and memory could be set. %s", p.where(), p.next())
	case len(p.Steps) > 0: // the steps say who writes
	default:
		p.Note("nothing is written: the log asks for none of it")
	}
}

// where is the machine that was looked at.
func (p *plan) where() string {
	if p.Server.Copy != "" {
		return "in the copy " + p.Server.Copy
	}
	return "here"
}

// next is how a server comes to be there.
func (p *plan) next() string {
	if p.Server.Copy != "" {
		return "Next: fettle facts --archive FILE on the server itself, and --root FILE in the place of " + p.Server.Copy
	}
	return "Next: the same call on the server, or with --root and a copy of it (fettle facts --archive FILE there)"
}

// mostlyCatalogs is the share of all time from which catalogs are what to look at.
const mostlyCatalogs = 0.5

// catalogs notes what to do where compiling them takes most of the time, which neither
// static catalogs nor a cache save.
func (p *plan) catalogs() {
	if share := p.log.share("catalog"); share >= mostlyCatalogs {
		p.Note("%.0f %% of the time is catalogs, which no cache answers: each takes an interpreter and a CPU for as long as it compiles. Next: fettle logs puppet-reports DIR says which nodes and resources take the time; environment_timeout = unlimited with a flush at each deployment spares reading the manifests again; a longer runinterval, more CPUs or a further compiler for the rest", 100*share)
	}
}

// defaultInterpreters is how many a server takes by itself: one less than the CPUs, 1 at
// the least and 4 at the most (jruby-utils 036176f, jruby_core.clj, default-pool-size).
func defaultInterpreters(cpus int) int { return min(4, max(1, cpus-1)) }

// figure is one of the table's.
func (p *plan) figure(row string) float64 { return p.figures.Number(row, "value") }

// forced says whether a part is wanted whatever the log says.
func (p *plan) forced(part string) bool { return slices.Contains(p.Parts, part) }

// add adds a value.
func (p *plan) add(group, name string, value any, unit, why string, sources ...rule.Source) {
	p.Add(sizing.Value{Group: group, Name: name, Value: value, Unit: unit, Why: why, Sources: sources})
}

var (
	source003    = rule.Source{Document: "003", Section: "Statistics by resource type"}
	caching003   = rule.Source{Document: "003", Section: "Turning on Caching in Apache"}
	staticPages  = rule.Source{Document: "help.puppet.com", Section: "Static catalogs"}
	tuningGuide  = rule.Source{Document: "help.puppet.com", Section: "Puppet Server tuning guide"}
	codeCache    = rule.Source{Document: "help.puppet.com", Section: "Puppet Server reserved code cache"}
	terminations = rule.Source{Document: "help.puppet.com", Section: "External SSL termination with Puppet Server"}
)

// said is what the log says, the most time first.
func (p *plan) said() {
	l := p.log
	p.add("log", "requests", l.Count, "", fmt.Sprintf("in %s of %s, %s of work; %d nodes asked for a catalog", span(l.SpanSeconds), l.names(), span(l.Seconds), l.Nodes))
	for _, name := range l.byTime() {
		s := l.Of[name]
		p.add("log", name, s.Count, "", fmt.Sprintf("%s, %.1f %% of the time; %s each", span(s.Seconds), 100*l.share(name), span(s.Seconds/float64(s.Count))))
	}
	p.add("log", "busiest_minute", sizing.Round(l.Busiest), "requests", fmt.Sprintf("at work at a time, on average; %.2f of them neither file_metadata, file_metadatas nor file_content", l.BusiestRest))
}

// span is a duration for people.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.2f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.1f min", d.Minutes())
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", 1e3*seconds)
}
