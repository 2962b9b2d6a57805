package puppetserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const metadataPath = "/puppet/v3/file_metadata/"

// metadata is Puppet's JSON description of a file (file_serving/metadata.rb).
type metadata struct {
	RelativePath string `json:"relative_path"`
	Type         string `json:"type"`
	Links        string `json:"links"`
	Checksum     struct {
		Type, Value string
	} `json:"checksum"`
}

// sum returns the file's checksum, or "".
func (m metadata) sum() string {
	if m.Type != "file" {
		return ""
	}
	return m.Checksum.Value
}

// asAgents returns the query of an agent's request. It keeps the agents' parameter order, because a
// cache compares the text.
func asAgents(environment string) string {
	return "links=manage&checksum_type=sha256&source_permissions=ignore&environment=" + environment
}

// uncached returns a query for the same file that no cache has. It asks for followed links, which
// the response shows; this detects a cache that ignores queries.
func (r *run) uncached(environment string) string {
	return "links=follow&checksum_type=sha256&source_permissions=ignore&environment=" + environment + "&fettle=" + r.Mark
}

// seen is a response with a file's metadata.
type seen struct {
	reply
	metadata
}

// look requests a file's metadata; why says why it is unknown, or is "".
func (r *run) look(path, query string, node bool) (s seen, why string) {
	q := question{path: path, query: query, node: node}
	s.reply = r.ask(r.Front, q)
	if s.status != http.StatusOK {
		return s, q.String() + ": " + s.reason()
	}
	if err := json.Unmarshal(s.body, &s.metadata); err != nil || s.Type == "" {
		return s, q.String() + ": the answer is not file metadata"
	}
	return s, ""
}

// cache probes the front end's cache with repeated metadata requests for one file.
func (r *run) cache() {
	file, why := r.file()
	path, at := metadataPath+file, origin(r.Front)+metadataPath+file
	var kept seen
	if why == "" {
		_, why = r.look(path, asAgents(r.Environments[0]), true) // fills the cache
	}
	if why == "" {
		kept, why = r.look(path, asAgents(r.Environments[0]), true)
	}
	if why == "" && kept.sum() == "" {
		why = fmt.Sprintf("%s is a %s, not a file with a checksum; name another with --file", file, kept.Type)
	}
	if why != "" {
		for _, name := range []string{CachedMetadata, AnonymousMetadata, CachedAnswer, CachedAge, CacheLifetime, CachedEnvironments} {
			r.set(name, nil, at, why)
		}
		return
	}
	r.withoutCertificate(CachedMetadata, path, asAgents(r.Environments[0]), at)
	r.withoutCertificate(AnonymousMetadata, path, r.uncached(r.Environments[0]), at)
	r.settle(CachedMetadata, AnonymousMetadata)
	now := r.stale(path, at, kept)
	r.environments(path, at, kept, now)
	if age, err := strconv.ParseUint(kept.header.Get("Age"), 10, 31); err == nil {
		r.set(CachedAge, float64(age), at, "")
	}
	if s, ok := lifetime(kept.header); ok {
		r.set(CacheLifetime, s, at, "")
	}
}

// file returns the file to request, or why it is missing.
func (r *run) file() (name, why string) {
	if r.File != "" {
		return r.File, ""
	}
	q := question{path: "/puppet/v3/file_metadatas/plugins", query: "recurse=true&" + asAgents(r.Environments[0]), node: true}
	a := r.ask(r.Front, q)
	if a.status != http.StatusOK {
		return "", q.String() + ": " + a.reason()
	}
	var list []metadata
	if err := json.Unmarshal(a.body, &list); err != nil {
		return "", q.String() + ": the answer is not a list of files"
	}
	names := []string{}
	for _, m := range list {
		if m.Type == "file" {
			names = append(names, m.RelativePath)
		}
	}
	if len(names) == 0 {
		return "", fmt.Sprintf("environment %s has no plug-ins; name a file with --file MOUNT/PATH (in an access log, the text after %s)", r.Environments[0], metadataPath)
	}
	return "plugins/" + slices.Min(names), ""
}

// withoutCertificate answers whether the server returns metadata without a client certificate.
func (r *run) withoutCertificate(name, path, query, at string) {
	a, why := r.look(path, query, false)
	switch {
	case why == "":
		r.set(name, granted, at, "")
	case a.refused():
		r.set(name, denied, at, "")
	default:
		r.set(name, nil, at, why)
	}
}

// stale answers whether the cached response equals the server's present one. If they differ it
// requests both again, because the file may have changed between the requests.
func (r *run) stale(path, at string, kept seen) (now seen) {
	environment := r.Environments[0]
	now, why := r.look(path, r.uncached(environment), true)
	same := why == "" && kept.sum() == now.sum()
	if why == "" && !same && now.Links == "follow" {
		if kept, why = r.look(path, asAgents(environment), true); why == "" {
			now, why = r.look(path, r.uncached(environment)+"2", true)
		}
		same = why == "" && kept.sum() == now.sum()
	}
	switch {
	case why == "" && now.Links != "follow":
		why = "the cache answered a different query: it ignores query strings, so the probe cannot reach the server"
	case same && r.UserAgent == "" && slices.ContainsFunc(varying(kept.header), func(f string) bool { return f == "user-agent" || f == "accept" }):
		why = "the cache keeps one answer per kind of agent (Vary: " + strings.Join(kept.header.Values("Vary"), ", ") + "), and fettle's is current; to test the agents' answer, use --user-agent with the value from the access log"
	}
	word := stale
	if same {
		word = current
	}
	r.set(CachedAnswer, word, at, why)
	return now
}

// varying returns the request headers on which a response depends (Vary).
func varying(h http.Header) (out []string) {
	for _, line := range h.Values("Vary") {
		for _, field := range strings.Split(line, ",") {
			out = append(out, strings.ToLower(strings.TrimSpace(field)))
		}
	}
	return out
}

// environments answers whether the cache mixes environments. It requests the file in an environment
// that does not exist, and in the plan's other environments.
func (r *run) environments(path, at string, kept, now seen) {
	none, why := r.look(path, asAgents("fettle_"+r.Mark), true)
	word := apart
	switch {
	case why == "":
		word = mixed // the response belongs to another environment
	case none.status == http.StatusNotFound || none.status == http.StatusBadRequest:
		why = ""
	}
	for _, e := range r.Environments[1:] {
		theirs, not := r.look(path, asAgents(e), true)
		if not == "" {
			var fresh seen
			if fresh, not = r.look(path, r.uncached(e), true); not == "" && theirs.sum() == kept.sum() && fresh.sum() != theirs.sum() && fresh.sum() != now.sum() {
				word = mixed
			}
		}
		if theirs.status != http.StatusNotFound && why == "" { // the other environment may lack the file
			why = not
		}
	}
	if word == mixed {
		why = ""
	}
	r.set(CachedEnvironments, word, at, why)
}

// lifetime returns how long a response may be cached according to its headers (RFC 9111, 4.2.1), in
// seconds; ok is false if they do not say.
func lifetime(h http.Header) (seconds float64, ok bool) {
	found := map[string]float64{}
	for _, line := range h.Values("Cache-Control") {
		for _, word := range strings.Split(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(word)), "=")
			switch n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); { // at most 2^31 (RFC 9111, 1.2.2)
			case name == "no-store", name == "no-cache", name == "private":
				return 0, true
			case err == nil:
				found[name] = float64(n)
			}
		}
	}
	if s, is := found["s-maxage"]; is {
		return s, true
	}
	if s, is := found["max-age"]; is {
		return s, true
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	return max(0, expires.Sub(date).Seconds()), err == nil
}
