package logformat

import "strings"

// jsonProduct is a program that writes JSON lines, with the meaning of its members. It is
// recognized by a combination of members, never by a single member.
type jsonProduct struct {
	name string
	// marks are groups of members. The log must have at least one member of each group.
	marks [][]string
	// required are members that distinguish requests from other messages.
	required []string
	// logger is a member whose value begins with prefix in requests, if the member is present.
	logger, prefix string
	// begin lists members with the start of the request, end those with the time of the line.
	begin, end []string
	duration   string
	unit       int64 // of the duration, in nanoseconds; 0 if each value has a unit
	form       form
	roles      map[string][]string // further members by field name
}

// form is the notation of a product's durations. Another notation indicates a configured unit
// or another program.
type form uint8

const (
	anyForm           form = iota
	whole                  // an integer
	fractional             // some are not integers
	thousandths            // three decimals
	atMostThousandths      // at most three decimals, not all integers, as rewritten by log shippers
)

// jsonProducts lists programs with known members. These were run for this table: nginx 1.22.1
// (log_format escape=json), Caddy 2.11.9 (its default encoder, and with other duration_format),
// lograge 0.10.0 with Rails 6.1, Echo 4.13.3 (middleware.Logger), Traefik 3.2.1 (its access log
// handler). From documentation: HAProxy 3.0 and 3.1 (haproxy.com, "Encoding HAProxy logs in
// machine-readable JSON or CBOR"), Istio 1.24 (istio.io, default accessLogFormat) and Envoy
// Gateway 1.2, pino-http 10, Google Cloud's HttpRequest, logstash-logback-encoder 7.4
// (LogstashAccessEncoder), Elastic Common Schema 8.11 (event.duration).
var jsonProducts = []jsonProduct{
	{
		name: "Traefik's access log", marks: [][]string{{"DownstreamStatus"}, {"RequestMethod", "RequestPath", "RouterName", "ServiceName", "OriginStatus"}},
		required: []string{"DownstreamStatus"}, begin: []string{"StartUTC", "StartLocal"}, end: []string{"time"}, duration: "Duration", unit: 1, form: whole,
		roles: map[string][]string{
			FieldMethod: {"RequestMethod"}, FieldURL: {"RequestPath"}, FieldProtocol: {"RequestProtocol"}, FieldStatus: {"DownstreamStatus"}, FieldBytes: {"DownstreamContentSize"},
			FieldClient: {"ClientHost", "ClientAddr"}, FieldHost: {"RequestHost", "RequestAddr"}, FieldUser: {"ClientUsername"}, "referer": {"request_Referer"}, "user_agent": {"request_User-Agent"},
		},
	},
	{
		name: "Caddy's access log", marks: [][]string{{"request.uri"}, {"request.remote_ip", "request.remote_addr"}, {"request.proto"}, {"duration"}},
		required: []string{"request.uri", "status"}, logger: "logger", prefix: "http.log.access", end: []string{"ts"}, duration: "duration", unit: 1e9, form: fractional,
		roles: map[string][]string{
			FieldMethod: {"request.method"}, FieldURL: {"request.uri"}, FieldProtocol: {"request.proto"}, FieldStatus: {"status"}, FieldBytes: {"size"},
			FieldClient: {"request.client_ip", "request.remote_ip", "request.remote_addr"}, FieldHost: {"request.host"}, FieldUser: {"user_id"},
		},
	},
	{ // identified by Caddy's message if the configuration omits the protocol
		name: "Caddy's access log", marks: [][]string{{"request.uri"}, {"request.remote_ip", "request.remote_addr"}, {"logger", "msg"}, {"duration"}, {"size"}},
		required: []string{"request.uri", "status"}, logger: "logger", prefix: "http.log.access", end: []string{"ts"}, duration: "duration", unit: 1e9, form: fractional,
		roles: map[string][]string{
			FieldMethod: {"request.method"}, FieldURL: {"request.uri"}, FieldStatus: {"status"}, FieldBytes: {"size"},
			FieldClient: {"request.client_ip", "request.remote_ip", "request.remote_addr"}, FieldHost: {"request.host"}, FieldUser: {"user_id"},
		},
	},
	{ // for TCP connections path and protocol are null or -
		name:     "Envoy's access log, as Istio and Envoy Gateway configure it",
		marks:    [][]string{{"start_time"}, {"response_code"}, {"response_flags", "upstream_cluster", "upstream_host", "upstream_service_time", "x-envoy-upstream-service-time", "authority", ":authority"}},
		required: []string{"response_code", "path|x-envoy-origin-path|original_path|protocol"}, begin: []string{"start_time"}, duration: "duration", unit: 1e6, form: whole,
		roles: map[string][]string{
			FieldMethod: {"method"}, FieldURL: {"path", "x-envoy-origin-path", "original_path"}, FieldProtocol: {"protocol"}, FieldStatus: {"response_code"}, FieldBytes: {"bytes_sent"},
			FieldClient: {"downstream_remote_address"}, FieldHost: {"authority", ":authority"}, "user_agent": {"user_agent", "user-agent"}, "forwarded_for": {"x_forwarded_for", "x-forwarded-for"},
		},
	},
	{
		name: "lograge", marks: [][]string{{"controller"}, {"action"}, {"method"}, {"path"}, {"status"}, {"duration"}},
		required: []string{"controller", "path", "status"}, end: []string{"time", "@timestamp", "timestamp"}, duration: "duration", unit: 1e6,
		roles: map[string][]string{FieldMethod: {"method"}, FieldURL: {"path"}, FieldStatus: {"status"}, FieldClient: {"ip", "remote_ip"}, FieldHost: {"host"}},
	},
	{ // names only nginx has, so that log shippers or jq may have turned 0.500 into 0.5
		name:  "nginx' variables (log_format escape=json)",
		marks: [][]string{{"request_time"}, {"time_iso8601", "time_local", "msec"}, {"body_bytes_sent", "http_user_agent", "http_referer", "http_x_forwarded_for", "upstream_response_time", "upstream_addr", "upstream_status"}},
		end:   []string{"msec", "time_iso8601", "time_local"}, duration: "request_time", unit: 1e9, form: atMostThousandths,
	},
	{
		name: "nginx' variables (log_format escape=json)",
		marks: [][]string{{"request_time"}, {"time_iso8601", "time_local", "msec", "body_bytes_sent", "remote_addr", "remote_user", "http_user_agent", "http_referer", "http_x_forwarded_for",
			"server_protocol", "request_length", "upstream_response_time", "upstream_addr", "upstream_status"}},
		end: []string{"msec", "time_iso8601", "time_local", "time", "timestamp", "@timestamp"}, duration: "request_time", unit: 1e9, form: thousandths,
	},
	{
		name: "HAProxy's log-format %{+json}o, with the names of its documentation", marks: [][]string{{"time_active"}, {"status_code"}, {"termination_state", "time_server_response", "time_to_connect"}},
		required: []string{"status_code"}, begin: []string{"request_date"}, duration: "time_active", unit: 1e6, form: whole,
		roles: map[string][]string{FieldRequest: {"request_line"}, FieldStatus: {"status_code"}, FieldBytes: {"bytes_read"}, FieldClient: {"client_ip"}},
	},
	{
		name: "the Elastic Common Schema", marks: [][]string{{"event.duration"}, {"http.request.method", "http.response.status_code", "url.path", "url.original"}},
		duration: "event.duration", unit: 1, form: whole,
	},
	{
		name: "pino-http", marks: [][]string{{"req.url"}, {"res.statusCode"}, {"responseTime"}},
		required: []string{"res.statusCode"}, end: []string{"time"}, duration: "responseTime", unit: 1e6,
		roles: map[string][]string{FieldMethod: {"req.method"}, FieldURL: {"req.url"}, FieldStatus: {"res.statusCode"}, FieldClient: {"req.remoteAddress"}, FieldHost: {"req.headers.host"}, "user_agent": {"req.headers.user-agent"}},
	},
	{
		name: "Echo's logger", marks: [][]string{{"latency"}, {"latency_human"}, {"uri"}},
		required: []string{"uri", "status"}, end: []string{"time"}, duration: "latency", unit: 1, form: whole,
		roles: map[string][]string{FieldBytes: {"bytes_out"}},
	},
	{
		name: "Google Cloud's HttpRequest", marks: [][]string{{"httpRequest.requestUrl"}, {"httpRequest.status", "httpRequest.requestMethod"}},
		required: []string{"httpRequest.requestUrl"}, begin: []string{"timestamp"}, duration: "httpRequest.latency",
		roles: map[string][]string{
			FieldMethod: {"httpRequest.requestMethod"}, FieldURL: {"httpRequest.requestUrl"}, FieldStatus: {"httpRequest.status"}, FieldBytes: {"httpRequest.responseSize"}, FieldProtocol: {"httpRequest.protocol"},
			FieldClient: {"httpRequest.remoteIp"}, "user_agent": {"httpRequest.userAgent"}, "referer": {"httpRequest.referer"},
		},
	},
	{
		name: "logback-access' JSON (LogstashAccessEncoder)", marks: [][]string{{"elapsed_time"}, {"requested_uri", "requested_url"}, {"status_code"}},
		required: []string{"status_code"}, end: []string{"@timestamp"}, duration: "elapsed_time", unit: 1e6, form: whole,
		roles: map[string][]string{FieldRequest: {"requested_url"}, FieldURL: {"requested_uri"}, FieldStatus: {"status_code"}, FieldClient: {"remote_host"}, FieldBytes: {"content_length"}},
	},
}

// requiredGroups returns groups of members. A request has at least one member of each group.
func (p *jsonProduct) requiredGroups() (groups [][]string) {
	for _, one := range p.required {
		groups = append(groups, strings.Split(one, "|"))
	}
	return groups
}

// product identifies the program that wrote the lines. It returns nil if it is unknown.
func (s *sample) product() *jsonProduct {
	for i := range jsonProducts {
		p := &jsonProducts[i]
		is := true
		for _, group := range p.marks {
			one := false
			for _, member := range group {
				one = one || s.members[member] != nil
			}
			is = is && one
		}
		if is {
			return p
		}
	}
	return nil
}

// writes reports whether the durations have the product's notation.
func (p *jsonProduct) writes(values []string) bool {
	all, points := 0, 0
	for _, v := range values {
		if v == "" || v == "-" {
			continue
		}
		n, ok := parseDecimal([]byte(v))
		switch {
		case p.unit == 0:
			if _, own := ownUnit([]byte(v)); !own {
				return false
			}
			continue
		case !ok && p.form != anyForm:
			return false
		case p.form == whole && !n.integer():
			return false
		case p.form == thousandths && !threeDigits(v) || p.form == atMostThousandths && moreDigits(v):
			return false
		}
		if !n.zero() {
			all++
			if !n.integer() || p.form == atMostThousandths && strings.Contains(v, ".") { // 600.000
				points++
			}
		}
	}
	return p.form != fractional && p.form != atMostThousandths || all == 0 || points > 0
}

// moreDigits reports whether a number has more than three decimals.
func moreDigits(text string) bool {
	_, behind, _ := strings.Cut(text, ".")
	return len(behind) > 3
}

// threeDigits reports whether a number has exactly three decimals, as nginx writes seconds.
func threeDigits(text string) bool {
	n := len(text)
	if n < 5 || text[n-4] != '.' {
		return false
	}
	_, ok1 := Int([]byte(text[:n-4]))
	_, ok2 := Int([]byte(text[n-3:]))
	return ok1 && ok2
}
