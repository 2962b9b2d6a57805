package logformat

import (
	"bytes"
	"slices"

	"fettle.dev/fettle/internal/text"
)

// detectJSON returns the format of JSON lines, or nil. At least the share least of lines must
// be objects. skipped is the number of other lines before them.
func detectJSON(lines [][]byte, least float64, skipped int, units map[string]int64) *Format {
	if afterDocker(lines[0]) > 0 { // a wrap that contains the messages
		return nil
	}
	f := JSON(lines, units)
	if f == nil || !f.hasRequestFields() {
		return nil
	}
	objects := 0
	spans := make([]Span, len(f.Fields))
	for _, line := range lines {
		if f.Scan(line, spans) != BadLine {
			objects++
		}
	}
	if float64(objects) < least*float64(len(lines)) {
		return nil
	}
	behind := ""
	if skipped > 0 {
		behind = " after " + text.Count(skipped, "skipped line")
	}
	f.Why = ofFirst(objects, len(lines), behind+" is a JSON object", behind+" are JSON objects") + f.Why
	return f
}

// minJSONShare is the minimum share of objects if no other format matches. Container logs also
// contain other messages.
const minJSONShare = 0.05

// detectAfterBanner returns the format of JSON lines after other lines, such as start-up
// messages, or nil. Another program may wrap all lines.
func detectAfterBanner(head []byte, least float64, units map[string]int64) *Format {
	all := bytes.Split(head, []byte("\n"))
	if len(all) > 1 {
		all = all[:len(all)-1] // the last one may be truncated
	}
	all = slices.DeleteFunc(all, func(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 })
	for w := -1; w < len(wraps); w++ {
		bare, ok := unwrapped(all, w)
		if !ok {
			continue
		}
		skipped := 0
		for len(bare) > 0 && (len(bare[0]) == 0 || bare[0][0] != '{') {
			skipped, bare = skipped+1, bare[1:]
		}
		if len(bare) == 0 {
			continue
		}
		if f := detectJSON(bare[:min(len(bare), maxSampleLines)], least, skipped, units); f != nil {
			return f.wrappedBy(w)
		}
	}
	return nil
}

// bannerLines returns the number of lines before the first match, such as start-up messages.
func (a *fit) bannerLines(lines [][]byte) int {
	bare, ok := unwrapped(lines, a.wrap)
	if !ok {
		return 0
	}
	for i := range bare {
		if n, _ := a.f.reads(bare[i : i+1]); n > 0 {
			return i
		}
	}
	return 0
}

// hasRequestFields reports whether a JSON format has a member that identifies requests:
// request, URL, method, status or duration. Messages in container logs have none.
func (f *Format) hasRequestFields() bool {
	for _, name := range []string{FieldRequest, FieldURL, FieldMethod, FieldStatus, FieldDuration} {
		if f.Field(name) >= 0 {
			return true
		}
	}
	return false
}
