package logs

import (
	"bytes"
	"slices"
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

// read parses both generations of URLs, as in Puppet's HTTP API documentation. It searches with
// slices.Index: the slashes are so near that the call of bytes.IndexByte costs more (5 % of the
// CPU time of logs --by indirector).
func (p *Puppet) read(r *Request) {
	*p = Puppet{}
	path := r.Path
	if len(path) < 2 || path[0] != '/' {
		return
	}
	first := slices.Index(path[1:], '/') + 1
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
	if n := slices.Index(p.Resource, '/'); n >= 0 {
		p.Indirector, p.Key = p.Resource[:n], p.Resource[n+1:]
	}
	if !indirector(p.Indirector) {
		*p = Puppet{}
	}
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
