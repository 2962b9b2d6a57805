// Package postgresql knows the clusters of PostgreSQL: their configuration as the
// server reads it, what the server runs with, and how it takes a new value.
package postgresql

import (
	"context"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
)

// Product is PostgreSQL.
var Product = product.Product{
	Name:       "postgresql",
	Doc:        "PostgreSQL, each cluster of a machine",
	Parameters: parameters,
	Inputs:     inputs,
	Find:       find,
	Packages:   []string{"postgresql-server", "postgresql-[0-9]*", "postgresql[0-9]*-server", "rh-postgresql*-postgresql-server"},
	Kind: func(h *host.Host) setting.Kind {
		c := newControl()
		return conf.New(h, conf.Product{
			Name:      "postgresql",
			Syntax:    syntax{},
			Roots:     rootsOf,
			Instances: instances,
			Winner:    winner,
			Canonical: canonical,
			Check:     check,
			Activation: func(ctx context.Context, h *host.Host, main, key string) (setting.Activation, bool) {
				return c.Activation(ctx, h, main, needsRestart(ctx, h, main, key))
			},
			Activate: c.Activate,
			Effect:   effect,
		})
	},
}

func instances(h *host.Host) ([]conf.Instance, error) {
	all, err := clusters(h)
	out := make([]conf.Instance, len(all))
	for i, c := range all {
		out[i] = c.Instance
	}
	return out, err
}

func winner(h *host.Host, main, key string) (conf.Place, bool, error) {
	s, err := readSettings(h, main)
	if err != nil {
		return conf.Place{}, false, err
	}
	p, ok := s.winner(key)
	return p, ok, nil
}
