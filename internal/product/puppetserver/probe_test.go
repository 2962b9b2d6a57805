package puppetserver

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/product"
)

// holds runs a plan and wants what it tells, of which the changes are against shut.
func holds(t *testing.T, p Plan, changes map[string]any) {
	t.Helper()
	told := Run(t.Context(), p)
	for name, want := range shut {
		if other, is := changes[name]; is {
			want = other
		}
		a := told[name]
		if why, is := want.(error); is {
			if a.Value != nil || !strings.Contains(a.Unknown, why.Error()) {
				t.Errorf("%s is %v (%s), want it unknown: %v", name, a.Value, a.Unknown, why)
			}
			continue
		}
		if a.Value != want || a.Unknown != "" {
			t.Errorf("%s is %v (%s), want %v", name, a.Value, a.Unknown, want)
		}
	}
}

// unknown is a reason why nothing is told.
type unknown string

func (u unknown) Error() string { return string(u) }

func TestHoles(t *testing.T) {
	dir := product.SSLDir(t, "localhost", "agent1.test")
	for _, c := range []struct {
		name  string
		open  func(*front)
		turns map[string]any
	}{
		{"none", func(*front) {}, nil},
		{"any catalog", func(f *front) { f.behind.AllowAnyCatalog(true) }, map[string]any{ForeignCatalog: granted, ForgedBeside: granted}},
		{"headers", func(f *front) { f.passesOn = true }, map[string]any{ForgedAlone: granted, ForgedBeside: granted}},
		{"cache for all", func(f *front) { f.answersAll = true }, map[string]any{CachedMetadata: granted}},
		{"no query", func(f *front) { f.withoutQuery = true }, map[string]any{CachedEnvironments: mixed, CachedAnswer: unknown("ignores query strings")}},
		{"an hour", func(f *front) { f.tells = "public, max-age=3600" }, map[string]any{CacheLifetime: 3600.0}},
		{"no words", func(f *front) { f.tells = "" }, map[string]any{CacheLifetime: nil, CachedAge: nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &front{behind: &product.StandIn{HeaderAuth: true}, tells: "max-age=300", kept: map[string]*httptest.ResponseRecorder{}}
			f.behind.Put("production", "plugins/facter/a.rb", "as it is")
			f.behind.Put("testing", "plugins/facter/a.rb", "another one")
			c.open(f)
			p := plan(t, dir, serve(t, dir, f, tls.RequestClientCert))
			holds(t, p, c.turns)
			asked := f.behind.Asked()
			if len(asked) == 0 || len(asked) > p.Requests() {
				t.Errorf("%d requests, and %d were announced", len(asked), p.Requests())
			}
			for _, line := range asked {
				if !strings.HasPrefix(line, "GET ") {
					t.Errorf("a request that is not GET: %s", line)
				}
				if strings.HasPrefix(line, "GET /puppet/v3/catalog/") && !strings.Contains(line, "facts=") {
					t.Errorf("a request that would compile a catalog: %s", line)
				}
			}
		})
	}
}

// An answer that was kept before the file was changed.
func TestStale(t *testing.T) {
	dir := product.SSLDir(t, "localhost", "agent1.test")
	f := &front{behind: &product.StandIn{HeaderAuth: true}, tells: "max-age=300", kept: map[string]*httptest.ResponseRecorder{}}
	f.behind.Put("production", "modules/motd/motd", "as it was")
	f.behind.Put("testing", "modules/motd/motd", "as it was")
	p := plan(t, dir, serve(t, dir, f, tls.RequestClientCert))
	p.File = "modules/motd/motd"
	holds(t, p, nil)
	f.behind.Put("production", "modules/motd/motd", "as it is")
	p.Mark = "4567"
	holds(t, p, map[string]any{CachedAnswer: stale})
}

// Puppet Server by itself has no hole, and asks for certificates in its own way or
// another one.
func TestServerAlone(t *testing.T) {
	dir := product.SSLDir(t, "localhost", "agent1.test")
	s := &product.StandIn{}
	s.Put("production", "plugins/facter/a.rb", "as it is")
	for name, how := range map[string]tls.ClientAuthType{"wanted": tls.VerifyClientCertIfGiven, "required": tls.RequireAndVerifyClientCert} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, dir, serve(t, dir, s, how))
			holds(t, p, map[string]any{CacheLifetime: nil, CachedAge: nil})
			p.UserAgent = ""
			holds(t, p, map[string]any{CacheLifetime: nil, CachedAge: nil, CachedAnswer: unknown("--user-agent")})
		})
	}
}

// What cannot be told is unknown, and never refused.
func TestUnknown(t *testing.T) {
	dir, other := product.SSLDir(t, "localhost", "agent1.test"), product.SSLDir(t, "localhost", "agent1.test")
	s := &product.StandIn{}
	all := func(why string) map[string]any {
		out := map[string]any{}
		for name := range shut {
			out[name] = unknown(why)
		}
		out[CacheLifetime], out[CachedAge] = unknown(why), unknown(why)
		return out
	}
	cache := func(turns map[string]any, why string) map[string]any {
		for _, name := range []string{CachedMetadata, AnonymousMetadata, CachedAnswer, CachedAge, CacheLifetime, CachedEnvironments} {
			turns[name] = unknown(why)
		}
		return turns
	}
	t.Run("no plug-ins", func(t *testing.T) {
		s.Put("production", "modules/motd/motd", "a file")
		holds(t, plan(t, dir, serve(t, dir, s, tls.RequestClientCert)), cache(map[string]any{}, "name a file with --file MOUNT/PATH"))
	})
	t.Run("no such file", func(t *testing.T) {
		p := plan(t, dir, serve(t, dir, s, tls.RequestClientCert))
		p.File = "modules/motd/none"
		holds(t, p, cache(map[string]any{}, "status 404"))
	})
	t.Run("not let in", func(t *testing.T) {
		p := plan(t, dir, serve(t, dir, &product.StandIn{HeaderAuth: true}, tls.RequestClientCert))
		// It has no front end, so whoever forges headers is let in.
		turns := cache(all("Puppet Server refuses agent1.test even its own catalog"), "status 403")
		turns[ForgedAlone], turns[ForgedBeside] = granted, granted
		holds(t, p, turns)
	})
	t.Run("broken", func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		holds(t, plan(t, dir, serve(t, dir, h, tls.RequestClientCert)), all("status 503"))
	})
	t.Run("no Puppet Server", func(t *testing.T) {
		const no = "the answer is not a Puppet catalog"
		hello := func(texts ...string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if len(texts) > 1 && !strings.Contains(r.URL.Path, "agent1.test") {
					http.Error(w, "", http.StatusForbidden)
					return
				}
				_, _ = io.WriteString(w, texts[0])
			})
		}
		for _, text := range []string{"hello", "", "{}", "[]", `{"name":"x"}`, `{"resources":[]}`, `{"name":1,"resources":[]}`} {
			p := plan(t, dir, serve(t, dir, hello(text), tls.RequestClientCert))
			p.BackEnds = []Site{p.Front}
			want := all(no)
			for _, name := range []string{CachedMetadata, AnonymousMetadata, CachedAnswer, CachedAge, CacheLifetime, CachedEnvironments} {
				want[name] = unknown("") // it says that as well
			}
			holds(t, p, want)
			told := Run(t.Context(), p)
			if back := told[BelievingBackEnds]; !strings.Contains(back.Unknown, no) {
				t.Errorf("%q as a back end: %+v", text, back)
			}
			if at := told[ForeignCatalog].At; !strings.HasSuffix(at, "/puppet/v3/catalog/fettle-0123.invalid") {
				t.Errorf("it was asked at %s", at)
			}
		}
		// Its own catalog is not given, so that others are refused says nothing.
		told := Run(t.Context(), plan(t, dir, serve(t, dir, hello("hello", "to one"), tls.RequestClientCert)))
		for _, name := range []string{ForeignCatalog, AnonymousCatalog, ForgedAlone, ForgedBeside} {
			if a := told[name]; a.Value != nil || !strings.Contains(a.Unknown, no) {
				t.Errorf("%s: %+v", name, a)
			}
		}
	})
	t.Run("a catalog is compiled all the same", func(t *testing.T) {
		for _, text := range []string{`{"name":"x","resources":[{"type":"Class"}],"edges":[]}`, `{"document_type":"Catalog","data":{"name":"x","resources":[]}}`} {
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, text) })
			if a := Run(t.Context(), plan(t, dir, serve(t, dir, h, tls.RequestClientCert)))[ForeignCatalog]; a.Value != granted {
				t.Errorf("%s: %+v", text, a)
			}
		}
	})
	t.Run("led elsewhere", func(t *testing.T) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusMovedPermanently)
		})
		holds(t, plan(t, dir, serve(t, dir, h, tls.RequestClientCert)), all("status 301"))
	})
	t.Run("another authority", func(t *testing.T) {
		holds(t, plan(t, dir, serve(t, other, s, tls.RequestClientCert)), all("the server's certificate is not signed by the CA"))
	})
	t.Run("nobody", func(t *testing.T) {
		server := httptest.NewServer(s)
		site := siteOf(t, server)
		server.Close()
		holds(t, plan(t, dir, site), all("no answer"))
		// That a back end does not answer is not a good sign if nothing does.
		p := plan(t, dir, site)
		p.BackEnds = []Site{site}
		if a := Run(t.Context(), p)[BelievingBackEnds]; a.Value != nil || !strings.Contains(a.Unknown, "Puppet Server may not be running") {
			t.Errorf("%+v", a)
		}
	})
}

func TestBackEnds(t *testing.T) {
	dir := product.SSLDir(t, "localhost", "agent1.test")
	open := httptest.NewServer(&product.StandIn{HeaderAuth: true})
	t.Cleanup(open.Close)
	gone := httptest.NewServer(&product.StandIn{})
	away := siteOf(t, gone)
	gone.Close()
	broken := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(broken.Close)
	front := serve(t, dir, &product.StandIn{}, tls.RequestClientCert)
	// By another name than its certificate has.
	believing := serve(t, product.SSLDir(t, "localhost"), &product.StandIn{HeaderAuth: true}, tls.RequestClientCert)
	for _, c := range []struct {
		name    string
		behind  []Site
		nobody  string
		want    int
		unknown string
	}{
		{"none", nil, "", 0, ""},
		{"none is known", nil, "no socket", 0, "no socket"},
		{"shut", []Site{front, away}, "", 0, ""},
		{"open", []Site{away, siteOf(t, open), believing, siteOf(t, broken)}, "", 2, ""},
		{"not to be told", []Site{front, siteOf(t, broken)}, "", 0, "status 404"},
	} {
		p := plan(t, dir, front)
		p.BackEnds, p.NoBackEnds = c.behind, c.nobody
		a := Run(t.Context(), p)[BelievingBackEnds]
		list, _ := a.Value.([]string)
		if len(list) != c.want || !strings.Contains(a.Unknown, c.unknown) || (a.Unknown == "") != (c.unknown == "") {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

func TestProbeCheck(t *testing.T) {
	for _, p := range []Plan{
		{Environments: []string{"a b"}}, {Environments: []string{"production", "x&y=z"}}, {Environments: []string{""}},
		{File: "motd"}, {File: "/motd"}, {File: "modules/"}, {File: "modules/../x"}, {File: "modules/a?b"}, {File: "modules/a\r\nb"},
	} {
		if p.Check() == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	if err := (Plan{Environments: []string{"production", "t_1"}, File: "modules/a b/ü.conf"}).Check(); err != nil {
		t.Error(err)
	}
}

func FuzzLifetime(f *testing.F) {
	for _, text := range []string{"max-age=300", "public, s-maxage=\"60\", max-age=300", "no-store", "max-age=-1", "max-age=NaN", "", ","} {
		f.Add(text, "")
	}
	f.Add("", "Sun, 22 Nov 2026 18:00:00 GMT")
	f.Fuzz(func(t *testing.T, control, expires string) {
		h := http.Header{"Cache-Control": {control}, "Expires": {expires}, "Date": {"Sun, 22 Nov 2026 17:55:00 GMT"}}
		if s, ok := lifetime(h); ok && !(s >= 0 && s < 1e18) {
			t.Errorf("%q %q: %v", control, expires, s)
		}
	})
}

func TestLifetime(t *testing.T) {
	for control, want := range map[string]float64{"max-age=300": 300, "public, s-maxage=\"60\", max-age=300": 60, "no-store, max-age=9": 0, "Max-Age=5": 5, "": 300, "max-age=x": 300, "max-age=NaN": 300} {
		h := http.Header{"Cache-Control": {control}, "Expires": {"Sun, 22 Nov 2026 18:00:00 GMT"}, "Date": {"Sun, 22 Nov 2026 17:55:00 GMT"}}
		if s, ok := lifetime(h); !ok || s != want {
			t.Errorf("%q: %v %v, want %v", control, s, ok, want)
		}
	}
	if s, ok := lifetime(http.Header{}); ok {
		t.Errorf("nothing is said, and it is %v", s)
	}
}
