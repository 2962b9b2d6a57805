package logformat

import (
	"slices"
	"strings"
)

// haproxyHTTP is the format of `option httplog` (configuration manual, 8.2.3).
const haproxyHTTP = `%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r`

// haproxyCLF is the format of `option httplog clf`.
const haproxyCLF = `%{+Q}o %{-Q}ci - - [%trg] %r %ST %B "" "" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl`

// haproxyCLFBare is haproxyCLF without captured headers.
var haproxyCLFBare = HAProxyCaptures(haproxyCLF, 0, 0)

// haproxyTCP is the format of `option tcplog`, for connections (configuration
// manual, 8.2.2).
const haproxyTCP = `%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq`

// haproxyFields are HAProxy's log variables (configuration manual, 8.2.6).
// Times are in milliseconds; -1 means that a phase was not reached.
var haproxyFields = map[string]Field{
	"ci": {Name: FieldClient, Kind: Address}, "cp": {Name: "client_port", Kind: Number}, "tr": {Name: FieldTime, Kind: Time, Layout: CLFMilli}, "t": {Name: FieldTime, Kind: Time, Layout: CLFMilli},
	"trg": {Name: FieldTime, Kind: Time}, "trl": {Name: FieldTime, Kind: Time}, "T": {Name: FieldTime, Kind: Time}, "Tl": {Name: FieldTime, Kind: Time}, "Ts": {Name: FieldTime, Kind: Time, Layout: Unix, Unit: 1e9},
	"ms": {Name: "time_fraction"},
	"f":  {Name: "frontend"}, "ft": {Name: "frontend"}, "b": {Name: "backend"}, "s": {Name: "server"},
	"TR": {Name: "wait_request", Kind: Duration, Unit: 1e6, Digits: true}, "Tw": {Name: "wait_queue", Kind: Duration, Unit: 1e6, Digits: true}, "Tc": {Name: "wait_connect", Kind: Duration, Unit: 1e6, Digits: true},
	"Tr": {Name: "wait_response", Kind: Duration, Unit: 1e6, Digits: true}, "Ta": {Name: FieldDuration, Kind: Duration, Unit: 1e6, Digits: true}, "Tt": {Name: "session_duration", Kind: Duration, Unit: 1e6, Digits: true}, "Tq": {Name: "wait_client", Kind: Duration, Unit: 1e6, Digits: true},
	"Th": {Name: "wait_handshake", Kind: Duration, Unit: 1e6, Digits: true}, "Ti": {Name: "wait_idle", Kind: Duration, Unit: 1e6, Digits: true}, "Td": {Name: "duration_data", Kind: Duration, Unit: 1e6, Digits: true}, "Tu": {Name: "duration_user", Kind: Duration, Unit: 1e6, Digits: true},
	"ST": {Name: FieldStatus, Kind: Number}, "B": {Name: FieldBytes, Kind: Number}, "U": {Name: "bytes_in", Kind: Number}, "CC": {Name: "cookie_in"}, "CS": {Name: "cookie_out"},
	"ts": {Name: "termination"}, "tsc": {Name: "termination"}, "ac": {Name: "connections", Kind: Number}, "fc": {Name: "frontend_connections", Kind: Number}, "bc": {Name: "backend_connections", Kind: Number}, "sc": {Name: "server_connections", Kind: Number}, "rc": {Name: "retries", Kind: Number},
	"sq": {Name: "server_queue", Kind: Number}, "bq": {Name: "backend_queue", Kind: Number}, "hr": {Name: "captured_in", Braced: true}, "hs": {Name: "captured_out", Braced: true}, "hrl": {Name: "captured_in"}, "hsl": {Name: "captured_out"},
	"r": {Name: FieldRequest, Kind: Request}, "ID": {Name: "request_id"}, "HM": {Name: FieldMethod}, "HP": {Name: FieldPath}, "HPO": {Name: FieldPath}, "HQ": {Name: FieldQuery}, "HU": {Name: FieldURL, Kind: URL}, "HV": {Name: FieldProtocol},
	"H": {Name: "hostname"}, "pid": {Name: "pid"}, "rt": {Name: "request_number", Kind: Number}, "lc": {Name: "log_number"}, "sslc": {Name: "tls_cipher"}, "sslv": {Name: "tls_version"},
	"fi": {Name: "frontend_address", Kind: Address}, "fp": {Name: "frontend_port", Kind: Number}, "bi": {Name: "backend_address", Kind: Address}, "bp": {Name: "backend_port", Kind: Number}, "si": {Name: "server_address", Kind: Address}, "sp": {Name: "server_port", Kind: Number},
}

// HAProxyFormats are the formats of HAProxy's options for HTTP logs.
var HAProxyFormats = map[string]string{
	"httplog": haproxyHTTP, "httplog clf": haproxyCLF,
	"httpslog": haproxyHTTP + ` %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc`,
}

// HAProxyCaptures returns a format for given numbers of captured request and response headers.
// HAProxy's %hrl and %hsl write each header separately, or nothing without headers.
func HAProxyCaptures(text string, requests, responses int) string {
	for word, n := range map[string]int{" %hrl": requests, " %hsl": responses} {
		text = strings.ReplaceAll(text, word, strings.Repeat(word, n))
	}
	return text
}

// haproxyBare lists text variables that HAProxy never quotes (src/log.c), as it does not quote
// numbers and times.
var haproxyBare = []string{"ms", "ts", "tsc", "rc", "lc", "rt", "pid", "cp", "fp", "bp", "sp"}

// haproxyHashed lists the variables with #XX escapes.
var haproxyHashed = []string{"r", "HM", "HP", "HPO", "HQ", "HU", "HV", "hr", "hs", "hrl", "hsl"}

// HAProxy compiles a log-format of HAProxy, given without the quotes of the configuration. A
// sample expression (%[...]) becomes a field named by its text. A syslog prefix of lines is
// removed.
func HAProxy(text string) (*Format, error) {
	const what = "log-format"
	var pieces []piece
	all := "" // flags of %o, which apply to all following fields
	space := true
	for i := 0; i < len(text); {
		switch {
		case text[i] == ' ': // several count as one; leading ones are dropped
			if !space {
				pieces = append(pieces, piece{lit: " ", at: i})
			}
			space = true
			i++
			continue
		case text[i] == '\\' && i+1 < len(text):
			pieces, i, space = append(pieces, piece{lit: text[i+1 : i+2], at: i}), i+2, false
			continue
		case strings.HasPrefix(text[i:], "%%"):
			pieces, i, space = append(pieces, piece{lit: "%", at: i}), i+2, false
			continue
		case text[i] != '%' || i+1 == len(text):
			pieces, i, space = append(pieces, piece{lit: text[i : i+1], at: i}), i+1, false
			continue
		}
		n, flags := i+1, ""
		if text[n] == '{' {
			end := strings.IndexByte(text[n:], '}')
			if end < 0 {
				return nil, formatError(what, text, i, "{ is not closed")
			}
			flags, n = text[n+1:n+end], n+end+1
		}
		var field Field
		variable := ""
		if n < len(text) && text[n] == '[' {
			end := closing(text[n:])
			if end < 0 {
				return nil, formatError(what, text, i, "[ is not closed")
			}
			field, n = Field{Name: name(text[n+1 : n+end])}, n+end+1
		} else {
			from := n
			for n < len(text) && (text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z') {
				n++
			}
			if variable = text[from:n]; variable == "o" {
				all, i = all+flags, n
				continue
			}
			var ok bool
			if field, ok = haproxyFields[variable]; !ok {
				return nil, formatError(what, text, i, "unknown HAProxy log variable")
			}
		}
		field.Source = text[i:n]
		flags = all + flags
		is := func(flag string) bool { return strings.LastIndex(flags, "+"+flag) > strings.LastIndex(flags, "-"+flag) }
		switch {
		case slices.Contains(haproxyHashed, variable):
			field.Escape = Hash
		case is("E"):
			field.Escape = Brackets
		}
		if is("X") && (field.Kind == Number || field.Kind == Address) {
			field.Kind = Text // hexadecimal
		}
		quoted := is("Q") && field.Kind != Number && field.Kind != Duration && field.Kind != Time && !slices.Contains(haproxyBare, variable)
		if quoted && field.Braced {
			field.quotes, quoted = true, false // quotes are omitted with the braces
		}
		if quoted {
			pieces = append(pieces, piece{lit: `"`, at: i})
		}
		pieces = append(pieces, piece{field: &field, at: i})
		if quoted {
			pieces = append(pieces, piece{lit: `"`, at: i})
		}
		i, space = n, false
	}
	if n := len(pieces); n > 0 && pieces[n-1].lit == " " {
		pieces = pieces[:n-1]
	}
	return compile(&Format{Name: "HAProxy's log-format", wrap: &wraps[0], trailing: true}, what, text, pieces)
}

// closing returns the index of the bracket that closes the first bracket. It ignores brackets
// in quotes.
func closing(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
