package puppet

import (
	"context"

	"fettle.dev/fettle/internal/component/puppetserver/probe"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
)

const front = "puppet_front"

// FrontSource answers the inputs that begin with "puppet_front.": what a Puppet Server and
// what stands in front of it have said when they were asked (Subject.Probe).
func FrontSource() platform.Source {
	input := func(name string, t rule.Type, doc string) rule.Input {
		return rule.Input{Name: front + "." + name, Type: t, Doc: doc}
	}
	seconds := func(in rule.Input) rule.Input { in.Unit = "s"; return in }
	return platform.Source{
		Prefix: front,
		Inputs: []rule.Input{
			input("asked", rule.Truth, "Somebody wanted it asked (fettle check puppet --probe)."),
			input(probe.ForeignCatalog, rule.Text, "Another node's catalog, asked for with a node's certificate: refused, or given."),
			input(probe.AnonymousCatalog, rule.Text, "A catalog, asked for without a certificate."),
			input(probe.ForgedAlone, rule.Text, "A catalog, asked for without a certificate and with headers that name its node (X-Client-DN)."),
			input(probe.ForgedBeside, rule.Text, "Another node's catalog, asked for with a node's certificate and headers that name the other one."),
			input(probe.BelievingBackEnds, rule.List, "Sockets of Puppet Server itself that others reach, and that give a catalog to such headers."),
			input(probe.AnonymousMetadata, rule.Text, "The metadata of a file, asked for without a certificate by a query that no cache has."),
			input(probe.CachedMetadata, rule.Text, "The same by the query of agents, which had just been answered to a certificate."),
			input(probe.CachedAnswer, rule.Text, "The metadata by the query of agents, against what the server says now: current, or stale."),
			seconds(input(probe.CachedAge, rule.Number, "Age of that answer, where it says one.")),
			seconds(input(probe.CacheLifetime, rule.Number, "How long that answer may be kept by what it says itself (Cache-Control, Expires).")),
			input(probe.CachedEnvironments, rule.Text, "The metadata of one environment, asked for in another one: apart, or mixed."),
		},
		Open: func(ctx context.Context, m *platform.Subject) platform.Answers {
			known := &platform.Known{} // what was not told is not there
			known.Give(front+".asked", m.Probe != nil, "")
			if m.Probe != nil {
				for name, a := range m.Probe(ctx) {
					known.Put(a, front+"."+name)
				}
			}
			return known
		},
	}
}
