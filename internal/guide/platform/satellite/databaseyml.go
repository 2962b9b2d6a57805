package satellite

import (
	"net/url"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// databaseFile configures Foreman's connection to its database.
const databaseFile = "/etc/foreman/database.yml"

// defaultPool is ActiveRecord's default number of connections, in every Rails of Satellite 6
// (ConnectionPool#initialize, from Rails 6.1 on HashConfig#pool).
const defaultPool = 5

// production returns a value of Foreman's production database. The key url takes precedence over
// other keys (ActiveRecord, UrlConfig).
func (s *satellite) production(key string) (v entry, ok bool, f file) {
	e, f := s.yaml(databaseFile)
	if !f.exists || f.unknown != "" {
		return entry{}, false, f
	}
	v, ok = e["production/"+key]
	if address, given := e["production/url"]; given {
		u, err := url.Parse(address.text)
		if err != nil {
			f.unknown = f.at(address.line) + ": invalid url"
			return entry{}, false, f
		}
		of := u.Query().Get(key)
		switch key {
		case "host":
			of = u.Hostname()
		case "database":
			of = strings.TrimPrefix(u.Path, "/")
		}
		if of != "" {
			v, ok = entry{of, address.line}, true
		}
	}
	// The file is a Ruby template, which only Foreman's own Ruby can evaluate.
	if strings.Contains(v.text, "<%") || !ok && strings.Contains(f.text, "<%") {
		f.unknown = databaseFile + ": a Ruby template (<%)"
		return entry{}, false, f
	}
	return v, ok, f
}

// dbPool answers with the pool of the production database.
func (s *satellite) dbPool() fact.Answer {
	v, ok, f := s.production("pool")
	switch {
	case ok:
		return platform.Typed(v.text, fact.Number, f.at(v.line))
	case !f.exists || f.unknown != "":
		return f.answer()
	}
	e, _ := s.yaml(databaseFile)
	for key := range e {
		if of, name, _ := strings.Cut(key, "/"); of == "production" && name != "" && !strings.Contains(name, "/") {
			return fact.Answer{Value: float64(defaultPool), At: "ActiveRecord's default, as " + databaseFile + " has no pool"}
		}
	}
	return fact.Answer{Unknown: databaseFile + " has no production database", At: f.path}
}
