package logs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/text"
)

// Dimension is a property by which requests can be grouped or selected.
type Dimension struct {
	Name string

	kind  kind
	field int // index of the format's field, or -1
	depth int // number of path segments
	// indices of the fields that identify the client, or -1
	certname, client, forwarded int
	router                      *router
	slices                      *slicing
}

type kind uint8

const (
	ofField kind = iota
	ofMethod
	ofURL
	ofPath
	ofQuery
	ofProtocol
	ofPrefix
	ofClass
	ofEnvironment
	ofIndirector
	ofResource
	ofRequestor
	ofParameter
	ofRoute
	ofSlice
)

// derived lists the dimensions computed from several fields, with the fields that they need.
var derived = []struct {
	name string
	kind kind
	need []string // at least one of these fields
}{
	{"method", ofMethod, []string{logformat.FieldMethod, logformat.FieldRequest}},
	{"url", ofURL, []string{logformat.FieldURL, logformat.FieldRequest}},
	{"path", ofPath, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest}},
	{"route", ofRoute, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest}},
	{"query", ofQuery, []string{logformat.FieldQuery, logformat.FieldURL, logformat.FieldRequest}},
	{"protocol", ofProtocol, []string{logformat.FieldProtocol, logformat.FieldRequest}},
	{"class", ofClass, []string{logformat.FieldStatus}},
	{"environment", ofEnvironment, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest}},
	{"indirector", ofIndirector, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest}},
	{"resource", ofResource, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest}},
	{"requestor", ofRequestor, []string{logformat.FieldClient, logformat.FieldURL, logformat.FieldRequest}},
}

// Dimensions returns the dimensions that logs of many formats have, for help texts.
func Dimensions() []string {
	names := []string{logformat.FieldStatus, logformat.FieldClient}
	for _, d := range derived {
		names = append(names, d.name)
	}
	return names
}

// Named returns a dimension of a format by name: a derived one, path:N (the first N segments
// of the path), parameter:NAME (of the query), or a field of the format. routes is for the
// dimension route and may be nil.
func Named(f *logformat.Format, name string, routes *Routes) (Dimension, error) {
	d := Dimension{Name: name, field: -1}
	if word, argument, ok := strings.Cut(name, ":"); ok {
		switch word {
		case "path":
			n, err := strconv.Atoi(argument)
			if err != nil || n < 1 || n > 100 {
				return d, fmt.Errorf("%s: want path:N with N from 1 to 100, the number of path segments", name)
			}
			d.kind, d.depth = ofPrefix, n
			return d, d.has(f, []string{logformat.FieldPath, logformat.FieldURL, logformat.FieldRequest})
		case "parameter":
			if argument == "" {
				return d, fmt.Errorf("%s: want parameter:NAME, a parameter of the query", name)
			}
			d.kind, d.Name = ofParameter, argument
			return d, d.has(f, []string{logformat.FieldQuery, logformat.FieldURL, logformat.FieldRequest})
		}
	}
	own := f.Field(name)
	for _, k := range derived {
		if k.name == name && (own < 0 || k.kind < ofEnvironment) { // prefer a field of the log to a value derived from URLs
			d.kind = k.kind
			if k.kind == ofRoute {
				if routes == nil {
					routes = &Routes{}
				}
				d.router = &router{routes: routes}
			}
			d.field = f.Field(logformat.FieldStatus)
			d.certname, d.client, d.forwarded = f.Field("certname"), f.Field(logformat.FieldClient), f.Field("forwarded_for")
			return d, d.has(f, k.need)
		}
	}
	if d.field = own; own >= 0 {
		return d, nil
	}
	return d, fmt.Errorf("unknown dimension %s%s; the format %s has %s", name, text.Suggest(name, Names(f)), f.Name, strings.Join(Names(f), ", "))
}

func (d *Dimension) has(f *logformat.Format, need []string) error {
	for _, n := range need {
		if f.Field(n) >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: lines of %s have no %s", d.Name, f.Name, strings.Join(need, ", no "))
}

// Names returns the names of the dimensions of a format.
func Names(f *logformat.Format) []string {
	var names []string
	for _, k := range derived {
		if (&Dimension{}).has(f, k.need) == nil {
			names = append(names, k.name)
		}
	}
	for _, field := range f.Fields {
		if field.Kind != logformat.Request && !slices.Contains(names, field.Name) {
			names = append(names, field.Name)
		}
	}
	return names
}

var requestClasses = func() (c [10][]byte) {
	for i := range c {
		c[i] = []byte(strconv.Itoa(i) + "xx")
	}
	c[0] = nil
	return c
}()

// Of returns the dimension's value in a request, or an empty value if none exists.
func (d *Dimension) Of(r *Request) []byte {
	switch d.kind {
	case ofField:
		return r.Field(d.field)
	case ofMethod:
		return r.Method
	case ofURL:
		return r.URL
	case ofPath:
		return r.Path
	case ofQuery:
		return r.Query
	case ofProtocol:
		return r.Protocol
	case ofPrefix:
		return prefix(r.Path, d.depth)
	case ofClass:
		return requestClasses[r.Status/100]
	case ofEnvironment:
		return r.Puppet().Environment
	case ofIndirector:
		return r.Puppet().Indirector
	case ofResource:
		return r.Puppet().Resource
	case ofSlice:
		return d.slices.of(r.Time)
	case ofRoute:
		return d.router.of(r.Path)
	case ofParameter:
		return r.Parameter(d.Name)
	}
	return d.requestor(r)
}

// requestor returns who made a request. It is the first known of: the name in the client
// certificate, the address unless loopback, the node in the URL, the address before a proxy.
func (d *Dimension) requestor(r *Request) []byte {
	if d.certname >= 0 {
		if name := r.Field(d.certname); len(name) > 0 && string(name) != "-" {
			return name
		}
	}
	var address []byte
	if d.client >= 0 {
		address = r.Field(d.client)
	}
	if !loopback(address) {
		return address
	}
	if name := r.Puppet().Certname(); len(name) > 0 {
		return name
	}
	if d.forwarded >= 0 {
		if from := r.Field(d.forwarded); len(from) > 0 && string(from) != "-" {
			for i, c := range from {
				if c == ',' { // client, proxy1, proxy2
					return from[:i]
				}
			}
			return from
		}
	}
	return address
}

// loopback reports whether an address is missing or a loopback address (a local proxy).
func loopback(address []byte) bool {
	return len(address) == 0 || len(address) > 4 && string(address[:4]) == "127." || string(address) == "::1" || string(address) == "localhost" || string(address) == "-"
}

// prefix returns the first n segments of a path.
func prefix(path []byte, n int) []byte {
	for i, c := range path {
		if c == '/' && i > 0 {
			if n--; n == 0 {
				return path[:i]
			}
		}
	}
	return path
}

// slicing divides a period into slices of equal length.
type slicing struct {
	first, last int64
	names       [][]byte
}

// Slice returns the dimension of the time slice: one of n slices from first to last, in
// microseconds since 1970.
func Slice(first, last int64, n int) Dimension {
	s := &slicing{first: first, last: last}
	for i := range n {
		s.names = append(s.names, strconv.AppendInt(nil, int64(i), 10))
	}
	return Dimension{Name: "slice", kind: ofSlice, slices: s}
}

func (s *slicing) of(at int64) []byte {
	if s.last <= s.first || at < s.first || at > s.last {
		return s.names[0]
	}
	n := int64(float64(at-s.first) / float64(s.last-s.first+1) * float64(len(s.names)))
	return s.names[min(n, int64(len(s.names)-1))]
}
