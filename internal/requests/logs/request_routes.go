package logs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Routes map paths that differ only in identifiers to one route: /hosts/17 to /hosts/:id.
type Routes struct {
	given []route
	tree  *branch // learned paths; nil if none
}

// route is a path with placeholders.
type route struct {
	text     []byte
	segments []string // "" matches any segment; "*" at the end any number of segments
}

// branch is a node in the tree of learned paths.
type branch struct {
	to  map[string]*branch
	any *branch // set if there are too many different segments
}

// ParseRoutes parses routes such as /hosts/:id/facts. A segment that begins with ":" matches
// any segment; a final "*" matches any number of segments.
func ParseRoutes(texts []string) (*Routes, error) {
	rs := &Routes{}
	for _, text := range texts {
		if !strings.HasPrefix(text, "/") {
			return nil, fmt.Errorf("--path %q: want a path that begins with /, such as /hosts/:id", text)
		}
		r := route{text: []byte(text)}
		words := strings.Split(text[1:], "/")
		for i, w := range words {
			switch {
			case w == "*" && i < len(words)-1:
				return nil, fmt.Errorf("--path %q: * is only allowed as the last segment", text)
			case strings.HasPrefix(w, ":") && len(w) > 1:
				w = ""
			case w == "" && i < len(words)-1, w == ":":
				return nil, fmt.Errorf("--path %q: a segment without a name", text)
			case w == "":
				w = "/" // the path ends with /
			}
			r.segments = append(r.segments, w)
		}
		rs.given = append(rs.given, r)
	}
	return rs, nil
}

// Learn determines which path segments are identifiers. These are segments that look like one (a
// number, a UUID, 16 or more hexadecimal digits), and positions with more than spread values.
func (rs *Routes) Learn(paths [][]byte) {
	root := &branch{}
	for _, p := range paths {
		if len(p) == 0 || p[0] != '/' {
			continue
		}
		at := root
		for segment := range bytes.SplitSeq(p[1:], []byte("/")) {
			at = at.step(string(segment))
		}
	}
	root.fold()
	rs.tree = root
}

// spread is the maximum number of distinct segments at one position. APIs have fewer methods,
// so more segments are data.
const spread = 30

func (b *branch) step(segment string) *branch {
	if looksLikeID([]byte(segment)) {
		if b.any == nil {
			b.any = &branch{}
		}
		return b.any
	}
	if b.to == nil {
		b.to = map[string]*branch{}
	}
	next := b.to[segment]
	if next == nil {
		next = &branch{}
		b.to[segment] = next
	}
	return next
}

// fold replaces the branches of a node by one if there are too many.
func (b *branch) fold() {
	if len(b.to) > spread {
		if b.any == nil {
			b.any = &branch{}
		}
		for _, name := range slices.Sorted(maps.Keys(b.to)) {
			b.any.merge(b.to[name])
		}
		b.to = nil
	}
	for _, next := range b.to {
		next.fold()
	}
	if b.any != nil {
		b.any.fold()
	}
}

func (b *branch) merge(o *branch) {
	for name, next := range o.to {
		if b.to == nil {
			b.to = map[string]*branch{}
		}
		if mine := b.to[name]; mine != nil {
			mine.merge(next)
		} else {
			b.to[name] = next
		}
	}
	if o.any != nil {
		if b.any == nil {
			b.any = &branch{}
		}
		b.any.merge(o.any)
	}
}

// looksLikeID reports whether a segment looks like an identifier.
func looksLikeID(s []byte) bool {
	if len(s) == 0 {
		return false
	}
	digits, hex, dashes := 0, 0, 0
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			hex++
		case c == '-':
			dashes++
		}
	}
	return digits == len(s) || hex == len(s) && len(s) >= 16 && digits > 0 || len(s) == 36 && dashes == 4 && hex == 32
}

// router applies routes and caches the results. Only one goroutine may use it.
type router struct {
	routes *Routes
	cache  map[string][]byte
}

// mostCached is the maximum number of cached paths.
const mostCached = 1 << 16

// of returns the route of a path, or the path itself if no route matches.
func (r *router) of(path []byte) []byte {
	if known, ok := r.cache[string(path)]; ok {
		return known
	}
	out := r.routes.of(path)
	if len(r.cache) < mostCached {
		if r.cache == nil {
			r.cache = map[string][]byte{}
		}
		out = bytes.Clone(out) // the path's block will be reused
		r.cache[string(path)] = out
	}
	return out
}

func (rs *Routes) of(path []byte) []byte {
	for i := range rs.given {
		if rs.given[i].is(path) {
			return rs.given[i].text
		}
	}
	if rs.tree == nil || len(path) == 0 || path[0] != '/' {
		return path
	}
	out := make([]byte, 0, len(path))
	at := rs.tree
	for segment := range bytes.SplitSeq(path[1:], []byte("/")) {
		var next *branch
		if at != nil {
			next = at.to[string(segment)]
		}
		if next == nil && (looksLikeID(segment) || at != nil && at.any != nil && len(segment) > 0) {
			segment = []byte(":x")
			if at != nil {
				next = at.any
			}
		}
		out = append(append(out, '/'), segment...)
		at = next
	}
	return out
}

func (r *route) is(path []byte) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	rest, more := path[1:], true
	for _, want := range r.segments {
		if !more {
			return false
		}
		if want == "*" {
			return true
		}
		var segment []byte
		segment, rest, more = bytes.Cut(rest, []byte("/"))
		if want == "/" {
			want = "" // the path ends with /
		} else if len(segment) == 0 {
			return false
		} else if want == "" {
			continue
		}
		if want != string(segment) {
			return false
		}
	}
	return !more
}
