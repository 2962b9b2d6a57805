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

// Site is a server to probe, with its addresses.
type Site struct {
	URL     *url.URL // scheme, host and port only
	Sockets []netip.AddrPort
}

// Plan describes the requests of Run: some that a Puppet Server's front end should deny, and some
// for files that its cache should serve up to date. All are GET and cause no computation: catalog
// requests fail before compilation.
type Plan struct {
	Front Site
	// BackEnds are the Puppet Server sockets that other machines than the front end can reach.
	// BackEndsAt is the position of their configuration. NoBackEnds says why they are unknown, or
	// is "".
	BackEnds   []Site
	BackEndsAt string
	NoBackEnds string
	// TLS has the certificate of the node that makes the requests; Node is the node's name.
	TLS  *tls.Config
	Node string
	// Environments are environments that contain the file; the first is used for all other
	// requests. At least one is required.
	Environments []string
	// File is a file on the server, as MOUNT/PATH, such as modules/ssh/sshd_config. "" means the
	// first plug-in file that agents get.
	File string
	// UserAgent is the agents' User-Agent header; "" if unknown.
	UserAgent string
	// Mark makes the names in this run's requests unique, so no cache knows them.
	Mark    string
	Timeout time.Duration // per request
}

// Outcomes of a request.
const (
	denied  = "refused"
	granted = "given"
)

// Names of Run's answers.
const (
	ForeignCatalog     = "foreign_catalog"     // another node's catalog, requested with the node's certificate
	AnonymousCatalog   = "anonymous_catalog"   // requested without a certificate
	ForgedAlone        = "forged_alone"        // forged headers, no certificate
	ForgedBeside       = "forged_beside"       // forged headers and a certificate
	BelievingBackEnds  = "believing_back_ends" // back ends that trust forged headers
	AnonymousMetadata  = "anonymous_metadata"  // for a file that no cache has
	CachedMetadata     = "cached_metadata"     // for a cached file, if there is a cache
	CachedAnswer       = "cached_answer"       // current or stale
	CachedAge          = "cached_age_seconds"  // from the Age header
	CacheLifetime      = "cache_lifetime_seconds"
	CachedEnvironments = "cached_environments" // "apart" or "mixed"
)

// Outcomes for a cached response.
const (
	current = "current"
	stale   = "stale"
	apart   = "apart"
	mixed   = "mixed"
)

// Requests returns the maximum number of requests that Run makes.
func (p Plan) Requests() int {
	return 14 + 2*max(0, len(p.Environments)-1) + len(p.BackEnds)
}

// environmentName matches the names of environments that Puppet accepts.
var environmentName = text.LazyRegexp(`^[A-Za-z0-9_]{1,100}$`)

// Check returns an error for an invalid plan.
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

// Run makes the requests of a plan and returns the answers by name. An undetermined answer is
// unknown, with the reason.
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
	// serves is true if the node may get its own catalog, which shows that Puppet Server runs.
	serves bool
}

// set records an answer; a non-empty why makes it unknown.
func (r *run) set(name string, value any, at, why string) {
	if why != "" {
		value = nil
	}
	r.answers[name] = fact.Answer{Value: value, At: at, Unknown: why}
}

// other returns the name of a node that does not exist.
func (r *run) other() string { return "fettle-" + r.Mark + ".invalid" }
