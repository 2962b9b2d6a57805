package logs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/testkit/root"
)

// requestRecord is a request in a server's log.
type requestRecord struct {
	r                                      *rand.Rand
	client                                 netip.Addr
	port                                   uint16
	at                                     time.Time
	us                                     int64
	status                                 int
	user, url, referer, agent, xff, method string
}

// newRecord returns a request with texts that a client chooses.
func newRecord(seed uint64, texts [5]string) requestRecord {
	r := rand.New(rand.NewPCG(seed, 1))
	w := requestRecord{r: r, port: uint16(r.Uint32()), at: time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC(), us: r.Int64N(1 << (1 + r.IntN(36))), status: 100 + r.IntN(500)}
	w.user, w.url, w.referer, w.agent, w.xff = texts[0], "/"+texts[1], texts[2], texts[3], texts[4]
	w.method = []string{"GET", "POST", "OPTIONS", "M-SEARCH"}[r.IntN(4)]
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch r.IntN(4) {
	case 0:
		w.client = netip.AddrFrom16(b)
	case 1:
		w.client = netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
	case 2:
		w.client = netip.MustParseAddr([]string{"::1", "fe80::1%eth0", "2001:db8::", "::"}[r.IntN(4)])
	default:
		w.client = netip.AddrFrom4([4]byte(b[:4]))
	}
	return w
}

// apache, nginx and haproxy escape a text as these programs do (ap_escape_logitem of httpd 2.4,
// ngx_http_log_escape of nginx 1.22, lf_encode_string of HAProxy 2.6 with rfc5424 hexadecimal).
func apacheText(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch i := strings.IndexByte("\b\n\r\t\v\\\"", c); {
		case i >= 0:
			b.WriteString([]string{`\b`, `\n`, `\r`, `\t`, `\v`, `\\`, `\"`}[i])
		case c < 32 || c > 126:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func hexed(s, before string, also string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 32 || c > 126 || strings.IndexByte(also, c) >= 0 {
			fmt.Fprintf(&b, "%s%02X", before, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// dash returns the text that servers write for a missing value.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// dialect is how a server writes a field with a client's text.
type dialect func(s string) string

var dialects = map[string]dialect{
	"apache":  apacheText,
	"nginx":   func(s string) string { return hexed(s, `\x`, `"\`) },
	"haproxy": func(s string) string { return hexed(s, "#", `"#{}|`) },
	// What has no way to write a quote is given none: a line with one is of no format.
	"": func(s string) string {
		return strings.Map(func(c rune) rune {
			if c < 32 || c == '"' || c > 126 {
				return -1
			}
			return c
		}, s)
	},
}

// value returns a field as the server writes it, and the expected result of the reader.
func (w requestRecord) value(f *logformat.Field, quoted bool, write dialect) (text, want string) {
	word := fmt.Sprintf("w%d", w.r.IntN(1000))
	hostile := map[string]string{"user": w.user, "referer": w.referer, "user_agent": w.agent, "forwarded_for": w.xff, "request": w.method + " " + w.url + " HTTP/1.1"}
	switch {
	case f.Kind == logformat.Address && strings.HasSuffix(f.Name, "client"):
		return w.client.String(), w.client.String()
	case f.Kind == logformat.Address || f.Kind == logformat.Host:
		return "10.0.0.1", "10.0.0.1"
	case f.Kind == logformat.Ident:
		return "-", "-"
	case f.Kind == logformat.Word || f.Name == "method" || f.Name == "protocol":
		return word, word
	case f.Kind == logformat.URL:
		s := strings.ReplaceAll(write(w.url), " ", "%20")
		return s, ""
	case f.Name == "status":
		s := fmt.Sprint(w.status)
		return s, s
	case f.Kind == logformat.Number && f.List:
		return "200, 502", "200, 502"
	case f.Kind == logformat.Number:
		s := []string{fmt.Sprint(w.r.Int64N(1 << (1 + w.r.IntN(40)))), "0", "-"}[w.r.IntN(3)]
		if strings.Contains(f.Name, "port") {
			s = fmt.Sprint(w.port)
		}
		return s, s
	case f.Kind == logformat.Time:
		return w.time(f), ""
	case f.Kind == logformat.Duration && f.List:
		s := []string{"-", "0.010", "0.010, 0.002 : 1.100", "-, 0.002"}[w.r.IntN(4)]
		return s, s
	case f.Kind == logformat.Duration && f.Unit == 1e9 && !f.Digits:
		s := fmt.Sprintf("%d.%03d", w.us/1e6, w.us/1e3%1e3)
		return s, s
	case f.Kind == logformat.Duration:
		s := fmt.Sprint(w.us * 1000 / f.Unit)
		return s, s
	}
	s, ok := hostile[f.Name]
	if !ok && quoted {
		s, ok = w.agent, true
	}
	if !ok || s == "" {
		return dash(""), "-"
	}
	text = write(s)
	if f.Name == "user" { // RFC 7617: a user's name has no control character
		text = write(strings.TrimSpace(s))
	}
	return dash(text), ""
}

func (w requestRecord) time(f *logformat.Field) string {
	switch f.Layout {
	case logformat.CLF:
		return w.at.Format("02/Jan/2006:15:04:05 -0700")
	case logformat.CLFMilli:
		return w.at.Format("02/Jan/2006:15:04:05.000")
	}
	return w.at.Format("2006-01-02T15:04:05.000Z")
}

// line writes a request in a format: it replaces each field in the format's text.
func (w requestRecord) line(language, text string, f *logformat.Format) (string, map[string]string) {
	var b strings.Builder
	want := map[string]string{}
	rest := text
	write := dialects[language]
	if write == nil {
		write = dialects[""]
	}
	for i := range f.Fields {
		field := &f.Fields[i]
		if field.Name == "captured" { // which of two it is, if it stands alone, no line says
			want["captured"] = ""
			if want["captured_in"] == "" || want["captured_out"] == "" {
				want["captured"] = want["captured_in"] + want["captured_out"]
				want["captured_in"], want["captured_out"] = "", ""
			}
			continue
		}
		if i > 0 && field.Source == f.Fields[i-1].Source { // the port of an address
			port := fmt.Sprint(w.port)
			want[field.Name] = port
			b.WriteString(":" + port)
			continue
		}
		n := strings.Index(rest, field.Source)
		b.WriteString(rest[:n])
		quoted := strings.HasSuffix(rest[:n], `"`) || strings.Contains(field.Source, "+Q")
		rest = rest[n+len(field.Source):]
		value, is := w.value(field, quoted, write)
		if i+1 < len(f.Fields) && f.Fields[i+1].Source == field.Source && strings.Contains(value, ":") {
			is = value
			value = "[" + value + "]" // Envoy
		}
		if is == "" {
			is = string(field.Escape.Unescape([]byte(value)))
		}
		if language == "apache" && field.Kind == logformat.Time {
			value = "[" + value + "]"
		}
		if language == "haproxy" && strings.Contains(field.Source, "+Q") {
			value = `"` + value + `"`
		}
		if field.Braced {
			is = []string{"", "{" + value + "}"}[w.r.IntN(2)]
			if value = is; value == "" {
				rest = strings.TrimPrefix(rest, " ")
			}
		}
		want[field.Name] = is
		b.WriteString(value)
	}
	return b.String() + rest, want
}

// columns writes a request as an AWS load balancer does: words separated by spaces, and client
// texts in quotes.
func (w requestRecord) columns(f *logformat.Format) (string, map[string]string) {
	var words []string
	want := map[string]string{}
	all := ""
	for i := range f.Fields {
		field := &f.Fields[i]
		value, is := w.value(field, field.Escape != logformat.Verbatim, apacheText)
		switch {
		case strings.HasSuffix(field.Name, "_port"):
			want[field.Name] = value
			continue
		case field.Sum:
			want[field.Name] = strings.TrimSpace(all)
			continue
		case field.Kind == logformat.Address:
			want[field.Name] = value
			words = append(words, value+":"+want[field.Name+"_port"])
			continue
		case field.Kind == logformat.Duration:
			if w.r.IntN(8) == 0 {
				value, is = "-1", "-1"
			}
			all += " " + value
		}
		if is == "" {
			is = string(field.Escape.Unescape([]byte(value)))
		}
		if field.Escape != logformat.Verbatim {
			value = `"` + value + `"`
		}
		want[field.Name] = is
		words = append(words, value)
	}
	return strings.Join(words, " "), want
}

// haproxyCLF writes a request as option httplog clf does, with one captured request header and one
// captured response header. Texts are in quotes; numbers, times and the client are not.
func (w requestRecord) haproxyCLF(f *logformat.Format) (string, map[string]string) {
	want := map[string]string{}
	var b strings.Builder
	for i := range f.Fields {
		field := &f.Fields[i]
		value, is := w.value(field, field.Escape != logformat.Verbatim, dialects["haproxy"])
		bare := field.Kind == logformat.Number || field.Kind == logformat.Duration || field.Kind == logformat.Time || field.Name == "client" || field.Name == "termination" || field.Name == "time_fraction"
		if is == "" {
			is = string(field.Escape.Unescape([]byte(value)))
		}
		want[field.Name] = is
		switch {
		case field.Name == "client":
			value += " - -"
		case field.Kind == logformat.Time:
			value = "[" + value + "]"
		case !bare:
			value = `"` + value + `"`
		case field.Name == "client_port":
			value = `"" "" ` + value
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(value)
	}
	return b.String(), want
}

// wrapped adds the prefix of another program to a line.
func (w requestRecord) wrapped(line string) string {
	inMember := func(text string) string {
		b, _ := json.Marshal(line)
		return fmt.Sprintf(text, b)
	}
	switch w.r.IntN(16) {
	case 0:
		return w.at.Format("Jan _2 15:04:05") + " web1 nginx: " + line
	case 1:
		return "<134>" + w.at.Format("Jan _2 15:04:05") + " haproxy[123]: " + line
	case 2:
		return "<134>1 " + w.at.Format("2006-01-02T15:04:05.000000+00:00") + " web1 haproxy 123 - - " + line
	case 3:
		return "<6>" + line
	case 4:
		return w.at.Format("2006-01-02T15:04:05.000000000Z") + " stdout F " + line
	case 5:
		text, _ := json.Marshal(line + "\n")
		return `{"log":` + string(text) + `,"stream":"stdout","time":"` + w.at.Format(time.RFC3339Nano) + `"}`
	case 6:
		return "web-1  | " + line
	case 7:
		return w.at.Format("2006-01-02T15:04:05.000000Z07:00") + " " + line
	case 8:
		return inMember(`{"__CURSOR":"s=1;i=2","MESSAGE":%s,"PRIORITY":"6"}`)
	case 9:
		return inMember(`{"@timestamp":"2026-11-20T10:00:00Z","log":{"offset":7},"message":%s,"host":{"name":"a"}}`)
	case 10:
		return inMember(`{"date":1795168809.5,"log":%s}`)
	case 11:
		return inMember(`{"labels":{"app":"web"},"line":%s}`)
	case 12:
		return "web-7f9c5d-x2x web " + line
	case 13:
		return "[pod/web-7f9c5d-x2x/web] " + line
	}
	return line
}

// requestWritten are formats in the language of --format.
var requestWritten = []string{
	"apache:" + `%h %l %u %t "%r" %>s %b`, "apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, "apache:" + `%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`,
	"apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %I %O`, "apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %T %D`, "apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D %I %O`,
	"apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i"`, "apache:" + `%v %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, "apache:" + `%h %l %u %t "%r" %>s %b %D "%{Referer}i" "%{User-Agent}i"`,
	"nginx:" + logformat.NginxCombined, "nginx:" + logformat.NginxCombined + ` "$http_x_forwarded_for"`, "nginx:" + logformat.NginxCombined + ` $request_time $upstream_response_time`,
	"nginx:" + logformat.NginxCombined + ` "$http_x_forwarded_for" rt=$request_time uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time"`,
	"nginx:" + logformat.NginxCombined + ` "$http_x_forwarded_for" "$request_time"`,
	"ingress-nginx", "haproxy", "haproxy-tcp", "haproxy-https", "haproxy-clf", "aws-alb", "aws-nlb", "puppetserver", "puppetdb", "envoy", "istio", "traefik",
	"aws-elb", "pulp", "apache:" + `%v %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i"`, "apache:" + `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" D=%D`,
	"nginx:$host " + logformat.NginxCombined + ` "$http_x_forwarded_for" rt=$request_time urt="$upstream_response_time"`,
}

// writes returns the format for an entry of requestWritten, and its language.
func writes(t testing.TB, text string) (language, source string, f *logformat.Format) {
	t.Helper()
	f, err := logformat.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	language, _, ok := strings.Cut(text, ":")
	if !ok {
		language = map[string]string{"pulp": "apache", "ingress-nginx": "nginx", "haproxy": "haproxy", "haproxy-tcp": "haproxy", "haproxy-https": "haproxy", "haproxy-clf": "haproxy"}[text]
	}
	return language, f.Source, f
}

// readBack writes a request in a format and reads it. It returns false if the line was refused.
func readBack(t *testing.T, text string, w requestRecord) bool {
	t.Helper()
	language, source, f := writes(t, text)
	if text == "traefik" {
		for i := range f.Fields {
			f.Fields[i].Source = "{" + f.Fields[i].Name + "}"
		}
	}
	var line string
	var want map[string]string
	switch text {
	case "aws-alb", "aws-nlb", "aws-elb":
		line, want = w.columns(f)
	case "haproxy-clf":
		line, want = w.haproxyCLF(f)
	default:
		line, want = w.line(language, source, f)
	}
	line = w.wrapped(line)
	if strings.ContainsAny(line, "\x00\n") || text == "aws-elb" && strings.HasPrefix(line, "<6>") { // what begins with a time is timed's (HAProxy)
		return true
	}
	f.Reads([]byte(line + "\n"))
	var r Request
	if NewReader(f).Read([]byte(line), &r) != logformat.RequestLine {
		t.Logf("%s: refused: %q", text, line)
		return false
	}
	for i := range f.Fields {
		name := f.Fields[i].Name
		if got := string(r.Field(i)); got != want[name] {
			t.Errorf("%s: %s of %q is %q, was %q", text, name, line, got, want[name])
		}
	}
	return true
}

// FuzzWritten writes a known request in every known format, with a client's texts, as the servers
// write it, and reads it: each field is as written, or the line is refused.
func FuzzWritten(f *testing.F) {
	f.Add(uint64(1), "joe", "a?b=c", "-", "curl/8", "203.0.113.7, 10.0.0.1")
	f.Add(uint64(2), "john [doe", `a" 200 5 "-" "`, `" "`, `\" 17 {x} \\`, `\x22`)
	f.Add(uint64(3), `- -`, "#22\xff ", "\t\v", `a" "b`, `{"log":"`)
	f.Fuzz(func(t *testing.T, seed uint64, user, url, referer, agent, xff string) {
		if len(user)+len(url)+len(referer)+len(agent)+len(xff) > 4096 {
			return
		}
		for _, text := range requestWritten {
			readBack(t, text, newRecord(seed, [5]string{user, url, referer, agent, xff}))
		}
	})
}

// TestWrittenIsRead tests that at least 99.9 % of the lines that servers can write, with any client
// texts, are read, and all of their fields correctly.
func TestWrittenIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pieces := []string{"a", "/", "?", "&", "=", " ", `"`, `\`, "[", "]", `" "`, ` - `, "200", ": ", "|", "#", "%20", "{", "}", "ä", "\t", "Mozilla/5.0 (X11; Linux)", "10.0.0.1", "[20/Nov/2026:10:00:00 +0000]", "HTTP/1.1"}
	for _, text := range requestWritten {
		all := root.Sample(1000)
		refused := 0
		for i := range all {
			var texts [5]string
			for k := range texts {
				for range r.IntN(6) {
					texts[k] += pieces[r.IntN(len(pieces))]
				}
			}
			if !readBack(t, text, newRecord(uint64(i), texts)) {
				refused++
			}
		}
		if refused*1000 > max(all, 1000) {
			t.Errorf("%s: %d of %d lines are refused", text, refused, all)
		}
	}
}

// TestJSONStatus: a status that no class has makes a JSON line unreadable.
func TestJSONStatus(t *testing.T) {
	const line = `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/","status":%s}`
	f := logformat.JSON([][]byte{fmt.Appendf(nil, line, "200")}, nil)
	for status, want := range map[string]logformat.LineKind{
		"200": logformat.RequestLine, "2e2": logformat.RequestLine, "200.0": logformat.RequestLine, `"200"`: logformat.RequestLine, "0": logformat.RequestLine,
		"5e3": logformat.BadLine, "5000": logformat.BadLine, "50": logformat.BadLine, "5e1": logformat.BadLine, "0200": logformat.BadLine, "-1": logformat.RequestLine,
	} {
		var r Request
		if got := NewReader(f).Read(fmt.Appendf(nil, line, status), &r); got != want {
			t.Errorf("status %s: %d, want %d", status, got, want)
		}
	}
}
