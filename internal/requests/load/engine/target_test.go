package engine

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// names is a resolver that counts its queries.
type names struct {
	addresses map[string][]string
	asked     map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	n.asked[host]++
	for _, a := range n.addresses[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, errors.New("no such host")
	}
	return out, nil
}

func make1(t *testing.T, allow []string, c Common, urls ...string) (*Set, *names, error) {
	t.Helper()
	n := &names{addresses: map[string][]string{
		"localhost": {"::1", "127.0.0.1"}, "web1": {"192.0.2.7"}, "two": {"127.0.0.1", "192.0.2.8"}, "mapped": {"::ffff:192.0.2.7"}, "six": {"2001:db8::1"},
	}}
	allowed, err := ParseAllowed(t.Context(), allow, n)
	if err != nil {
		return nil, n, err
	}
	var list []Asked
	for _, u := range urls {
		list = append(list, Asked{Weight: 1, Method: "GET", URL: u})
	}
	s, err := Make(t.Context(), list, c, allowed, n)
	return s, n, err
}

// TestGuardRail tests that a target that is neither loopback nor allowed is refused, even if only
// one of its addresses is not.
func TestGuardRail(t *testing.T) {
	for _, c := range []struct {
		url, allow, to string
		may            bool
	}{
		{"http://localhost/", "", "", true},
		{"http://127.9.9.9:8080/", "", "", true},
		{"http://[::1]/", "", "", true},
		{"http://[::ffff:127.0.0.1]/", "", "", true},
		{"http://192.0.2.7/", "", "", false},
		{"http://0.0.0.0/", "", "", false},
		{"http://[::]/", "", "", false},
		{"http://web1/", "", "", false},
		{"http://two/", "", "", false},
		{"http://two/", "192.0.2.8:80", "", true},
		{"http://web1/", "web1:80", "", true},
		{"http://web1:81/", "web1:80", "", false},
		{"https://web1/", "web1:443", "", true},
		{"http://192.0.2.7/", "web1:80", "", true},
		{"http://mapped/", "192.0.2.0/24", "", true},
		{"http://web1/", "192.0.2.0/29", "", true},
		{"http://web1/", "192.0.2.8/29", "", false},
		{"http://six/", "2001:db8::/32", "", true},
		{"http://elsewhere.invalid/", "", "localhost:8080", true},
		{"http://localhost/", "", "web1:80", false},
	} {
		_, _, err := make1(t, strings.Fields(c.allow), Common{ConnectTo: c.to}, c.url)
		var not *NotAllowedError
		if (err == nil) != c.may || err != nil && !errors.As(err, &not) {
			t.Errorf("%s, allowed %q, connected to %q: %v", c.url, c.allow, c.to, err)
		}
	}
}

// TestResolvedOnce tests that a name is resolved once, however many URLs contain it.
func TestResolvedOnce(t *testing.T) {
	s, n, err := make1(t, nil, Common{}, "http://localhost/a", "http://localhost/b", "http://localhost/c")
	if err != nil || n.asked["localhost"] != 1 || len(s.Origins) != 1 || len(s.Origins[0].Sockets) != 2 {
		t.Errorf("%v, asked %v, %+v", err, n.asked, s)
	}
	if _, _, err := make1(t, nil, Common{}, "http://unknown.invalid/"); err == nil || !strings.Contains(err.Error(), "cannot resolve") {
		t.Error(err)
	}
}

func TestWrongTargets(t *testing.T) {
	for url, want := range map[string]string{
		"localhost":                 "http:// or https://",
		"ftp://localhost/":          "http:// or https://",
		"http://":                   "invalid host",
		"http://:80/":               "invalid host",
		"http://loc\u00e4lhost/":    "invalid host",
		"http://localhost:99999/":   "want a number from 1 to 65535",
		"http://localhost:0/":       "want a number from 1 to 65535",
		"http://u:secret@localhost": "URL contains a password",
		"http://localhost/%zz":      "invalid URL escape",
		"http://localhost/\r\nX: y": "invalid control character",
		"http://localhost/" + strings.Repeat("x", 9000): "longer than 8,192 bytes",
	} {
		_, _, err := make1(t, nil, Common{}, url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60q: %v, want %q", url, err, want)
		}
	}
	for field, want := range map[Field]string{
		{Name: "Content-Length", Value: "5"}:    "set by fettle itself",
		{Name: "connection", Value: "close"}:    "set by fettle itself",
		{Name: "transfer-encoding", Value: "x"}: "set by fettle itself",
		{Name: "a b", Value: "c"}:               "want NAME: VALUE",
		{Name: "X", Value: "secret\r\nY: z"}:    "invalid bytes",
	} {
		_, _, err := make1(t, nil, Common{Header: []Field{field}}, "http://localhost/")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", field, err, want)
		}
	}
	for _, word := range []string{"10.0.0.0/33", "10.0.0.1", "web1", ":80", "web1:x", "web1:0", "unknown:80", "/"} {
		if _, _, err := make1(t, []string{word}, Common{}, "http://localhost/"); err == nil {
			t.Errorf("--allow %s is taken", word)
		}
	}
}

func TestList(t *testing.T) {
	list, err := ReadList("urls", strings.NewReader("# a list\n\n3 GET http://localhost/a\n  1   POST\thttp://localhost/b\n"))
	if err != nil || len(list) != 2 || list[0] != (Asked{3, "GET", "http://localhost/a", "urls:3"}) || list[1].Where != "urls:4" {
		t.Errorf("%+v %v", list, err)
	}
	for text, want := range map[string]string{
		"":                                    "urls contains no URL",
		"# nothing\n":                         "urls contains no URL",
		"GET http://localhost/\n":             "urls:1: 2 words; want WEIGHT METHOD URL",
		"\n0 GET http://localhost/\n":         `urls:2: weight "0"`,
		"x GET http://localhost/\n":           `urls:1: weight "x"`,
		"-1 GET http://localhost/\n":          `weight "-1"`,
		"9999999 GET http://localhost/":       `weight "9999999"`,
		"1 GET " + strings.Repeat("x", 10000): "a line is longer than 8,192 bytes",
	} {
		if _, err := ReadList("urls", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	n := &names{addresses: map[string][]string{"localhost": {"127.0.0.1"}}}
	for _, line := range []string{"1 get http://localhost/", "1 G(T http://localhost/", "1 CONNECT http://localhost/", "1 GET nowhere"} {
		list, err := ReadList("urls", strings.NewReader("\n"+line))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Make(t.Context(), list, Common{}, &Allowed{}, n); err == nil || !strings.HasPrefix(err.Error(), "urls:2: ") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestWeights(t *testing.T) {
	n := &names{addresses: map[string][]string{"localhost": {"127.0.0.1"}}}
	list := []Asked{{Weight: 7, Method: "GET", URL: "http://localhost/a"}, {Weight: 2, Method: "GET", URL: "http://localhost/b"}, {Weight: 1, Method: "HEAD", URL: "http://localhost/c"}}
	s, err := Make(t.Context(), list, Common{}, &Allowed{}, n)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed = 7
	var got [3]int
	for i := range uint64(100_000) {
		got[s.Pick(i)]++
	}
	// Standard deviations are 145, 126 and 95.
	for i, want := range []int{70_000, 20_000, 10_000} {
		if d := got[i] - want; d < -800 || d > 800 {
			t.Errorf("request %d was picked %d times of 100000, want about %d", i, got[i], want)
		}
	}
}

func TestWire(t *testing.T) {
	header := []Field{{Name: "x-token", Value: "1"}, {Name: "host", Value: "other"}, {Name: "ACCEPT", Value: "text/plain"}}
	s, _, err := make1(t, nil, Common{Header: header, Body: []byte("hello"), Close: true}, "http://localhost:8080/a%20b?c=d&e#fragment")
	if err != nil {
		t.Fatal(err)
	}
	const want = "GET /a%20b?c=d&e HTTP/1.1\r\nUser-Agent: fettle\r\nX-Token: 1\r\nHost: other\r\nAccept: text/plain\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
	if got := string(s.Requests[0].Wire); got != want {
		t.Errorf("%q", got)
	}
	s, _, err = make1(t, nil, Common{}, "http://localhost")
	if err != nil || string(s.Requests[0].Wire) != "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: fettle\r\nAccept: */*\r\n\r\n" {
		t.Errorf("%v %q", err, s.Requests[0].Wire)
	}
}

// TestNoLoopback tests that generators in pods load a loopback address only if it is allowed as
// such.
func TestNoLoopback(t *testing.T) {
	n := &names{addresses: map[string][]string{"localhost": {"127.0.0.1"}}}
	for allow, may := range map[string]bool{"192.0.2.0/24": false, "127.0.0.0/8": true, "localhost:80": true, "localhost:81": false} {
		allowed, err := ParseAllowed(t.Context(), []string{allow}, n)
		if err != nil {
			t.Fatal(err)
		}
		allowed.NoLoopback = true
		_, err = allowed.Find(t.Context(), "localhost:80", n)
		var not *NotAllowedError
		if may != (err == nil) || !may && (!errors.As(err, &not) || !strings.Contains(err.Error(), "each generator would load its own pod")) {
			t.Errorf("--allow %s: %v", allow, err)
		}
	}
}
