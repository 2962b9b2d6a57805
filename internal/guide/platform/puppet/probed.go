package puppet

import (
	"context"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/product/puppetserver"
)

const front = "puppet_front"

// FrontSource answers the inputs "puppet_front.*": the responses of a Puppet Server and of its
// front-end server (Subject.Probe).
func FrontSource() platform.Source {
	input := func(name string, t fact.Type, doc string) fact.Input {
		return fact.Input{Name: front + "." + name, Type: t, Doc: doc}
	}
	seconds := func(in fact.Input) fact.Input { in.Unit = "s"; return in }
	return platform.Source{
		Prefix: front,
		Inputs: []fact.Input{
			input("asked", fact.Truth, "The probe was requested (fettle check puppet --probe)."),
			input(puppetserver.ForeignCatalog, fact.Text, "Another node's catalog, requested with a node's certificate: refused, or given."),
			input(puppetserver.AnonymousCatalog, fact.Text, "A catalog, requested without a certificate."),
			input(puppetserver.ForgedAlone, fact.Text, "A catalog, requested without a certificate and with headers that name its node (X-Client-DN)."),
			input(puppetserver.ForgedBeside, fact.Text, "Another node's catalog, requested with a node's certificate and headers that name the other node."),
			input(puppetserver.BelievingBackEnds, fact.List, "Sockets of Puppet Server itself that others reach, and that give a catalog to such headers."),
			input(puppetserver.AnonymousMetadata, fact.Text, "The metadata of a file, requested without a certificate with a query that no cache has."),
			input(puppetserver.CachedMetadata, fact.Text, "The same by the query of agents, which had just been answered to a certificate."),
			input(puppetserver.CachedAnswer, fact.Text, "The metadata by the query of agents, against what the server says now: current, or stale."),
			seconds(input(puppetserver.CachedAge, fact.Number, "Age of that answer, if its headers have one.")),
			seconds(input(puppetserver.CacheLifetime, fact.Number, "How long that answer may be kept by what it says itself (Cache-Control, Expires).")),
			input(puppetserver.CachedEnvironments, fact.Text, "The metadata of one environment, requested in another one: apart, or mixed."),
		},
		Open: func(ctx context.Context, m *platform.Subject) platform.Answers {
			known := &platform.Known{} // other inputs are absent
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
