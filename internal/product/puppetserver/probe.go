// probe asks a Puppet Server, by what stands in front of it, for what should be
// refused, and its cache for what should be up to date. All of its requests are GET, and
// none is for anything that the server would have to make: the catalogs that it asks for
// fail before they are compiled.

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

// Site is a server, and where it is: who answers for its name later leads nowhere else.
type Site struct {
	URL     *url.URL // of which scheme, host and port count
	Sockets []netip.AddrPort
}

// Plan is who is asked, and as whom.
type Plan struct {
	Front Site
	// BackEnds are sockets of Puppet Server itself that others than its front end may
	// reach. BackEndsAt is where they are from, and NoBackEnds why nobody knows of any; ""
	// where all are known.
	BackEnds   []Site
	BackEndsAt string
	NoBackEnds string
	// TLS has the certificate of a node, and Node is its name.
	TLS  *tls.Config
	Node string
	// Environments have the file; the first is asked about everything. At least one.
	Environments []string
	// File is a file of the server, as MOUNT/PATH: modules/ssh/sshd_config. "" for the
	// first one of the plug-ins that agents get.
	File string
	// UserAgent is sent as the agents send it; "" where nobody has said how.
	UserAgent string
	// Mark is in the names that a run makes up, so that no cache knows them.
	Mark    string
	Timeout time.Duration // of each request
}

// What is told of a request.
const (
	denied = "refused"
	granted   = "given"
)

// The answers of Run, by name.
const (
	ForeignCatalog     = "foreign_catalog"     // another node's, to the node
	AnonymousCatalog   = "anonymous_catalog"   // to nobody's certificate
	ForgedAlone        = "forged_alone"        // to forged headers without a certificate
	ForgedBeside       = "forged_beside"       // to forged headers beside one
	BelievingBackEnds  = "believing_back_ends" // those that give it to forged headers
	AnonymousMetadata  = "anonymous_metadata"  // of a file that is in no cache
	CachedMetadata     = "cached_metadata"     // of one that is, if there is a cache
	CachedAnswer       = "cached_answer"       // current or stale
	CachedAge          = "cached_age_seconds"  // what the answer says of itself
	CacheLifetime      = "cache_lifetime_seconds"
	CachedEnvironments = "cached_environments" // apart or mixed
)

// What is told of an answer of a cache.
const (
	current = "current"
	stale   = "stale"
	apart   = "apart"
	mixed   = "mixed"
)

// Requests is how many Run makes at the most.
func (p Plan) Requests() int {
	return 14 + 2*max(0, len(p.Environments)-1) + len(p.BackEnds)
}

// environmentName is how Puppet has it.
var environmentName = text.LazyRegexp(`^[A-Za-z0-9_]{1,100}$`)

// Check says what is wrong with a plan.
func (p Plan) Check() error {
	for _, e := range p.Environments {
		if !environmentName().MatchString(e) {
			return fmt.Errorf("environment %q: want letters, digits and _", e)
		}
	}
	mount, file, ok := strings.Cut(p.File, "/")
	if p.File != "" && (!ok || mount == "" || file == "" || strings.ContainsAny(p.File, "?#%\\\x00\r\n") || strings.Contains("/"+p.File+"/", "/../")) {
		return fmt.Errorf("file %q: want MOUNT/PATH, as modules/ssh/sshd_config", p.File)
	}
	return nil
}

// Run asks. What could not be told is unknown, with its reason.
func Run(ctx context.Context, p Plan) map[string]fact.Answer {
	r := &run{Plan: p, ctx: ctx, told: map[string]fact.Answer{}}
	r.catalogs()
	r.backEnds()
	r.cache()
	return r.told
}

type run struct {
	Plan
	ctx  context.Context
	told map[string]fact.Answer
	// serves says that the node would have had its own catalog: Puppet Server runs.
	serves bool
}

// tell keeps the answer to a name; why is what makes it unknown, or "".
func (r *run) tell(name string, value any, at, why string) {
	if why != "" {
		value = nil
	}
	r.told[name] = fact.Answer{Value: value, At: at, Unknown: why}
}

// other is a node that there is not.
func (r *run) other() string { return "fettle-" + r.Mark + ".invalid" }
