package logformat

import "bytes"

// row is a sampled line that matches a format.
type row struct {
	f     *Format
	line  []byte
	spans []Span
	at    int // the line's index in the sample
}

func (r row) text(name string) []byte {
	if i := r.f.Field(name); i >= 0 {
		return r.spans[i].Of(r.line)
	}
	return nil
}

func (r row) int(name string) (int64, bool) { return Int(r.text(name)) }

// bySource returns the number in the field with a given source, such as %D.
func (r row) bySource(asked string) (int64, bool) {
	for i := range r.f.Fields {
		if r.f.Fields[i].Source == asked {
			return Int(r.spans[i].Of(r.line))
		}
	}
	return 0, false
}

// most reports whether a condition is true for at least 90 % of the rows.
func most(rows []row, is func(r row) bool) bool {
	n := 0
	for _, r := range rows {
		if is(r) {
			n++
		}
	}
	return 10*n >= 9*len(rows)
}

// byteCounts checks that %I exceeds the length of the request line, and that %O is at least
// the length of the response body. HTTP/2 is exempt because it compresses headers.
func byteCounts(rows []row) verdict {
	if most(rows, func(r row) bool {
		if bytes.Contains(r.text(FieldRequest), []byte("HTTP/2")) {
			return true
		}
		in, hasIn := r.bySource("%I")
		out, hasOut := r.bySource("%O")
		body, hasBody := r.bySource("%b")
		return (!hasIn || in > int64(len(r.text(FieldRequest)))) && (!hasOut || !hasBody || out >= body)
	}) {
		return neutral
	}
	return against
}

// alwaysNumber checks that the duration is a number. httpd writes a number for every request
// (mod_log_config, log_request_duration). A - indicates another value, such as nginx'
// X-Forwarded-For without a proxy.
func alwaysNumber(rows []row) verdict {
	if most(rows, func(r row) bool { return string(r.text(FieldDuration)) != "-" }) {
		return neutral
	}
	return against
}

// sameDuration checks that seconds or milliseconds are the truncated microseconds
// (mod_log_config, log_request_duration_scaled). Zeros prove nothing.
func sameDuration(rows []row) verdict {
	some := false
	for _, r := range rows {
		us, ok := r.bySource("%D")
		s, okS := r.bySource("%T")
		ms, okMS := r.bySource("%{ms}T")
		if !ok || okS && s != us/1e6 || okMS && ms != us/1e3 {
			return against
		}
		some = some || s > 0 || ms > 0
	}
	if some {
		return proven
	}
	return neutral
}

// bothOf combines two checks. Either may be nil.
func bothOf(a, b func([]row) verdict) func([]row) verdict {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(rows []row) verdict {
		if x := a(rows); x == against {
			return against
		}
		return b(rows)
	}
}

// hostNames checks that virtual hosts are names: an address before another address is not a
// virtual host.
func hostNames(rows []row) verdict {
	if most(rows, func(r row) bool { return !isAddress(r.text(FieldHost)) }) {
		return neutral
	}
	return against
}

// forwarded checks that X-Forwarded-For is a list of addresses, or -.
func forwarded(rows []row) verdict {
	if most(rows, func(r row) bool {
		list := r.text("forwarded_for")
		if string(list) == "-" {
			return true
		}
		for len(list) > 0 {
			one, rest, _ := bytes.Cut(list, []byte(","))
			if list = rest; !isAddress(bytes.TrimSpace(one)) && string(bytes.TrimSpace(one)) != "unknown" {
				return false
			}
		}
		return true
	}) {
		return neutral
	}
	return against
}

// forwardedLists is like forwarded, but also requires a list with several addresses: a single
// address may be the client's.
func forwardedLists(rows []row) verdict {
	for _, r := range rows {
		if bytes.IndexByte(r.text("forwarded_for"), ',') > 0 {
			return forwarded(rows)
		}
	}
	return against
}

// puppetPaths checks that request paths are those of Puppet's agents and tools (puppetserver,
// documentation of its HTTP API), and that GET requests have no content length.
func puppetPaths(rows []row) verdict {
	if !most(rows, func(r row) bool {
		_, has := r.int("in_content_length")
		return !has || !bytes.HasPrefix(r.text(FieldRequest), []byte("GET "))
	}) {
		return against
	}
	return paths(rows, "/puppet/", "/puppet-ca/", "/puppet-admin-api/", "/status/v1/", "/metrics/v", "/environment", "/production/", "/v3/")
}

// puppetDBPaths checks that request paths are those of PuppetDB's API.
func puppetDBPaths(rows []row) verdict { return paths(rows, "/pdb/", "/status/v1/", "/metrics/v") }

// paths checks that at least half of the request paths have one of the prefixes.
func paths(rows []row, begins ...string) verdict {
	n := 0
	for _, r := range rows {
		_, url, _ := bytes.Cut(r.text(FieldRequest), []byte(" "))
		for _, b := range begins {
			if bytes.HasPrefix(url, []byte(b)) {
				n++
				break
			}
		}
	}
	if 2*n >= len(rows) {
		return proven
	}
	return against
}
