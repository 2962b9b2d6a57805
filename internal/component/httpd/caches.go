package httpd

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/component/conf"
)

// clientHeaders are those by which a back end is told who a client is (Puppet Server's
// external SSL termination).
var clientHeaders = []string{"X-Client-Verify", "X-Client-DN", "X-Client-Cert"}

// effective are the lines of a directive in a section or in those around it, the
// innermost section that has one first.
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

// around is the scope outside of a virtual host, or the virtual host around a section.
func around(scope string) string {
	for _, section := range []string{"/location ", "/locationmatch ", "/proxy ", "/directory "} {
		if i := strings.Index(scope, section); i >= 0 {
			return scope[:i+1]
		}
	}
	return ""
}

// certificateFaults are what is wrong with virtual hosts that ask clients for a
// certificate and keep answers, or tell a back end who the client is: an answer that
// somebody without a certificate gets, or who asked for another thing, and a header that
// the client may forge.
func (s settings) certificateFaults() []string {
	faults := []string{}
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
			// mod_headers takes all lines of a virtual host and of its sections together.
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
					fault(p, "%s of the client is passed on as it is", name)
				}
			}
		case "cacheenable":
			if last(scope, "cacheignorequerystring", "off") == "on" {
				fault(p, "the cache ignores the query string")
			}
			if last(scope, "cachequickhandler", "on") == "on" {
				fault(p, "what is kept is given without a look at who asks (CacheQuickHandler)")
			}
			asked := slices.ContainsFunc(s.effective(scope, "require"), func(n int) bool {
				v := strings.ToLower(s.values[n])
				return strings.Contains(v, "ssl_client_verify") || strings.Contains(v, "ssl-verify-client")
			})
			if verify != "require" && !asked {
				fault(p, "what is kept is given to clients without a certificate (%s)", s.values[n])
			}
		}
	}
	return faults
}
