package httpd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// clientHeaders are the headers that pass a client's identity to a back end (Puppet Server's
// external SSL termination).
var clientHeaders = []string{"X-Client-Verify", "X-Client-DN", "X-Client-Cert"}

// effective returns the indices of a directive's lines in the innermost section that has the
// directive: the scope or a section around it.
func (s settings) effective(scope, directive string) []int {
	for {
		var found []int
		for n, p := range s.all {
			if p.Key == scope+directive {
				found = append(found, n)
			}
		}
		if len(found) > 0 || scope == "" {
			return found
		}
		scope = around(scope)
	}
}

// sections are the sections that may stand in a virtual host or inside each other.
var sections = append([]string{"/location ", "/locationmatch ", "/proxy ", "/directory "}, perRequest...)

// perRequest are the sections with a condition that httpd evaluates for each request.
var perRequest = []string{"/if ", "/elseif ", "/else "}

// around returns the scope that encloses a virtual host, or a section inside one.
func around(scope string) string {
	last := -1
	for _, section := range sections {
		last = max(last, strings.LastIndex(scope, section))
	}
	return scope[:last+1]
}

// certificateDirectives are the directives that certificateFaults reads.
var certificateDirectives = []string{"sslverifyclient", "requestheader", "cacheenable", "cacheignorequerystring", "cachequickhandler", "require"}

// certificatesDecided returns an error if a virtual host requests certificates and an unknown
// condition affects certificateFaults.
func (s settings) certificatesDecided() error {
	var doubt error
	verifies := false
	for n, p := range s.all {
		at := strings.LastIndexByte(p.Key, '/')
		scope, directive := p.Key[:at+1], p.Key[at+1:]
		if !slices.Contains(certificateDirectives, directive) {
			continue
		}
		verifies = verifies || directive == "sslverifyclient" && !strings.EqualFold(s.values[n], "none")
		inIf := slices.ContainsFunc(perRequest, func(section string) bool { return strings.Contains("/"+scope, section) })
		switch {
		case doubt != nil:
		case s.unsure[n] != "":
			doubt = errors.New(s.unsure[n])
		case inIf && directive != "require":
			doubt = fmt.Errorf("%s: inside <If>, which is evaluated per request", p)
		}
	}
	if !verifies {
		return nil
	}
	return doubt
}

// certificateFaults returns the faults of virtual hosts that request client certificates: a cached
// response may reach a client without a certificate or for another request, and a client may forge
// a header that passes its identity to a back end. It returns an error if the result depends on the
// request (<If>) or on an unknown condition.
func (s settings) certificateFaults() ([]string, error) {
	faults := []string{}
	if err := s.certificatesDecided(); err != nil {
		return nil, err
	}
	last := func(scope, directive, unless string) string {
		if n := s.effective(scope, directive); len(n) > 0 {
			return strings.ToLower(s.values[n[len(n)-1]])
		}
		return unless
	}
	fault := func(p conf.Place, format string, args ...any) {
		faults = append(faults, p.String()+": "+fmt.Sprintf(format, args...))
	}
	for n, p := range s.all {
		scope, directive := p.Key[:strings.LastIndexByte(p.Key, '/')+1], p.Key[strings.LastIndexByte(p.Key, '/')+1:]
		verify := last(scope, "sslverifyclient", "none")
		if verify == "none" {
			continue
		}
		switch directive {
		case "sslverifyclient":
			// mod_headers applies all lines of a virtual host and its sections.
			set := func(name string) bool {
				for n, q := range s.all {
					w := words(s.values[n])
					if q.Key == scope+"requestheader" && len(w) > 1 && (w[0] == "set" || w[0] == "unset") && strings.EqualFold(w[1], name) {
						return true
					}
				}
				return false
			}
			if !slices.ContainsFunc(clientHeaders, set) {
				continue
			}
			for _, name := range clientHeaders {
				if !set(name) {
					fault(p, "the client's %s is passed on unchanged", name)
				}
			}
		case "cacheenable":
			if last(scope, "cacheignorequerystring", "off") == "on" {
				fault(p, "the cache ignores the query string")
			}
			if last(scope, "cachequickhandler", "on") == "on" {
				fault(p, "cached responses are served without access checks (CacheQuickHandler)")
			}
			asked := slices.ContainsFunc(s.effective(scope, "require"), func(n int) bool {
				v := strings.ToLower(s.values[n])
				return strings.Contains(v, "ssl_client_verify") || strings.Contains(v, "ssl-verify-client")
			})
			if verify != "require" && !asked {
				fault(p, "cached responses are served to clients without a certificate (%s)", s.values[n])
			}
		}
	}
	return faults, nil
}
