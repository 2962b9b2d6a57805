package nginx

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// block is a block of a configuration with what stands in it.
type block struct {
	directive
	file  string
	above *block
	lines []directive
	inner []*block
}

// blocks are the outermost blocks of files, each with its own; what an include within a
// block brings is not in it.
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

// own are the lines of a directive in a block or, where it has none, in the nearest
// block around it: so nginx inherits them.
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

// word is the first argument of a directive; "" where there is none.
func (b *block) word(name string) string {
	if lines, _ := b.own(name); len(lines) > 0 && len(lines[0].words) > 0 {
		return lines[0].words[0]
	}
	return ""
}

// servers are all server blocks below some, with what is in them.
func servers(all []*block) (out []*block) {
	for _, b := range all {
		if b.name == "server" && b.block {
			out = append(out, b)
		}
		out = append(out, servers(b.inner)...)
	}
	return out
}

// locations are a block and those within it in which requests are answered.
func (b *block) locations() []*block {
	out := []*block{b}
	for _, l := range b.inner {
		if l.name == "location" {
			out = append(out, l.locations()...)
		}
	}
	return out
}

// clientHeaders are those by which a back end is told who a client is (Puppet Server's
// external SSL termination).
var clientHeaders = []string{"X-Client-Verify", "X-Client-DN", "X-Client-Cert"}

// certificateFaults are what is wrong with servers that ask clients for a certificate and
// keep answers, or tell a back end who the client is: an answer that somebody without a
// certificate gets, or who asked for another thing, and a header that the client may forge.
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
						fault("%s of the client is passed on as it is", name)
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
				fault("what is kept is given to clients without a certificate")
			}
		}
	}
	return faults, nil
}

func tellsClient(d directive) bool {
	return len(d.words) > 0 && slices.ContainsFunc(clientHeaders, func(name string) bool { return strings.EqualFold(d.words[0], name) })
}

// asksVerified says whether a block, or one around it, has a condition on the client's
// certificate, which is asked before anything is answered.
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
