package puppetserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// Site is a server with its addresses, which are resolved once.
type Site struct {
	URL     *url.URL // only scheme, host and port
	Sockets []netip.AddrPort
}

// Plan has the requests of Run and the node that makes them: requests that a Puppet Server's
// front end should deny, and requests for files that its cache should have up to date. All are
// GET, and the server computes nothing for them: catalogs fail before they are compiled.
type Plan struct {
	Front Site
	// BackEnds are sockets of Puppet Server itself that are reachable not only from its front
	// end. BackEndsAt is the place where they are configured, and NoBackEnds the reason that
	// they are unknown, or "".
	BackEnds   []Site
	BackEndsAt string
	NoBackEnds string
	// TLS has the certificate of a node, and Node is its name.
	TLS  *tls.Config
	Node string
	// Environments have the file; the first is used for all other requests. At least one.
	Environments []string
	// File is a file of the server, as MOUNT/PATH: modules/ssh/sshd_config. "" means the first
	// one of the plug-ins that agents get.
	File string
	// UserAgent is the User-Agent header of the agents; "" if unknown.
	UserAgent string
	// Mark makes the names of a run unique, so that no cache has them.
	Mark    string
	Timeout time.Duration // of each request
}

// The outcomes of a request.
const (
	denied  = "refused"
	granted = "given"
)

// The answers of Run, by name.
const (
	ForeignCatalog     = "foreign_catalog"     // another node's, to the node
	AnonymousCatalog   = "anonymous_catalog"   // without a certificate
	ForgedAlone        = "forged_alone"        // with forged headers and without a certificate
	ForgedBeside       = "forged_beside"       // with forged headers and a certificate
	BelievingBackEnds  = "believing_back_ends" // back ends that accept forged headers
	AnonymousMetadata  = "anonymous_metadata"  // of a file that is in no cache
	CachedMetadata     = "cached_metadata"     // of a cached file, if there is a cache
	CachedAnswer       = "cached_answer"       // current or stale
	CachedAge          = "cached_age_seconds"  // by its Age header
	CacheLifetime      = "cache_lifetime_seconds"
	CachedEnvironments = "cached_environments" // apart or mixed
)

// The outcomes for a cached response.
const (
	current = "current"
	stale   = "stale"
	apart   = "apart"
	mixed   = "mixed"
)

// Requests returns the largest number of requests that Run makes.
func (p Plan) Requests() int {
	return 14 + 2*max(0, len(p.Environments)-1) + len(p.BackEnds)
}

// environmentName matches the names of environments that Puppet accepts.
var environmentName = text.LazyRegexp(`^[A-Za-z0-9_]{1,100}$`)

// Check returns the fault of a plan.
func (p Plan) Check() error {
	for _, e := range p.Environments {
		if !environmentName().MatchString(e) {
			return fmt.Errorf("environment %q: want letters, digits and _", e)
		}
	}
	mount, file, ok := strings.Cut(p.File, "/")
	if p.File != "" && (!ok || mount == "" || file == "" || strings.ContainsAny(p.File, "?#%\\\x00\r\n") || strings.Contains("/"+p.File+"/", "/../")) {
		return fmt.Errorf("file %q: want MOUNT/PATH, such as modules/ssh/sshd_config", p.File)
	}
	return nil
}

// Run makes the requests of a plan. An answer that could not be determined is unknown, with
// the reason.
func Run(ctx context.Context, p Plan) map[string]fact.Answer {
	r := &run{Plan: p, ctx: ctx, answers: map[string]fact.Answer{}}
	r.catalogs()
	r.backEnds()
	r.cache()
	return r.answers
}

type run struct {
	Plan
	ctx     context.Context
	answers map[string]fact.Answer
	// serves is true if the node would get its own catalog, so that Puppet Server runs.
	serves bool
}

// set records an answer; why is the reason if it is unknown, or "".
func (r *run) set(name string, value any, at, why string) {
	if why != "" {
		value = nil
	}
	r.answers[name] = fact.Answer{Value: value, At: at, Unknown: why}
}

// other returns the name of a node that does not exist.
func (r *run) other() string { return "fettle-" + r.Mark + ".invalid" }
