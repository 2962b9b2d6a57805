package product

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// StandIn answers like Puppet Server 7, as far as front ends, caches and probes can observe:
// permissions, errors and headers. TestAgent compares it with the real server.
type StandIn struct {
	// HeaderAuth makes it trust headers alone for the certificate (allow-header-cert-info).
	HeaderAuth bool

	mu         sync.Mutex
	files      map[string]map[string]string // by environment, then MOUNT/PATH
	asked      []string
	anyCatalog bool
}

// AllowAnyCatalog selects an auth.conf that allows every node every catalog, or the package's.
func (s *StandIn) AllowAnyCatalog(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anyCatalog = yes
}

// Put creates or changes a file of an environment, such as modules/motd/motd.
func (s *StandIn) Put(environment, file, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]map[string]string{}
	}
	if s.files[environment] == nil {
		s.files[environment] = map[string]string{}
	}
	s.files[environment][file] = content
}

// Asked returns the requests since the last call, as "GET /path?query".
func (s *StandIn) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.asked = nil }()
	return s.asked
}

// node returns the node in a request's certificate, or "".
func (s *StandIn) node(r *http.Request) string {
	if s.HeaderAuth {
		name, ok := strings.CutPrefix(r.Header.Get("X-Client-DN"), "CN=")
		if !ok || r.Header.Get("X-Client-Verify") != "SUCCESS" {
			return ""
		}
		return name
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}

// ServeHTTP implements http.Handler.
func (s *StandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	if r.URL.Path == "/status/v1/simple" {
		fmt.Fprint(w, "running")
		return
	}
	node := s.node(r)
	name, catalog := strings.CutPrefix(r.URL.Path, "/puppet/v3/catalog/")
	if node == "" || catalog && name != node && !s.anyCatalog {
		w.Header().Set("Content-Type", "text/plain;charset=utf-8")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "Forbidden request: %s (method :%s). Please see the server logs for details.", r.URL.Path, strings.ToLower(r.Method))
		return
	}
	w.Header().Set("X-Puppet-Version", "7.23.0")
	w.Header().Set("Vary", "Accept-Encoding, User-Agent")
	q := r.URL.Query()
	environment := q.Get("environment")
	files, known := s.files[environment]
	switch {
	case environment == "":
		fail(w, http.StatusBadRequest, "Bad Request: An environment parameter must be specified")
	case catalog && q.Has("facts") && !q.Has("facts_format"):
		fail(w, http.StatusInternalServerError, "Server Error: Facts but no fact format provided for "+name)
	case catalog:
		send(w, map[string]any{"name": name, "environment": environment, "resources": []any{}})
	case !known:
		fail(w, http.StatusNotFound, "Not Found: Could not find environment '"+environment+"'")
	case r.Header.Get("Accept") == "":
		fail(w, http.StatusBadRequest, "Bad Request: Missing required Accept header")
	case r.URL.Path == "/puppet/v3/file_metadatas/plugins":
		list := []map[string]any{{"path": "/", "relative_path": ".", "links": q.Get("links"), "type": "directory"}}
		for file := range files {
			if rest, ok := strings.CutPrefix(file, "plugins/"); ok {
				list = append(list, metadataOf(rest, files[file], q.Get("links")))
			}
		}
		send(w, list)
	default:
		file, ok := strings.CutPrefix(r.URL.Path, "/puppet/v3/file_metadata/")
		content, there := files[file]
		if !ok || !there {
			fail(w, http.StatusNotFound, "Not Found: Could not find file_metadata "+file)
			return
		}
		send(w, metadataOf("", content, q.Get("links")))
	}
}

func metadataOf(name, content, links string) map[string]any {
	return map[string]any{
		"path": "/etc/puppet/code", "relative_path": name, "links": links, "owner": 0, "group": 0, "mode": 0o644, "type": "file", "destination": nil,
		"checksum": map[string]any{"type": "sha256", "value": fmt.Sprintf("{sha256}%x", sha256.Sum256([]byte(content)))},
	}
}

// send answers in chunks, as Jetty does, because Puppet's answers have no length.
func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	for part := range slices.Chunk(text, 100) {
		_, _ = w.Write(part)
		w.(http.Flusher).Flush()
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message, "issue_kind": "RUNTIME_ERROR"})
}
