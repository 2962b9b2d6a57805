package logs

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Puppet describes a URL of Puppet Server. It is empty for other URLs.
type Puppet struct {
	Environment []byte
	Indirector  []byte
	Key         []byte // the certname of a catalog, the path of a file
	Resource    []byte // Indirector/Key
}

// indirector reports whether a name is an indirector of Puppet 0.25 to 8
// (lib/puppet/indirector) or of Puppet Server. Only the indirector distinguishes URLs of
// versions 1 to 3 (/ENVIRONMENT/INDIRECTOR/KEY) from other paths.
func indirector(name []byte) bool {
	switch string(name) { // a map would cost as much as all other work on a URL
	case "catalog", "certificate", "certificate_request", "certificate_requests", "certificate_revocation_list", "certificate_status", "certificate_statuses",
		"environment", "environments", "facts", "facts_search", "file_bucket_file", "file_content", "file_contents", "file_metadata", "file_metadatas",
		"inventory", "key", "node", "nodes", "queue", "report", "reports", "resource", "resources", "resource_type", "resource_types", "run", "static_file_content",
		"status", "statuses", "tasks", "plans":
		return true
	}
	return false
}

// Puppet returns the description of a Puppet Server URL. The result is cached.
func (r *Request) Puppet() *Puppet {
	if !r.split {
		r.split = true
		r.puppet.read(r)
	}
	return &r.puppet
}

// read parses both generations of URLs, as in Puppet's HTTP API documentation.
func (p *Puppet) read(r *Request) {
	*p = Puppet{}
	path := r.Path
	if len(path) < 2 || path[0] != '/' {
		return
	}
	first := slash(path[1:]) + 1
	if first == 0 {
		return
	}
	switch string(path[1:first]) {
	case "puppet", "puppet-ca", "puppet-admin-api": // /puppet/v3/INDIRECTOR/KEY
		rest := path[first+1:]
		version := bytes.IndexByte(rest, '/')
		if version < 2 || rest[0] != 'v' {
			return
		}
		p.Resource = rest[version+1:]
		p.Environment = r.Parameter("environment")
	default: // /ENVIRONMENT/INDIRECTOR/KEY
		p.Resource = path[first+1:]
		p.Environment = path[1:first]
	}
	p.Indirector = p.Resource
	if n := slash(p.Resource); n >= 0 {
		p.Indirector, p.Key = p.Resource[:n], p.Resource[n+1:]
	}
	if !indirector(p.Indirector) {
		*p = Puppet{}
	}
}

// slash returns the index of the first slash, or -1. It is mostly within the first 16 bytes.
// Checking these here costs less than a call.
func slash(text []byte) int {
	const ones, highs, slashes = 0x0101010101010101, 0x8080808080808080, 0x2f2f2f2f2f2f2f2f
	if len(text) < 16 {
		return bytes.IndexByte(text, '/')
	}
	// The lowest remaining high bit belongs to the first slash.
	w := binary.LittleEndian.Uint64(text) ^ slashes
	if w = (w - ones) &^ w & highs; w != 0 {
		return bits.TrailingZeros64(w) >> 3
	}
	w = binary.LittleEndian.Uint64(text[8:]) ^ slashes
	if w = (w - ones) &^ w & highs; w != 0 {
		return 8 + bits.TrailingZeros64(w)>>3
	}
	if n := bytes.IndexByte(text[16:], '/'); n >= 0 {
		return 16 + n
	}
	return -1
}

// Certname returns the node in a request's URL, or nil. Unlike the address in the line, it also
// identifies nodes that connect through a proxy.
func (p *Puppet) Certname() []byte {
	switch string(p.Indirector) {
	case "catalog", "report", "node", "facts", "certificate", "certificate_request":
		return p.Key
	}
	return nil
}
