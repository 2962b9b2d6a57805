package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// keys cuts one JSON object a line. The members of objects within it have names with
// points between them: http.response.status_code.
type keys struct {
	root   node
	fields int
}

// node is an object's members by name.
type node struct {
	members map[string]*node
	field   int // -1: none
}

// add asks for a member. A point in its name may be between an object and its member or
// stand in the name of one: loggers that keep to Elastic's schema write both.
func (k *keys) add(dotted string, field int) {
	k.root.add(strings.Split(dotted, "."), field)
	k.fields = max(k.fields, field+1)
}

// mostWords is the most words of a name that are taken together in every way.
const mostWords = 6

func (n *node) add(words []string, field int) {
	if len(words) == 0 {
		n.field = field
		return
	}
	most := len(words)
	if most > mostWords {
		most = 1
	}
	for i := 1; i <= most; i++ {
		name := strings.Join(words[:i], ".")
		if n.members == nil {
			n.members = map[string]*node{}
		}
		next := n.members[name]
		if next == nil {
			next = &node{field: -1}
			n.members[name] = next
		}
		next.add(words[i:], field)
	}
}

// depth is how deep an object may lie in others.
const depth = 32

func (k *keys) scan(line []byte, spans []Span) Line {
	clear(spans)
	at := space(line, 0)
	if at == len(line) || line[at] != '{' {
		return Bad
	}
	if at = k.object(line, at, &k.root, spans, depth); at < 0 || space(line, at) < len(line) {
		return Bad
	}
	return Whole
}

// object reads one that begins at at, and gives where it ends, or -1. A nil node is one
// whose members nobody asked for.
func (k *keys) object(line []byte, at int, n *node, spans []Span, deep int) int {
	if deep == 0 {
		return -1
	}
	at = space(line, at+1)
	if at < len(line) && line[at] == '}' {
		return at + 1
	}
	for {
		if at >= len(line) || line[at] != '"' {
			return -1
		}
		end := stringEnd(line, at)
		if end < 0 {
			return -1
		}
		var member *node
		if n != nil {
			member = n.members[string(line[at+1:end-1])]
		}
		at = space(line, end)
		if at >= len(line) || line[at] != ':' {
			return -1
		}
		if at = k.value(line, space(line, at+1), member, spans, deep); at < 0 {
			return -1
		}
		at = space(line, at)
		if at >= len(line) {
			return -1
		}
		switch line[at] {
		case ',':
			at = space(line, at+1)
		case '}':
			return at + 1
		default:
			return -1
		}
	}
}

func (k *keys) value(line []byte, at int, n *node, spans []Span, deep int) int {
	if at >= len(line) {
		return -1
	}
	from := at
	var end int
	switch line[at] {
	case '"':
		if end = stringEnd(line, at); end < 0 {
			return -1
		}
		if n != nil && n.field >= 0 {
			spans[n.field] = span(from+1, end-1)
		}
		return end
	case '{':
		if n != nil && n.members == nil {
			n = nil
		}
		return k.object(line, at, n, spans, deep-1)
	case '[':
		if end = k.array(line, at, spans, deep-1); end < 0 {
			return -1
		}
	default:
		for end = at; end < len(line) && !bytes.ContainsRune([]byte(",}] \t\r"), rune(line[end])); end++ {
		}
		if end == at || !literal(line[at:end]) {
			return -1
		}
	}
	if n != nil && n.field >= 0 && string(line[from:end]) != "null" {
		spans[n.field] = span(from, end)
	}
	return end
}

func (k *keys) array(line []byte, at int, spans []Span, deep int) int {
	if deep == 0 {
		return -1
	}
	at = space(line, at+1)
	if at < len(line) && line[at] == ']' {
		return at + 1
	}
	for {
		if at = k.value(line, at, nil, spans, deep); at < 0 {
			return -1
		}
		at = space(line, at)
		if at >= len(line) {
			return -1
		}
		switch line[at] {
		case ',':
			at = space(line, at+1)
		case ']':
			return at + 1
		default:
			return -1
		}
	}
}

func literal(text []byte) bool {
	switch string(text) {
	case "true", "false", "null":
		return true
	}
	_, err := strconv.ParseFloat(string(text), 64)
	return err == nil
}

func space(line []byte, at int) int {
	for at < len(line) && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
		at++
	}
	return at
}

// stringEnd is behind the quote that ends the string which begins at at, or -1.
func stringEnd(line []byte, at int) int {
	from := at + 1
	for {
		n := bytes.IndexByte(line[from:], '"')
		if n < 0 {
			return -1
		}
		n += from
		if !escaped(line[at+1:], n-at-1) {
			return n + 1
		}
		from = n + 1
	}
}

// known are names of members that web servers, frameworks and shippers give to what has
// a meaning here, with the unit where the name or its product says it.
var known = []struct {
	field Field
	names []string
}{
	{Field{Name: FieldTime, Kind: Time}, []string{"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "datetime", "date", "msec", "StartUTC", "start_time"}},
	{Field{Name: FieldDuration, Kind: Duration, Unit: 1e9}, []string{"request_time", "duration_s", "duration_seconds", "elapsed_s", "latency_s", "response_time_s", "latency_seconds"}},
	{Field{Name: FieldDuration, Kind: Duration, Unit: 1e6}, []string{"duration_ms", "elapsed_ms", "latency_ms", "response_time_ms", "took_ms", "request_time_ms"}},
	{Field{Name: FieldDuration, Kind: Duration, Unit: 1e3}, []string{"duration_us", "elapsed_us", "latency_us", "response_time_us", "request_time_us"}},
	{Field{Name: FieldDuration, Kind: Duration, Unit: 1}, []string{"event.duration", "duration_ns", "latency_ns", "elapsed_ns", "Duration"}}, // Elastic's schema; Traefik
	{Field{Name: FieldRequest, Kind: Request}, []string{"request", "request_line"}},
	{Field{Name: FieldMethod}, []string{"method", "request_method", "http.request.method", "request.method", "verb", "RequestMethod"}},
	{Field{Name: FieldURL, Kind: URL}, []string{"request_uri", "uri", "url", "url.original", "request.uri", "path", "url.path", "RequestPath"}},
	{Field{Name: FieldQuery}, []string{"query_string", "query", "args", "url.query"}},
	{Field{Name: FieldProtocol}, []string{"protocol", "server_protocol", "request.proto", "RequestProtocol"}},
	{Field{Name: FieldStatus, Kind: Number}, []string{"status", "status_code", "http.response.status_code", "response.status", "code", "DownstreamStatus"}},
	{Field{Name: FieldBytes, Kind: Number}, []string{"body_bytes_sent", "bytes_sent", "bytes", "size", "response_size", "http.response.body.bytes", "DownstreamContentSize"}},
	{Field{Name: FieldClient}, []string{"remote_addr", "client_ip", "remote_ip", "client.ip", "source.ip", "request.remote_ip", "client", "ip", "ClientHost"}},
	{Field{Name: FieldHost}, []string{"host", "vhost", "http_host", "request.host", "url.domain", "RequestHost"}},
	{Field{Name: FieldUser}, []string{"remote_user", "user", "user.name", "user_id"}},
	{Field{Name: "referer"}, []string{"referer", "http_referer", "referrer", "http.request.referrer"}},
	{Field{Name: "user_agent"}, []string{"user_agent", "http_user_agent", "user_agent.original", "agent"}},
	{Field{Name: "forwarded_for"}, []string{"http_x_forwarded_for", "x_forwarded_for", "forwarded_for"}},
}

// JSONLines is the name of the format of lines that are objects.
const JSONLines = "JSON lines"

// JSON makes a format of lines that are objects. members are their names in the log's
// first lines, with an example of each; units name members that are durations
// ("took": 1e6 for milliseconds) beyond those that are known.
func JSON(members map[string]string, units map[string]int64) *Format {
	f := &Format{Name: JSONLines, Source: "its members' names", backslash: true}
	k := &keys{root: node{field: -1}}
	used := map[string]bool{}
	add := func(field Field, member string) {
		used[member] = true
		field.Asked, field.Escape = member, JSONString
		if field.Kind == Time {
			field.Layout, field.Unit = timeLike(members[member])
			f.NoZone = field.Layout == CLFMilli
		}
		k.add(member, len(f.Fields))
		f.Fields = append(f.Fields, field)
	}
	for _, member := range slices.Sorted(maps.Keys(units)) {
		if f.Field(FieldDuration) < 0 {
			add(Field{Name: FieldDuration, Kind: Duration, Unit: units[member]}, member)
		}
	}
	for _, w := range known {
		for _, member := range w.names {
			example, is := members[member]
			if !is || used[member] || f.Field(w.field.Name) >= 0 {
				continue
			}
			if w.field.Kind == Request && strings.Count(example, " ") == 0 {
				continue
			}
			add(w.field, member)
		}
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		if n := name(member); !used[member] && f.Field(n) < 0 {
			add(Field{Name: n}, member)
		}
	}
	f.scan = k.scan
	return f
}

// timeLike tells the layout of a time from an example.
func timeLike(example string) (Layout, int64) {
	if n, ok := Int([]byte(strings.SplitN(example, ".", 2)[0])); ok {
		switch {
		case n > 1e17:
			return Unix, 1
		case n > 1e14:
			return Unix, 1e3
		case n > 1e11:
			return Unix, 1e6
		}
		return Unix, 1e9
	}
	if len(example) > 3 && example[2] == '/' {
		return CLF, 0
	}
	return ISO, 0
}

// membersOf are the names and values of an object's members, for JSON.
func membersOf(line []byte, into map[string]string) bool {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return false
	}
	var walk func(prefix string, o map[string]any, deep int)
	walk = func(prefix string, o map[string]any, deep int) {
		for name, v := range o {
			switch v := v.(type) {
			case map[string]any:
				if deep > 0 {
					walk(prefix+name+".", v, deep-1)
				}
			case nil, []any:
			default:
				if _, is := into[prefix+name]; !is && len(into) < mostMembers {
					into[prefix+name] = fmt.Sprint(v)
				}
			}
		}
	}
	walk("", object, 4)
	return true
}

// mostMembers is the most names of members that are looked at.
const mostMembers = 100
