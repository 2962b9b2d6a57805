package logs

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Puppet is what a URL means to Puppet Server. All is empty for what is none of its.
type Puppet struct {
	Environment []byte
	Indirector  []byte
	Key         []byte // the certname of a catalog, the path of a file
	Resource    []byte // Indirector/Key, as the URL has it
}

// indirector says whether a name is one of those of Puppet 0.25 to 8 (lib/puppet/indirector, and Puppet Server's
// own): in the URLs of versions 1 to 3 (/ENVIRONMENT/INDIRECTOR/KEY) nothing else tells
// them from any other path.
func indirector(name []byte) bool {
	switch string(name) { // no map: it would cost as much as all else that is done with a URL
	case "catalog", "certificate", "certificate_request", "certificate_requests", "certificate_revocation_list", "certificate_status", "certificate_statuses",
		"environment", "environments", "facts", "facts_search", "file_bucket_file", "file_content", "file_contents", "file_metadata", "file_metadatas",
		"inventory", "key", "node", "nodes", "queue", "report", "reports", "resource", "resources", "resource_type", "resource_types", "run", "static_file_content",
		"status", "statuses", "tasks", "plans":
		return true
	}
	return false
}

// Puppet takes the URL apart, once.
func (r *Request) Puppet() *Puppet {
	if !r.split {
		r.split = true
		r.puppet.read(r)
	}
	return &r.puppet
}

// read knows both generations of URLs (Puppet's HTTP API documentation).
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

// slash is where the first slash of a text is, or -1: of most within sixteen bytes, which
// are looked through here for less than a call costs.
func slash(text []byte) int {
	const ones, highs, slashes = 0x0101010101010101, 0x8080808080808080, 0x2f2f2f2f2f2f2f2f
	if len(text) < 16 {
		return bytes.IndexByte(text, '/')
	}
	// The lowest of the high bits that are left is that of the first byte that is a slash.
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

// Certname is the node that a request is about, where its URL says so: what asked for a
// catalog or sent a report, also behind a proxy whose address every line has.
func (p *Puppet) Certname() []byte {
	switch string(p.Indirector) {
	case "catalog", "report", "node", "facts", "certificate", "certificate_request":
		return p.Key
	}
	return nil
}
