package logformat

import (
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
)

// role is the meaning of a member of JSON lines, determined by its name and values.
type role struct {
	field Field
	// names are normalized member names used by web servers, frameworks and log shippers, the
	// most specific first.
	names []string
	// fits reports whether a value is valid for the role. nil accepts any text.
	fits func(value string) bool
	// strict reports whether a line with an invalid value is unreadable.
	strict bool
}

// roles lists the roles, except times and durations, which are in json_duration.go.
var roles = []role{
	{Field{Name: FieldRequest, Kind: Request}, []string{"request", "request_line", "http_request", "req"}, isRequest, false},
	{Field{Name: FieldMethod}, []string{"method", "request_method", "http_request_method", "http_method", "req_method", "verb", "http_verb"}, isMethod, false},
	{Field{Name: FieldURL, Kind: URL}, []string{"request_uri", "uri", "url", "url_original", "original_url", "request_url", "req_url", "http_target", "http_url", "path", "url_path", "request_path", "http_path", "path_info", "request"}, isURL, false},
	{Field{Name: FieldQuery}, []string{"query_string", "query", "args", "url_query"}, nil, false},
	{Field{Name: FieldProtocol}, []string{"protocol", "server_protocol", "request_proto", "request_protocol", "http_protocol", "proto", "http_version"}, isProtocol, false},
	{Field{Name: FieldStatus, Kind: Number}, []string{"status", "status_code", "http_response_status_code", "http_status_code", "http_status", "response_status", "response_status_code", "response_code", "res_status_code", "res_status", "code"}, isStatus, true},
	{Field{Name: FieldBytes, Kind: Number}, []string{"body_bytes_sent", "bytes_sent", "bytes", "size", "response_size", "http_response_body_bytes", "bytes_out", "response_bytes", "content_length"}, isCount, false},
	{Field{Name: FieldClient}, []string{"remote_addr", "client_ip", "remote_ip", "source_ip", "request_remote_ip", "client", "ip", "client_addr", "client_address", "remote_host", "remote_address"}, isClient, false},
	{Field{Name: FieldHost}, []string{"host", "vhost", "http_host", "request_host", "url_domain", "server_name", "authority"}, isHost, false},
	{Field{Name: FieldUser}, []string{"remote_user", "user", "user_name", "user_id", "username"}, nil, false},
	{Field{Name: "referer"}, []string{"referer", "http_referer", "referrer", "http_request_referrer"}, nil, false},
	{Field{Name: "user_agent"}, []string{"user_agent", "http_user_agent", "user_agent_original", "agent"}, nil, false},
	{Field{Name: "forwarded_for"}, []string{"http_x_forwarded_for", "x_forwarded_for", "forwarded_for"}, nil, false},
}

func roleOf(field string) *role {
	return &roles[slices.IndexFunc(roles, func(r role) bool { return r.field.Name == field })]
}

// reserved reports whether a field or dimension has a defined meaning. A member with that name
// but without the role becomes member_NAME.
func reserved(name string) bool {
	switch name {
	case FieldTime, FieldDuration, FieldPath, "class", "route", "certname":
		return true
	}
	return slices.ContainsFunc(roles, func(r role) bool { return r.field.Name == name })
}

// envelopes lists the objects in which loggers wrap the members of a line.
var envelopes = []string{"fields", "data", "attributes", "attrs", "context", "extra", "event", "payload", "labels", "access", "log", "json"}

// normal normalizes a member name to lower-case words separated by _: response.statusCode
// becomes response_status_code, fields.duration_ms duration_ms, @timestamp timestamp.
func normal(member string) string { return strings.Join(nameWords(member), "_") }

// nameWords splits a member name into words. It omits enclosing envelopes.
func nameWords(member string) []string {
	var out []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			out, word = append(out, strings.ToLower(string(word))), nil
		}
	}
	text := []rune(member)
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(text[i-1]) || i+1 < len(text) && unicode.IsLower(text[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	for len(out) > 1 && slices.Contains(envelopes, out[0]) {
		out = out[1:]
	}
	return out
}

// isEmpty reports whether a value means a missing value.
func isEmpty(value string) bool { return value == "" || value == "-" }

// isRequest reports whether a text is "METHOD TARGET" or "METHOD TARGET PROTOCOL".
func isRequest(value string) bool {
	method, rest, ok := strings.Cut(value, " ")
	target, _, _ := strings.Cut(rest, " ")
	return ok && isMethod(method) && (isURL(target) || method == "CONNECT" && isHost(target))
}

// methods are the methods of RFC 9110 and 5789, and common ones of WebDAV and caches.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "PRI"}

func isMethod(value string) bool { return slices.Contains(methods, strings.ToUpper(value)) }

func isURL(value string) bool {
	return strings.HasPrefix(value, "/") || value == "*" || strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://")
}

func isProtocol(value string) bool {
	v := strings.ToUpper(value)
	return strings.HasPrefix(v, "HTTP") || strings.HasPrefix(v, "H2") || strings.HasPrefix(v, "H3") || v == "1.0" || v == "1.1" || v == "2" || v == "2.0" || v == "3" || v == "3.0"
}

// isStatus reports whether a text is a status, or 0 for no response.
func isStatus(value string) bool {
	n, ok := lenientInt([]byte(value))
	return ok && (n == 0 || n >= 100 && n <= 599)
}

func isCount(value string) bool {
	_, ok := lenientInt([]byte(value))
	return ok
}

// isClient reports whether a text is an address, with or without a port, or a host name.
func isClient(value string) bool {
	value, _, _ = strings.Cut(value, ",") // a list with one address for each proxy
	if _, err := netip.ParseAddr(value); err == nil {
		return true
	}
	if _, err := netip.ParseAddrPort(value); err == nil {
		return true
	}
	return strings.HasPrefix(value, "unix:") || value == "localhost" || strings.Contains(value, ".") && isHost(value)
}

// isHost reports whether a text is a host name or address, with or without a port.
func isHost(value string) bool {
	for _, c := range []byte(value) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._:[]", c) >= 0 || c >= 0x80 {
			continue
		}
		return false
	}
	return value != "" && len(value) <= 260
}

// share returns the share of non-empty values that fit, or 0 if there are no values.
func share(values []string, fits func(string) bool) float64 {
	n, all := 0, 0
	for _, v := range values {
		if isEmpty(v) {
			continue
		}
		all++
		if fits == nil || fits(v) {
			n++
		}
	}
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// accepts reports whether the values fit the role. For strict roles nearly all must fit,
// because other lines are unreadable.
func (r *role) accepts(values []string) bool {
	least := minShare
	if r.strict {
		least = nearlyAll
	}
	return r.fits == nil || share(values, r.fits) >= least
}

// nearlyAll is the minimum share of values that must be valid for a time,
// status or duration.
const nearlyAll = 0.9

// layoutOf detects the layout of times. noZone reports whether they lack a zone. ok is false
// if the values are not times.
func layoutOf(values []string) (f Field, noZone, ok bool) {
	f = Field{Name: FieldTime, Kind: Time, Lenient: true}
	i := slices.IndexFunc(values, func(v string) bool { return !isEmpty(v) })
	if i < 0 {
		return f, false, false
	}
	example := values[i]
	switch d, number := parseDecimal([]byte(example)); {
	case number:
		n, ok := Int(decimal{d.digits, max(d.point, 0)}.whole())
		if !ok || n < 3e8 { // the year 1979
			return f, false, false
		}
		f.Layout, f.Unit = Unix, 1e9
		for limit := int64(1e11); n >= limit && f.Unit > 1; limit *= 1000 {
			f.Unit /= 1000
		}
	case len(example) == 24 && example[2] == '/' && example[20] == '.':
		f.Layout, noZone = CLFMilli, true
	case len(example) > 3 && example[2] == '/':
		f.Layout = CLF
	default:
		f.Layout = ISO
		noZone = !zoned(example)
	}
	good := func(v string) bool {
		us, ok := f.Time([]byte(v), nil)
		return ok && us > 0 && us < 4102444800e6 // 1970 to 2100
	}
	return f, noZone, share(values, good) >= nearlyAll
}

// zoned reports whether an ISO time has a time zone.
func zoned(text string) bool {
	clock := text[min(len(text), 11):]
	return strings.ContainsAny(clock, "Zz+") || strings.Contains(clock, "-")
}

// whole returns the digits before the decimal point.
func (d decimal) whole() []byte {
	for len(d.digits) < d.point {
		d.digits = append(d.digits, '0')
	}
	return d.digits[:d.point]
}

// isDate reports whether a text is a date, and isClock whether it is a time of day.
func isDate(value string) bool {
	_, err := time.Parse(time.DateOnly, value)
	return err == nil
}

func isClock(value string) bool {
	_, ok := iso(append([]byte("2026-01-01T"), value...))
	return ok && len(value) <= 20
}
