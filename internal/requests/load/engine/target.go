package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	internaltext "fettle.dev/fettle/internal/text"
)

// Limits of a list of URLs.
const (
	maxURLs    = 100_000
	maxOrigins = 1000
	maxWeight  = 1_000_000
	maxURL     = 8 << 10 // bytes, the limit of most servers
)

// Asked is one line of the request list.
type Asked struct {
	Weight int
	Method string
	URL    string
	Where  string // FILE:LINE, or empty
}

// ReadList reads lines such as "3 GET http://web1/path". It skips blank lines and lines that
// begin with #. name is the file name for messages.
func ReadList(name string, text io.Reader) (list []Asked, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 4096), maxURL+64)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		where := fmt.Sprintf("%s:%d", name, n)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s: %s; want WEIGHT METHOD URL, such as 3 GET http://localhost/", where, internaltext.Count(len(words), "word"))
		}
		weight, err := strconv.Atoi(words[0])
		if err != nil || weight < 1 || weight > maxWeight {
			return nil, internaltext.Errorf("%s: weight %q: want a whole number from 1 to %d", where, words[0], maxWeight)
		}
		if len(list) == maxURLs {
			return nil, internaltext.Errorf("%s: more than %d URLs", where, maxURLs)
		}
		list = append(list, Asked{weight, words[1], words[2], where})
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, internaltext.Errorf("%s: a line is longer than %d bytes", name, maxURL)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s contains no URL", name)
	}
	return list, nil
}

// Common holds the options that all requests of a run share.
type Common struct {
	Header    []Field
	Body      []byte
	Close     bool   // one request per connection
	ConnectTo string // HOST:PORT to connect to instead of the URL's host; or empty
}

// Origin is a scheme, host and port with the resolved addresses.
type Origin struct {
	TLS      bool
	Name     string // host name, as in the URLs
	HostPort string // as in the URLs
	Sockets  []netip.AddrPort
}

// Set holds the requests of a run.
type Set struct {
	Requests []*Request
	Asked    []Asked // request list line of each request
	Origins  []Origin
	// until holds the cumulative sums of the weights.
	until []uint64
	// Seed determines the order of the requests.
	Seed uint64
}

// Pick returns the index of request n. It depends only on n and the seed. Over a long run each
// request is picked in proportion to its weight.
func (s *Set) Pick(n uint64) int {
	if len(s.Requests) == 1 {
		return 0
	}
	// SplitMix64 (Steele, Lea and Flood 2014): the results for neighboring n are independent.
	z := s.Seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	x := z % s.until[len(s.until)-1]
	return sort.Search(len(s.until), func(i int) bool { return s.until[i] > x })
}

// Make builds the requests and resolves their origins. Origins that are not allowed are an error.
func Make(ctx context.Context, list []Asked, c Common, allowed *Allowed, resolver Resolver) (*Set, error) {
	s := &Set{}
	if err := c.check(); err != nil {
		return nil, err
	}
	numbers, sum := map[string]int{}, uint64(0)
	for _, a := range list {
		at := func(err error) error {
			if a.Where != "" {
				return fmt.Errorf("%s: %w", a.Where, err)
			}
			return err
		}
		u, err := parse(a)
		if err != nil {
			return nil, at(err)
		}
		key := u.Scheme + "://" + u.Host
		if _, known := numbers[key]; !known {
			if len(s.Origins) == maxOrigins {
				return nil, at(internaltext.Errorf("more than %d servers", maxOrigins))
			}
			to := c.ConnectTo
			if to == "" {
				to = withPort(u)
			}
			sockets, err := allowed.Find(ctx, to, resolver)
			if err != nil {
				return nil, at(err)
			}
			numbers[key] = len(s.Origins)
			s.Origins = append(s.Origins, Origin{u.Scheme == "https", u.Hostname(), u.Host, sockets})
		}
		r := &Request{Method: a.Method, URL: u, Origin: numbers[key], Body: c.Body}
		r.Header = c.header(u)
		r.Wire = Wire(r, c.Close)
		sum += uint64(a.Weight)
		s.Requests, s.Asked, s.until = append(s.Requests, r), append(s.Asked, a), append(s.until, sum)
	}
	return s, nil
}

// parse checks the method and parses the URL of a request.
func parse(a Asked) (*url.URL, error) {
	u, err := url.Parse(a.URL)
	switch {
	case len(a.URL) > maxURL:
		return nil, internaltext.Errorf("URL longer than %d bytes", maxURL)
	case err != nil:
		return nil, err
	case u.User != nil: // checked first: messages that quote the URL would reveal the password
		return nil, errors.New("URL contains a password; use --header @FILE with a line Authorization: ...")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q: want a URL that begins with http:// or https://", a.URL)
	case u.Hostname() == "" || !httpguts.ValidHostHeader(u.Host) || strings.ContainsFunc(u.Host, func(r rune) bool { return r > 126 }):
		return nil, fmt.Errorf("%q: invalid host", a.URL)
	case !httpguts.ValidHeaderFieldName(a.Method) || a.Method != strings.ToUpper(a.Method):
		return nil, fmt.Errorf("method %q: want a method such as GET, HEAD or POST", a.Method)
	case a.Method == "CONNECT":
		return nil, errors.New("method CONNECT: a tunnel has no answer to measure")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// ours lists the header fields that only fettle may set.
var ours = []string{"Connection", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Keep-Alive", "Te", "Trailer", "Proxy-Connection"}

func (c Common) check() error {
	for _, f := range c.Header {
		switch {
		case !httpguts.ValidHeaderFieldName(f.Name):
			return fmt.Errorf("header %q: want NAME: VALUE", f.Name)
		case !httpguts.ValidHeaderFieldValue(f.Value):
			return fmt.Errorf("header %s: invalid bytes in the value", f.Name)
		case slices.Contains(ours, http.CanonicalHeaderKey(f.Name)):
			return fmt.Errorf("header %s: set by fettle itself; leave it out", f.Name)
		}
	}
	return nil
}

// header returns the header fields for a URL: the user's fields, and defaults for Host,
// User-Agent and Accept.
func (c Common) header(u *url.URL) []Field {
	out := []Field{{Name: "Host", Value: u.Host}, {Name: "User-Agent", Value: "fettle"}, {Name: "Accept", Value: "*/*"}}
	for _, f := range c.Header {
		name := http.CanonicalHeaderKey(f.Name)
		out = slices.DeleteFunc(out, func(o Field) bool {
			return o.Name == name && slices.Contains([]string{"Host", "User-Agent", "Accept"}, name)
		})
		out = append(out, Field{Name: name, Value: f.Value})
	}
	return out
}

// Wire encodes a request for HTTP/1.1.
func Wire(r *Request, closing bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.URL.RequestURI())
	for _, f := range r.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	if closing {
		b.WriteString("Connection: close\r\n")
	}
	if len(r.Body) > 0 || r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}

// ParseField parses a header field, "NAME: VALUE".
func ParseField(line string) (Field, error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return Field{}, errors.New("want NAME: VALUE") // does not quote the line: it may be a secret
	}
	return Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}, nil
}
