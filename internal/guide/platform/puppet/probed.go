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
			input(puppetserver.ForeignCatalog, fact.Text, "Whether another node's catalog is refused or given to a node's certificate."),
			input(puppetserver.AnonymousCatalog, fact.Text, "Whether a catalog is refused or given without a certificate."),
			input(puppetserver.ForgedAlone, fact.Text, "Whether a catalog is refused or given without a certificate, but with headers that name its node (X-Client-DN)."),
			input(puppetserver.ForgedBeside, fact.Text, "Whether another node's catalog is refused or given to a node's certificate with headers that name the other node."),
			input(puppetserver.BelievingBackEnds, fact.List, "Sockets of Puppet Server that other machines reach and that give a catalog to such headers."),
			input(puppetserver.AnonymousMetadata, fact.Text, "Whether a file's metadata is refused or given without a certificate, for a query whose answer is not in any cache."),
			input(puppetserver.CachedMetadata, fact.Text, "Whether a file's metadata is refused or given without a certificate, for the query of agents that was just answered with a certificate."),
			input(puppetserver.CachedAnswer, fact.Text, "Whether the metadata for the query of agents is current or stale, compared with the server."),
			seconds(input(puppetserver.CachedAge, fact.Number, "Age of that answer, if its headers have one.")),
			seconds(input(puppetserver.CacheLifetime, fact.Number, "How long caches may keep that answer, according to its headers (Cache-Control, Expires).")),
			input(puppetserver.CachedEnvironments, fact.Text, "Whether a cache keeps the metadata of two environments apart, or mixes them."),
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
