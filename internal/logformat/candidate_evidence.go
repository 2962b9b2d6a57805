package logformat

import "bytes"

// row is a sampled line that a format has read.
type row struct {
	f     *Format
	line  []byte
	spans []Span
	at    int // the line's place in the sample
}

func (r row) text(name string) []byte {
	if i := r.f.Field(name); i >= 0 {
		return r.spans[i].Of(r.line)
	}
	return nil
}

func (r row) int(name string) (int64, bool) { return Int(r.text(name)) }

// bySource is the number of the field that the server's format has as asked.
func (r row) bySource(asked string) (int64, bool) {
	for i := range r.f.Fields {
		if r.f.Fields[i].Source == asked {
			return Int(r.spans[i].Of(r.line))
		}
	}
	return 0, false
}

// most reports whether something is true of nine in ten rows.
func most(rows []row, is func(r row) bool) bool {
	n := 0
	for _, r := range rows {
		if is(r) {
			n++
		}
	}
	return 10*n >= 9*len(rows)
}

// byteCounts: what came in (%I) is at least the request's line, and what went out (%O)
// at least the answer's body. HTTP/2 compresses headers, and may be below.
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

// alwaysNumber: httpd writes a number for each request (mod_log_config, log_request_duration), so
// that a - is another value: X-Forwarded-For of nginx' main without a proxy in front.
func alwaysNumber(rows []row) verdict {
	if most(rows, func(r row) bool { return string(r.text(FieldDuration)) != "-" }) {
		return neutral
	}
	return against
}

// sameDuration: the seconds, or milliseconds, are the microseconds, cut and not rounded
// (mod_log_config, log_request_duration_scaled). Zeros alone prove nothing.
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

// bothOf wants what each of two wants; nil wants nothing.
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

// hostNames: the virtual hosts are names; an address in front of another is not one of them.
func hostNames(rows []row) verdict {
	if most(rows, func(r row) bool { return !isAddress(r.text(FieldHost)) }) {
		return neutral
	}
	return against
}

// forwarded: what is taken for X-Forwarded-For is a list of addresses, or -.
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

// forwardedLists: as forwarded, and some are of several addresses; a single one is the client.
func forwardedLists(rows []row) verdict {
	for _, r := range rows {
		if bytes.IndexByte(r.text("forwarded_for"), ',') > 0 {
			return forwarded(rows)
		}
	}
	return against
}

// puppetPaths: requests of Puppet's agents and tools (puppetserver, documentation of its
// HTTP API), of which a GET has no body, and so no length of one.
func puppetPaths(rows []row) verdict {
	if !most(rows, func(r row) bool {
		_, has := r.int("in_content_length")
		return !has || !bytes.HasPrefix(r.text(FieldRequest), []byte("GET "))
	}) {
		return against
	}
	return paths(rows, "/puppet/", "/puppet-ca/", "/puppet-admin-api/", "/status/v1/", "/metrics/v", "/environment", "/production/", "/v3/")
}

// puppetDBPaths: requests of PuppetDB's API.
func puppetDBPaths(rows []row) verdict { return paths(rows, "/pdb/", "/status/v1/", "/metrics/v") }

// paths: at least half of the requests are for a path that begins with one of them.
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
