package logformat

import "strings"

// nginxVariables are nginx variables (ngx_http_core_module,
// ngx_http_log_module, ngx_http_upstream_module, "Embedded Variables").
// Durations are in seconds with millisecond resolution.
var nginxVariables = map[string]Field{
	"remote_addr": {Name: FieldClient, Kind: Address}, "remote_user": {Name: FieldUser}, "http_referer": {Name: "referer"}, "http_user_agent": {Name: "user_agent"},
	"http_x_forwarded_for": {Name: "forwarded_for"}, "host": {Name: FieldHost, Kind: Host}, "http_host": {Name: FieldHost}, "server_name": {Name: "server_name", Kind: Word}, // nginx rejects hosts with blanks
	"time_local": {Name: FieldTime, Kind: Time}, "time_iso8601": {Name: FieldTime, Kind: Time, Layout: ISO}, "msec": {Name: FieldTime, Kind: Time, Layout: Unix, Unit: 1e9},
	"request": {Name: FieldRequest, Kind: Request}, "request_method": {Name: FieldMethod}, "request_uri": {Name: FieldURL, Kind: URL},
	"uri": {Name: FieldPath}, "document_uri": {Name: FieldPath}, "args": {Name: FieldQuery}, "query_string": {Name: FieldQuery}, "is_args": {Name: FieldQuery}, "server_protocol": {Name: FieldProtocol},
	"status": {Name: FieldStatus, Kind: Number}, "body_bytes_sent": {Name: FieldBytes, Kind: Number}, "bytes_sent": {Name: "bytes_both", Kind: Number}, "request_length": {Name: "bytes_in", Kind: Number},
	"request_time":           {Name: FieldDuration, Kind: Duration, Unit: 1e9},
	"upstream_response_time": {Name: "upstream_duration", Kind: Duration, Unit: 1e9, List: true}, "upstream_connect_time": {Name: "upstream_connect", Kind: Duration, Unit: 1e9, List: true}, "upstream_header_time": {Name: "upstream_header", Kind: Duration, Unit: 1e9, List: true},
	"remote_port": {Name: "remote_port", Kind: Number}, "server_port": {Name: "server_port", Kind: Number}, "proxy_protocol_port": {Name: "proxy_protocol_port", Kind: Number}, "realip_remote_port": {Name: "realip_remote_port", Kind: Number},
	"upstream_response_length": {Name: "upstream_response_length", Kind: Number, List: true}, "upstream_status": {Name: "upstream_status", Kind: Number, List: true},
	"req_id": {Name: "request_id", Kind: Word}, "request_id": {Name: "request_id", Kind: Word},
	"upstream_cache_status": {Name: "cache"}, "connection_requests": {Name: "keepalive_requests", Kind: Number}, "ssl_client_s_dn": {Name: "certname"},
}

// NginxCombined is nginx's default format.
const NginxCombined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// nginxMain is the log_format main in nginx.conf of nginx.org's packages and images.
const nginxMain = NginxCombined + ` "$http_x_forwarded_for"`

// ingressNginx is the default log-format-upstream of the NGINX Ingress Controller
// (kubernetes/ingress-nginx, user guide, "Log format").
const ingressNginx = NginxCombined + ` $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id`

// NginxEscapes are the values of escape= in a log_format.
var NginxEscapes = map[string]Escape{"default": Backslash, "json": JSONString, "none": Verbatim}

// Nginx compiles a log_format of nginx. text is its joined strings without quotes, optionally
// after escape=WORD and a blank.
func Nginx(text string) (*Format, error) {
	const what = "log_format"
	escape, begin := Backslash, 0
	if rest, ok := strings.CutPrefix(text, "escape="); ok {
		word, _, _ := strings.Cut(rest, " ")
		if escape, ok = NginxEscapes[word]; !ok {
			return nil, formatError(what, text, len("escape="), "escape must be default, json or none")
		}
		begin = min(len("escape=")+len(word)+1, len(text))
	}
	var pieces []piece
	for i := begin; i < len(text); {
		if text[i] != '$' {
			pieces, i = append(pieces, piece{lit: text[i : i+1], at: i}), i+1
			continue
		}
		n, variable := i+1, ""
		if n < len(text) && text[n] == '{' {
			end := strings.IndexByte(text[n:], '}')
			if end < 0 {
				return nil, formatError(what, text, i, "{ is not closed")
			}
			variable, n = text[n+1:n+end], n+end+1
		} else {
			for n < len(text) && (text[n] == '_' || text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z' || text[n] >= '0' && text[n] <= '9') {
				n++
			}
			variable = text[i+1 : n]
		}
		if variable == "" {
			return nil, formatError(what, text, i, "the name of the variable is missing after $")
		}
		field, ok := nginxVariables[variable]
		if !ok {
			field = Field{Name: name(variable)}
		}
		field.Source, field.Escape = text[i:n], escape
		pieces, i = append(pieces, piece{field: &field, at: i}), n
	}
	return compile(&Format{Name: "nginx' log_format", TimeIsEnd: true}, what, text, pieces)
}
