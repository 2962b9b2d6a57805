package nginx

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// block is a block of a configuration with its directives and inner blocks.
type block struct {
	directive
	file  string
	above *block
	lines []directive
	inner []*block
}

// blocks returns the outermost blocks of the files. A block lacks the lines of files that it
// includes.
func blocks(h *host.Host, files []string) ([]*block, error) {
	var out []*block
	for _, name := range files {
		text, err := h.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all, err := scan(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		now := &block{file: name}
		for _, d := range all {
			switch {
			case d.name == "}" && now.above == nil:
				return nil, fmt.Errorf("%s:%d: unexpected \"}\"", name, d.number)
			case d.name == "}":
				now = now.above
			case d.block:
				b := &block{directive: d, file: name, above: now}
				now.inner, now = append(now.inner, b), b
			default:
				now.lines = append(now.lines, d)
			}
		}
		for now.above != nil {
			now = now.above
		}
		out = append(out, now)
	}
	return out, nil
}

// own returns the lines of a directive in a block, or else in the nearest enclosing block that has
// it, as nginx inherits them.
func (b *block) own(name string) (lines []directive, at *block) {
	for ; b != nil; b = b.above {
		for _, d := range b.lines {
			if d.name == name {
				lines = append(lines, d)
			}
		}
		if len(lines) > 0 {
			return lines, b
		}
	}
	return nil, nil
}

// word returns a directive's first argument, or "".
func (b *block) word(name string) string {
	if lines, _ := b.own(name); len(lines) > 0 && len(lines[0].words) > 0 {
		return lines[0].words[0]
	}
	return ""
}

// servers returns the server blocks among the given blocks and inside them.
func servers(all []*block) (out []*block) {
	for _, b := range all {
		if b.name == "server" && b.block {
			out = append(out, b)
		}
		out = append(out, servers(b.inner)...)
	}
	return out
}

// locations returns a block and its inner blocks that serve requests.
func (b *block) locations() []*block {
	out := []*block{b}
	for _, l := range b.inner {
		if l.name == "location" {
			out = append(out, l.locations()...)
		}
	}
	return out
}

// clientHeaders are the headers that pass a client's identity to a back end (Puppet Server's
// external SSL termination).
var clientHeaders = []string{"X-Client-Verify", "X-Client-DN", "X-Client-Cert"}

// certificateFaults returns the faults of servers that request client certificates: a cached
// response may reach a client without a certificate or for another request, and a client may forge
// a header that passes its identity to a back end.
func certificateFaults(h *host.Host, files []string) ([]string, error) {
	all, err := blocks(h, files)
	if err != nil {
		return nil, err
	}
	faults := []string{}
	for _, s := range servers(all) {
		verify := s.word("ssl_verify_client")
		if verify == "" || verify == "off" {
			continue
		}
		tells := false
		for _, l := range s.locations() {
			lines, _ := l.own("proxy_set_header")
			tells = tells || slices.ContainsFunc(lines, tellsClient)
		}
		for _, l := range s.locations() {
			fault := func(format string, args ...any) {
				faults = append(faults, fmt.Sprintf("%s:%d: ", l.file, l.number)+fmt.Sprintf(format, args...))
			}
			if passes := slices.ContainsFunc(l.lines, func(d directive) bool { return d.name == "proxy_pass" }); passes && tells {
				lines, _ := l.own("proxy_set_header")
				for _, name := range clientHeaders {
					if !slices.ContainsFunc(lines, func(d directive) bool { return len(d.words) > 0 && strings.EqualFold(d.words[0], name) }) {
						fault("the client's %s is passed on unchanged", name)
					}
				}
			}
			if !slices.ContainsFunc(l.lines, func(d directive) bool {
				return d.name == "proxy_cache" && len(d.words) > 0 && d.words[0] != "off"
			}) {
				continue
			}
			if key := l.word("proxy_cache_key"); key != "" && !strings.Contains(key, "$request_uri") && !strings.Contains(key, "$args") && !strings.Contains(key, "$query_string") {
				fault("the cache's key %q has no query string", key)
			}
			if verify != "on" && !l.asksVerified() {
				fault("cached responses are served to clients without a certificate")
			}
		}
	}
	return faults, nil
}

func tellsClient(d directive) bool {
	return len(d.words) > 0 && slices.ContainsFunc(clientHeaders, func(name string) bool { return strings.EqualFold(d.words[0], name) })
}

// asksVerified reports whether a block or an enclosing one tests the client's certificate, which
// nginx does before any response.
func (b *block) asksVerified() bool {
	for ; b != nil; b = b.above {
		for _, in := range b.inner {
			if in.name == "if" && strings.Contains(strings.Join(in.words, " "), "$ssl_client_verify") && slices.ContainsFunc(in.lines, func(d directive) bool { return d.name == "return" }) {
				return true
			}
		}
	}
	return false
}
