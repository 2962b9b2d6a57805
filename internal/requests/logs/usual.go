package logs

import (
	"bytes"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// Learn learns routes from the beginning of each log.
func Learn(rs *Routes, set *source.Set, formats []*logformat.Format) error {
	var paths [][]byte
	for i, f := range formats {
		head, err := set.Head(i, learned)
		if err != nil {
			return err
		}
		reader := NewReader(f)
		var r Request
		for line := range bytes.Lines(head) {
			if reader.Read(bytes.TrimRight(line, "\r\n"), &r) == logformat.RequestLine {
				paths = append(paths, bytes.Clone(r.Path))
			}
		}
	}
	rs.Learn(paths)
	return nil
}

// learned is how much of each log Learn reads, in bytes.
const learned = 2 << 20

// Default returns the default groupings. With routes they are by route.
func Default(routes *Routes, set *source.Set, formats []*logformat.Format) ([][]string, error) {
	if routes != nil {
		return [][]string{{"method", "route"}, {"requestor"}, {"status"}}, nil
	}
	return Usual(set, formats)
}

// Usual returns the default groupings. If most requests are Puppet's, these are the tables of
// "Puppetmaster Performance Tuning with mod_mem_cache"; for Foreman, its controllers. Otherwise
// they are HAProxy's back ends, if any, the method and path, the requestor, and the status.
func Usual(set *source.Set, formats []*logformat.Format) ([][]string, error) {
	f := formats[0]
	has := func(names ...string) bool {
		for _, other := range formats {
			for _, n := range names {
				if other.Field(n) < 0 {
					return false
				}
			}
		}
		return true
	}
	switch {
	case has("controller", "action"):
		return [][]string{{"controller", "action"}, {"requestor"}, {"status"}}, nil
	case has("requestor", "environment", "indirector"):
		return [][]string{{"indirector"}, {"environment"}, {"requestor"}}, nil
	}
	head, err := set.Head(0, logformat.HeadSize)
	if err != nil {
		return nil, err
	}
	if ofPuppet(f, head) {
		return [][]string{{"method", "indirector"}, {"environment"}, {"requestor"}, {"resource"}}, nil
	}
	by := [][]string{}
	if has("backend", "server") {
		by = append(by, []string{"backend", "server"})
	}
	for _, names := range [][]string{{"method", "path"}, {"requestor"}, {"status"}} {
		ok := true
		for _, other := range formats {
			if _, err := dimensions(other, names, nil); err != nil {
				ok = false
			}
		}
		if ok {
			by = append(by, names)
		}
	}
	return by, nil
}

// ofPuppet reports whether most requests at the beginning of a log are Puppet's.
func ofPuppet(f *logformat.Format, head []byte) bool {
	reader := NewReader(f)
	var r Request
	of, all := 0, 0
	for line := range bytes.Lines(head) {
		if reader.Read(bytes.TrimRight(line, "\r\n"), &r) != logformat.RequestLine {
			continue
		}
		all++
		if len(r.Puppet().Indirector) > 0 {
			of++
		}
	}
	return of*2 > all
}
