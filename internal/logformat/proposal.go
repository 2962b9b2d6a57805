package logformat

import (
	"fmt"
	"net/netip"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// proposal returns an nginx format for a line. It recognizes the client, the time, the request
// and the status, and has placeholders for all other fields. It returns "" if it finds neither
// a request nor a status, or if the format does not match the line.
func proposal(line string) string {
	n, known, used := 0, false, map[string]bool{}
	text := fieldOfLine().ReplaceAllStringFunc(line, func(word string) string {
		open, bare, end := "", word, ""
		if strings.ContainsAny(word[:1], `"[`) {
			open, bare, end = word[:1], word[1:len(word)-1], word[len(word)-1:]
		}
		name := ""
		switch {
		case requestLine().MatchString(bare):
			name, known = "request", true
		case len(bare) == 3 && bare >= "100" && bare <= "599" && strings.Trim(bare, "0123456789") == "":
			name, known = "status", true
		case timeLocal().MatchString(bare):
			name = "time_local"
		case timeISO().MatchString(bare):
			name = "time_iso8601"
		}
		if _, err := netip.ParseAddr(bare); err == nil {
			name = "remote_addr"
		}
		if used[name] || name == "" { // a name occurs once: the first of several numbers is the status
			n++
			name = fmt.Sprintf("value_%d", n)
		}
		used[name] = true
		return open + "$" + name + end
	})
	text = "nginx:" + text
	if f, err := Parse(text); !known || err != nil || unread(f, line) {
		return ""
	}
	return text
}

var (
	fieldOfLine = internaltext.LazyRegexp(`"[^"]*"|\[[^\]]*\]|[^\s"\[\]]+`)
	requestLine = internaltext.LazyRegexp(`^[A-Z]+ \S+ HTTP/[0-9.]+$`)
	timeLocal   = internaltext.LazyRegexp(`^\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}$`)
	timeISO     = internaltext.LazyRegexp(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[+-]\d{2}:\d{2}$`)
)

func unread(f *Format, line string) bool {
	n, _ := f.Reads([]byte(line + "\n"))
	return n == 0
}
