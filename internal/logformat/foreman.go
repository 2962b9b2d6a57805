package logformat

import "bytes"

const (
	foremanTime = iota
	foremanClient
	foremanMethod
	foremanURL
	foremanStatus
	foremanController
	foremanAction
	foremanAs
	foremanDuration
	foremanViews
	foremanDatabase
	foremanID
	foremanFields
)

// foreman returns the format of Foreman's production.log (config/settings.yaml, :logging; Rails'
// log subscriber). A request is all lines with the same request id, from Started to Completed.
func foreman() *Format {
	ms := func(name string) Field { return Field{Name: name, Kind: Duration, Unit: 1e6} }
	f := &Format{Name: "Foreman's production.log", Source: "Rails' Started, Processing and Completed", joined: true, NoZone: true, Fields: make([]Field, foremanFields)}
	for i, field := range map[int]Field{
		foremanTime: {Name: FieldTime, Kind: Time, Layout: ISO}, foremanClient: {Name: FieldClient}, foremanMethod: {Name: FieldMethod}, foremanURL: {Name: FieldURL, Kind: URL},
		foremanStatus: {Name: FieldStatus, Kind: Number}, foremanController: {Name: "controller"}, foremanAction: {Name: "action"}, foremanAs: {Name: "as"},
		foremanDuration: {Name: FieldDuration, Source: "the time of Completed", Kind: Duration, Unit: 1e6}, foremanViews: ms("views"), foremanDatabase: ms("active_record"), foremanID: {Name: "request_id"},
	} {
		f.Fields[i] = field
	}
	return f
}

// Joiner joins the lines of multi-line requests.
type Joiner struct {
	open  map[string]*openRequest
	order []string // ids, oldest first; may contain ended requests
	size  int      // memory of the open requests, in bytes
	// evicted is the number of old requests dropped to limit memory.
	evicted int
	lines   []byte // buffer for joined lines
	// zoned reports whether Started lines have the server's time zone. zone is the latest one,
	// such as +0200.
	zoned bool
	zone  string
	// rails, ruby and bare select the notation of Rails. processes holds its requests without
	// ids.
	rails, ruby, bare bool
	processes         map[string][]*inProgress
	// Lost is the number of requests whose start was not logged because the log was rotated.
	// They count, without the values in the start.
	Lost int
}

// openRequest is a request that has not ended.
type openRequest struct{ time, client, method, url, controller, action, as string }

// maxOpen is the maximum number of open requests. A killed server leaves requests that never end.
const maxOpen = 64 << 10

// maxID is the maximum length of a request id, in bytes. A UUID has 36.
const maxID = 128

// maxOpenBytes is the maximum memory for open requests, and maxURL the maximum length of a
// URL, in bytes.
const (
	maxOpenBytes = 32 << 20
	maxURL       = 8 << 10
)

func (s *openRequest) size() int {
	return len(s.time) + len(s.client) + len(s.method) + len(s.url) + len(s.controller) + len(s.action) + len(s.as)
}

// Open returns the number of open requests.
func (j *Joiner) Open() int {
	n := len(j.open) + j.evicted
	for _, all := range j.processes {
		for _, s := range all {
			if s.controller != "" {
				n++
			}
		}
	}
	return n
}

// Add adds a line. If the line completes a request, l is RequestLine, out is a line with all
// values of the request, and spans refers to out.
func (j *Joiner) Add(line []byte, spans []Span) (out []byte, l LineKind) {
	if j.rails {
		return j.joinRails(line, spans)
	}
	when, id, message, ok := foremanLine(line)
	if ok && len(id) > maxID {
		return nil, BadLine
	}
	if !ok {
		if len(line) == 0 || line[0] == ' ' || line[0] == '|' || line[0] == '\t' || len(j.open) > 0 && !looksTimed(line) {
			return nil, OtherLine // part of a multi-line message
		}
		return nil, BadLine
	}
	return j.message(when, id, message, spans)
}

// message processes a message of the request with the given id.
func (j *Joiner) message(when, id, message []byte, spans []Span) (out []byte, l LineKind) {
	switch {
	case bytes.HasPrefix(message, []byte("Started ")):
		s := j.request(id)
		j.size -= s.size()
		j.begin(s, when, message)
		j.account(s)
	case bytes.HasPrefix(message, []byte("Processing by ")):
		s := j.request(id)
		j.size -= s.size()
		s.processed(message)
		if s.time == "" {
			s.time = j.at(when)
		}
		j.account(s)
	case bytes.HasPrefix(message, []byte("Completed ")):
		return j.completed(when, id, message[len("Completed "):], spans)
	}
	return nil, OtherLine
}

// begin parses `Started GET "/api" for 10.0.0.1 at 2026-11-20 23:58:28 +0000`.
func (j *Joiner) begin(s *openRequest, when, message []byte) {
	if zone := zoneBy(when, message); zone != "" {
		j.zone = zone
	}
	*s = openRequest{time: j.at(when)}
	rest := message[len("Started "):]
	if n := bytes.IndexByte(rest, ' '); n > 0 {
		s.method = string(rest[:n])
		rest = rest[n+1:]
	}
	if len(rest) > 0 && rest[0] == '"' {
		if n := bytes.IndexByte(rest[1:], '"'); n >= 0 {
			s.url = string(rest[1 : 1+min(n, maxURL)])
			rest = rest[2+n:]
		}
	}
	if from, ok := bytes.CutPrefix(rest, []byte(" for ")); ok {
		from, _, _ = bytes.Cut(from, []byte(" "))
		s.client = string(from)
	}
}

// processed parses "Processing by HostsController#index as JSON".
func (s *openRequest) processed(message []byte) {
	what, as, _ := bytes.Cut(message[len("Processing by "):], []byte(" as "))
	controller, action, _ := bytes.Cut(what, []byte("#"))
	s.controller, s.action, s.as = string(controller), string(action), string(as)
}

// request returns the open request with an id, and creates it if necessary.
func (j *Joiner) request(id []byte) *openRequest {
	if j.open == nil {
		j.open = map[string]*openRequest{}
	}
	s := j.open[string(id)]
	if s == nil {
		s = &openRequest{}
		j.open[string(id)] = s
		j.order = append(j.order, string(id))
		j.size += len(id)
		if len(j.order) > 2*maxOpen {
			kept := j.order[:0]
			for _, id := range j.order {
				if j.open[id] != nil {
					kept = append(kept, id)
				}
			}
			j.order = kept
		}
	}
	return s
}

// account updates the memory used by a request. Above the limit it evicts the oldest requests.
func (j *Joiner) account(s *openRequest) {
	j.size += s.size()
	for len(j.open) > 1 && (len(j.open) > maxOpen || j.size > maxOpenBytes) {
		id := j.order[0]
		j.order = j.order[1:]
		switch old := j.open[id]; old {
		case nil: // already ended
		case s:
			j.order = append(j.order, id)
		default:
			j.remove(id, old)
			j.evicted++
		}
	}
}

func (j *Joiner) remove(id string, s *openRequest) {
	j.size -= len(id) + s.size()
	delete(j.open, id)
}

// completed parses the message that ends a request: "200 OK in 251ms (Views: 100.2ms |
// ActiveRecord: 50.1ms | Allocations: 1234)".
func (j *Joiner) completed(when, id, rest []byte, spans []Span) ([]byte, LineKind) {
	if !bytes.Contains(rest, []byte("in ")) {
		return nil, BadLine
	}
	s := j.open[string(id)]
	if s == nil {
		j.Lost++
		s = &openRequest{time: j.at(when)}
	} else {
		j.remove(string(id), s)
	}
	return j.ended(s, id, rest, spans)
}

// ended returns the line of a completed request.
func (j *Joiner) ended(s *openRequest, id, rest []byte, spans []Span) ([]byte, LineKind) {
	status, rest, _ := bytes.Cut(rest, []byte(" "))
	in := bytes.Index(rest, []byte("in "))
	if in > 0 && rest[in-1] != ' ' {
		if in = bytes.Index(rest, []byte(" in ")); in >= 0 {
			in++
		}
	}
	if in < 0 {
		return nil, BadLine
	}
	took, rest, _ := bytes.Cut(rest[in+len("in "):], []byte("ms"))
	line := j.room()
	put := func(field int, before string, text []byte) {
		line = append(line, before...)
		from := len(line)
		line = append(line, text...)
		spans[field] = span(from, len(line))
	}
	put(foremanTime, "", []byte(s.time))
	put(foremanID, " [", id)
	put(foremanClient, "] ", []byte(s.client))
	put(foremanMethod, ` "`, []byte(s.method))
	put(foremanURL, " ", []byte(s.url))
	put(foremanStatus, `" `, status)
	put(foremanController, " ", []byte(s.controller))
	put(foremanAction, "#", []byte(s.action))
	put(foremanAs, " as ", []byte(s.as))
	put(foremanDuration, " in ", took)
	put(foremanViews, "ms, views ", part(rest, "Views: "))
	put(foremanDatabase, "ms, ActiveRecord ", part(rest, "ActiveRecord: "))
	line = append(line, "ms"...)
	if len(line) <= len(j.lines) {
		j.lines = j.lines[len(line):]
	}
	return line, RequestLine
}

// room returns the buffer for the next line. It does not overwrite earlier lines, because
// several are in use at a time.
func (j *Joiner) room() []byte {
	const least, many = 1 << 10, 64 << 10
	if len(j.lines) < least {
		j.lines = make([]byte, many)
	}
	return j.lines[:0:len(j.lines)]
}

func part(text []byte, name string) []byte {
	at := bytes.Index(text, []byte(name))
	if at < 0 {
		return []byte("-")
	}
	value, _, ok := bytes.Cut(text[at+len(name):], []byte("ms"))
	if !ok {
		return []byte("-")
	}
	return value
}

// foremanLine splits a line of Foreman: TIME [LEVEL|LOGGER|ID] MESSAGE since 1.18, before that
// TIME ID [LOGGER] [LEVEL] MESSAGE.
func foremanLine(line []byte) (when, id, message []byte, ok bool) {
	if !looksTimed(line) {
		return nil, nil, nil, false
	}
	when, rest := line[:19], line[19:]
	if n := bytes.IndexByte(rest, ' '); n >= 0 { // a fraction or a zone
		when, rest = line[:19+n], rest[n:]
	}
	rest = bytes.TrimLeft(rest, " ")
	if len(rest) == 0 {
		return nil, nil, nil, false
	}
	if rest[0] == '[' {
		end := bytes.IndexByte(rest, ']')
		if end < 0 {
			return nil, nil, nil, false
		}
		tag := rest[1:end]
		if bytes.Count(tag, []byte("|")) != 2 {
			return nil, nil, nil, false
		}
		return when, tag[bytes.LastIndexByte(tag, '|')+1:], bytes.TrimLeft(rest[end+1:], " "), true
	}
	word, rest, _ := bytes.Cut(rest, []byte(" "))
	if len(rest) == 0 || rest[0] != '[' {
		return nil, nil, nil, false
	}
	for range 2 {
		end := bytes.IndexByte(rest, ']')
		if len(rest) == 0 || rest[0] != '[' || end < 0 {
			return nil, nil, nil, false
		}
		rest = bytes.TrimLeft(rest[end+1:], " ")
	}
	return when, word, rest, true
}

// looksTimed reports whether a line begins with a time.
func looksTimed(line []byte) bool {
	return len(line) > 20 && line[4] == '-' && line[7] == '-' && (line[10] == 'T' || line[10] == ' ') && line[13] == ':' && line[16] == ':' && line[0] >= '0' && line[0] <= '9'
}
