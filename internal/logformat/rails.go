package logformat

import (
	"bytes"
	"maps"
	"slices"
)

// rails returns the format of a Rails application's log. It is Foreman's without the layout,
// through Ruby's Logger or with bare messages. Tags before the message (config.log_tags =
// [:request_id]) identify requests, or the process and the start time.
func rails() *Format {
	f := foreman()
	f.Name, f.rails = "Rails' log", true
	return f
}

// Joiner returns a Joiner for the format's lines.
func (f *Format) Joiner() Joiner { return Joiner{rails: f.rails, zoned: f.zone != "", zone: f.zone} }

// inProgress is an open request of a process whose lines have no request id.
type inProgress struct {
	openRequest
	processing int64 // start of the controller, in microseconds; 0 if it has not started
}

// maxInProgress is the maximum number of open requests of one process. Requests without a
// route never end.
const maxInProgress = 256

// maxRounding is the maximum difference between a request's duration, which is rounded to
// milliseconds, and the times of its lines. It is in microseconds.
const maxRounding = 3000

// joinRails implements Add for Rails.
func (j *Joiner) joinRails(line []byte, spans []Span) ([]byte, LineKind) {
	r, ruby := parseRuby(line)
	if !ruby {
		r.tags, r.message = tagged(line, 0)
	}
	message := line[r.message:]
	when := r.when.Of(line)
	id := r.tags.Of(line)
	known := slices.ContainsFunc([]string{"Started ", "Processing by ", "Completed "}, func(begin string) bool { return bytes.HasPrefix(message, []byte(begin)) })
	switch {
	case !known && (ruby || j.ruby || len(line) == 0 || line[0] == ' ' || line[0] == '#'):
		j.unrouted(message)
		return nil, OtherLine
	case !known && !j.bare:
		return nil, BadLine
	case !known:
		j.unrouted(message)
		return nil, OtherLine
	case len(id) > maxID:
		return nil, BadLine
	}
	j.ruby, j.bare = j.ruby || ruby, j.bare || !ruby
	if !ruby {
		if bytes.HasPrefix(message, []byte("Started ")) {
			when, _ = statedTime(message)
		}
	}
	if hasRequestID(id) {
		return j.message(when, bytes.Trim(id, "[] "), message, spans)
	}
	return j.untagged(when, r.process.Of(line), message, spans)
}

// hasRequestID reports whether the tags before a message identify a request. They do if they
// have at least eight consecutive hexadecimal digits, including a decimal digit, like UUIDs
// and the request ids of nginx, AWS and Foreman. Host names and addresses are not unique.
func hasRequestID(tags []byte) bool {
	hex, decimal := 0, false
	for _, c := range tags {
		if _, ok := hexDigit(c); !ok {
			hex, decimal = 0, false
			continue
		}
		hex, decimal = hex+1, decimal || c <= '9'
		if hex >= 8 && decimal {
			return true
		}
	}
	return false
}

// untagged processes a message without a request id.
func (j *Joiner) untagged(when, process, message []byte, spans []Span) ([]byte, LineKind) {
	if j.processes == nil {
		j.processes = map[string][]*inProgress{}
	}
	if len(j.processes) > maxOpen/maxInProgress && j.processes[string(process)] == nil {
		clear(j.processes)
	}
	all := j.processes[string(process)]
	at, _ := (&Field{Layout: ISO}).Time(when, nil)
	switch message[0] {
	case 'S':
		s := &inProgress{}
		j.begin(&s.openRequest, when, message)
		if all = append(all, s); len(all) > maxInProgress {
			all = all[1:]
		}
	case 'P':
		var waiting []*inProgress
		for _, s := range all {
			if s.processing == 0 && s.controller == "" {
				waiting = append(waiting, s)
			}
		}
		if len(waiting) == 0 {
			s := &inProgress{openRequest: openRequest{time: j.at(when)}}
			all, waiting = append(all, s), append(waiting, s)
		}
		if len(waiting) > 1 { // may belong to any of them
			for _, s := range waiting {
				s.method, s.url, s.client = "", "", ""
			}
		}
		waiting[0].processed(message)
		waiting[0].processing = at
	case 'C':
		took := tookOf(message)
		var ended []*inProgress
		for _, s := range all {
			if s.controller != "" && (at == 0 || s.processing > 0 && absolute(at-took-s.processing) <= maxRounding) {
				ended = append(ended, s)
			}
		}
		all = slices.DeleteFunc(all, func(s *inProgress) bool { return slices.Contains(ended, s) })
		j.processes[string(process)] = all
		s := &openRequest{time: j.at(when)}
		switch {
		case len(ended) == 1:
			s = &ended[0].openRequest
		case len(ended) > 1 && at == 0:
			s.time = ended[0].time
			fallthrough
		default:
			j.Lost++
		}
		return j.ended(s, process, message[len("Completed "):], spans)
	}
	j.processes[string(process)] = all
	return nil, OtherLine
}

// unrouted ends the request for which a message reports that there is no route.
func (j *Joiner) unrouted(message []byte) {
	_, rest, ok := bytes.Cut(message, []byte("ActionController::RoutingError (No route matches ["))
	if !ok {
		return
	}
	method, rest, _ := bytes.Cut(rest, []byte(`] "`))
	path, _, _ := bytes.Cut(rest, []byte(`"`))
	for _, process := range slices.Sorted(maps.Keys(j.processes)) { // sorted, so that repeated readings give the same result
		all := j.processes[process]
		for i, s := range all {
			url, _, _ := bytes.Cut([]byte(s.url), []byte("?"))
			if s.controller == "" && s.method == string(method) && bytes.Equal(url, path) {
				j.processes[process] = slices.Delete(all, i, i+1)
				return
			}
		}
	}
}

// tookOf returns the duration in "Completed 200 OK in 251ms (...", in microseconds, or -1.
func tookOf(message []byte) int64 {
	_, rest, _ := bytes.Cut(message, []byte(" in "))
	took, _, _ := bytes.Cut(rest, []byte("ms"))
	us, _ := (&Field{Unit: 1e6}).Duration(took)
	return us
}

func absolute(n int64) int64 { return max(n, -n) }
