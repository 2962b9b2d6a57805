package puppet

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
)

// cache decides whether a cache in front of the server is worthwhile. With static catalogs it
// considers only the requests that these leave.
func (p *plan) cache() error {
	names, beside := []string{"file_metadatas"}, " with static catalogs"
	if !p.static {
		names, beside = append(names, "file_metadata"), ""
	}
	count, share := p.log.count(names...), 100*p.log.share(names...)
	hits := p.log.hits(float64(p.Seconds), names...)
	rate := 0.0
	if count > 0 {
		rate = 100 * float64(hits) / float64(count)
	}
	figures := internaltext.Sprintf("%s%s: %s, %.1f %% of all time; a cache that keeps responses for %d s would have answered at least %d of them (%.0f %%)", strings.Join(names, " and "), beside, internaltext.Count(count, "request"), share, p.Seconds, hits, rate)
	verdict := func(v, why string) {
		p.add("cache", "verdict", v, "", figures+why, cachingInApache(), termination())
	}
	s := p.Server
	front := p.FrontEnd
	if front == "" {
		front = "nginx"
		if s.Nginx == "" && s.Apache != "" {
			front = "apache"
		}
	}
	switch {
	case (share < p.figure("share percent") || rate < p.figure("hits percent")) && !p.forced("cache"):
		verdict("not worthwhile", internaltext.Sprintf("; a cache is worth the risk of stale answers only from %.0f %% of the time and if it answers %.0f %% of the requests", p.figure("share percent"), p.figure("hits percent")))
	case s.Version == "":
		verdict("worthwhile", "; no Puppet Server found to write files for")
	case s.Enterprise:
		verdict("not written", "; Puppet Enterprise's own services connect to the port that would change")
	case olderThan(s.Version, 5):
		verdict("not with this version", "; the files need Puppet Server 5 or later; this is "+s.Version)
	case s.Satellite:
		verdict("not written", "; Satellite's installer owns the server's port and its web server")
	case s.FileRule != "":
		verdict("not possible", "; "+s.FileRule+", and a cache would serve them to all clients")
	case s.Webserver == "":
		verdict("not written", "; "+s.WebserverNo)
	case s.HeadersAt != "" && !s.Headers:
		verdict("not written", "; "+s.HeadersAt+" sets allow-header-cert-info to false; the server rejects a setting in two files, so remove that line")
	case s.Certificate == "":
		return sizing.Bad("certname", "not given, and not found: puppet.conf does not name the server's certificate, and ssldir contains several certificates or none")
	case front == "nginx" && olderThan(s.Nginx, 1, 13, 5):
		return sizing.Bad("front-end", "nginx %s cannot pass a certificate on: 1.13.5 can ($ssl_client_escaped_cert)", s.Nginx)
	case front == "apache" && olderThan(s.Apache, 2, 4, 10):
		return sizing.Bad("front-end", "httpd %s does not support expressions as values of headers: 2.4.10 does", s.Apache)
	default:
		p.cached = true
		verdict("worthwhile", "")
		p.frontEnd(front)
	}
	return nil
}

// olderThan reports whether a version is known and older than another one.
func olderThan(version string, than ...int) bool {
	var have [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); n == 0 {
		return false
	}
	for i, want := range than {
		if have[i] != want {
			return have[i] < want
		}
	}
	return false
}

// byFettle is the prefix of each line that withReasons writes.
const byFettle = "# fettle size puppet: "

// withReasons puts the reasons for a change at the top of a file's text, and removes those of an
// earlier run. A line that begins with # is a comment both in HOCON and in a service's file of
// variables.
func withReasons(text string, reasons ...string) string {
	for strings.HasPrefix(text, byFettle) {
		_, text, _ = strings.Cut(text, "\n")
	}
	return byFettle + strings.Join(reasons, "\n"+byFettle) + "\n" + text
}

// HeadersFile returns the name of the file that makes the server trust the front end's headers.
func HeadersFile(options string) string { return options + "/header-certificates.conf" }
