package logformat

import "strings"

// envoyDefault is Envoy's default access log format (Envoy 1.30 documentation,
// "Access logging", default format string).
const envoyDefault = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`

// istioDefault is the default accessLogFormat of a mesh (Istio 1.9 to 1.30,
// documentation, "Envoy Access Logs"; pilot/pkg/model/telemetry_logging.go).
const istioDefault = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%`

// envoyOperators are Envoy's command operators ("Access logging", command operators), with
// arguments if these change the meaning. Durations are in milliseconds. START_TIME is the
// start of the request. Envoy does not escape values.
var envoyOperators = map[string]Field{
	"START_TIME": {Name: FieldTime, Kind: Time, Layout: ISO}, "DURATION": {Name: FieldDuration, Kind: Duration, Unit: 1e6},
	"REQ(:METHOD)": {Name: FieldMethod, Kind: Word}, "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)": {Name: FieldURL, Kind: URL}, "REQ(:PATH)": {Name: FieldURL, Kind: URL}, "PROTOCOL": {Name: FieldProtocol, Kind: Word},
	"REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH)": {Name: FieldPath}, "REQ(:AUTHORITY)": {Name: FieldHost, Kind: Word},
	"RESPONSE_CODE": {Name: FieldStatus, Kind: Number}, "RESPONSE_FLAGS": {Name: "response_flags", Kind: Word}, "RESPONSE_CODE_DETAILS": {Name: "response_code_details", Kind: Word},
	"BYTES_RECEIVED": {Name: "bytes_in", Kind: Number}, "BYTES_SENT": {Name: FieldBytes, Kind: Number},
	"RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)": {Name: "upstream_duration", Kind: Duration, Unit: 1e6}, "RESPONSE_DURATION": {Name: "first_byte", Kind: Duration, Unit: 1e6}, "REQUEST_DURATION": {Name: "request_duration", Kind: Duration, Unit: 1e6},
	"RESPONSE_TX_DURATION": {Name: "response_duration", Kind: Duration, Unit: 1e6},
	"REQ(X-FORWARDED-FOR)": {Name: "forwarded_for"}, "REQ(USER-AGENT)": {Name: "user_agent"}, "REQ(REFERER)": {Name: "referer"}, "REQ(X-REQUEST-ID)": {Name: "request_id", Kind: Word},
	"DOWNSTREAM_REMOTE_ADDRESS": {Name: FieldClient, Kind: Address}, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": {Name: FieldClient, Kind: Address},
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS": {Name: "peer", Kind: Address}, "DOWNSTREAM_LOCAL_ADDRESS": {Name: "downstream_local_address", Kind: Word},
	"UPSTREAM_HOST": {Name: "upstream_host", Kind: Word}, "UPSTREAM_LOCAL_ADDRESS": {Name: "upstream_local_address", Kind: Word},
	"UPSTREAM_CLUSTER": {Name: "upstream_cluster", Kind: Word}, "UPSTREAM_CLUSTER_RAW": {Name: "upstream_cluster", Kind: Word},
	"REQUESTED_SERVER_NAME": {Name: "requested_server_name", Kind: Word}, "ROUTE_NAME": {Name: "route_name", Kind: Word},
	"CONNECTION_TERMINATION_DETAILS": {Name: "connection_termination_details", Kind: Word},
}

// Envoy compiles a text format of Envoy's access log (text_format_source, or
// Istio's accessLogFormat).
func Envoy(text string) (*Format, error) {
	const what = "text_format"
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), `\n`)
	var pieces []piece
	for i := 0; i < len(text); {
		if text[i] != '%' {
			pieces, i = append(pieces, piece{lit: text[i : i+1], at: i}), i+1
			continue
		}
		if strings.HasPrefix(text[i:], "%%") {
			pieces, i = append(pieces, piece{lit: "%", at: i}), i+2
			continue
		}
		end := strings.IndexByte(text[i+1:], '%')
		if open := strings.IndexByte(text[i+1:], '('); open >= 0 && open < end { // START_TIME(%s)
			shut := strings.Index(text[i+1:], ")")
			if shut < 0 {
				return nil, formatError(what, text, i, "( is not closed")
			}
			if end = strings.IndexByte(text[i+1+shut:], '%'); end >= 0 {
				end += shut
			}
		}
		if end <= 0 {
			return nil, formatError(what, text, i, "a single %; write %% for a percent sign")
		}
		word, n := text[i+1:i+1+end], i+end+2
		word, _, _ = strings.Cut(word, "):") // drop the length limit
		if strings.Contains(word, "(") && !strings.HasSuffix(word, ")") {
			word += ")"
		}
		field, ok := envoyOperators[strings.ToUpper(word)]
		switch {
		case ok:
		case strings.HasPrefix(word, "START_TIME("):
			return nil, formatError(what, text, i, "START_TIME with a format is not supported; use START_TIME without one")
		default:
			field = Field{Name: strings.Trim(name(word), "_")}
		}
		field.Source = text[i:n]
		pieces = append(pieces, piece{field: &field, at: i})
		if field.Kind == Address && !strings.HasSuffix(word, "WITHOUT_PORT") {
			pieces = append(pieces, piece{lit: ":", at: i}, piece{field: &Field{Name: field.Name + "_port", Kind: Number, Source: field.Source}, at: i})
		}
		i = n
	}
	f, err := compile(&Format{Name: "Envoy's text format"}, what, text, pieces)
	if err == nil {
		for _, name := range []string{FieldMethod, FieldProtocol, FieldStatus} {
			if at := f.Field(name); at >= 0 {
				f.absent = append(f.absent, at)
			}
		}
		if len(f.absent) < 2 { // a status of 0 alone means a request without a response
			f.absent = nil
		}
	}
	return f, err
}
