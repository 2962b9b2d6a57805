package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/requests/load/engine"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// Where the servers of TestProbe are; the last is not of loopback.
const (
	behindPort     = "18139"
	frontPort      = "18140"
	beyondLoopback = "192.0.2.10"
)

// probed are the rules that judge what a probe has shown.
var probed = []string{"P30", "P31", "P32", "P33", "P34", "P35", "P36"}

// Each hole is built with Debian's Apache and nginx, and found; where none is, none is.
func TestProbe(t *testing.T) {
	t.Parallel()
	if !testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		return
	}
	sh(t, "ip address add "+beyondLoopback+"/32 dev lo")
	ssldir := product.SSLDir(t, "localhost", "agent1.test")
	behind := &product.StandIn{HeaderAuth: true}
	serveHTTP(t, "127.0.0.1:"+behindPort, behind)
	for _, server := range []string{"Apache", "nginx"} {
		for _, c := range []struct {
			hole  product.Hole // of the front end, or another one
			finds map[string]rule.State
		}{
			{"none", nil},
			{product.Headers, map[string]rule.State{"P31": rule.Failed}},
			{"any catalog", map[string]rule.State{"P32": rule.Failed, "P31": rule.Failed}},
			{product.NoCertificate, map[string]rule.State{"P33": rule.Failed}},
			{"stale", map[string]rule.State{"P34": rule.Warned}},
			{product.AnHour, map[string]rule.State{"P35": rule.Warned}},
			{product.NoQuery, map[string]rule.State{"P36": rule.Failed, "P34": rule.Unknown}},
			{"back end", map[string]rule.State{"P30": rule.Failed}},
		} {
			t.Run(server+" "+string(c.hole), func(t *testing.T) {
				behind.Put("production", "modules/motd/motd", "as it was")
				behind.Put("testing", "modules/motd/motd", "of testing")
				behind.AllowAnyCatalog(c.hole == "any catalog")
				product.Front{Server: server, Hole: c.hole, SSLDir: ssldir, Port: frontPort, Behind: "127.0.0.1:" + behindPort}.Serve(t)
				switch c.hole {
				case "stale":
					probes(t, ssldir) // as an agent would have asked
					behind.Put("production", "modules/motd/motd", "as it is")
				case "back end":
					serveHTTP(t, beyondLoopback+":"+behindPort, behind)
				}
				behind.Asked()
				audit := probes(t, ssldir)
				for _, id := range probed {
					want := rule.Passed
					if s, is := c.finds[id]; is {
						want = s
					}
					i := slices.IndexFunc(audit.Findings, func(f rule.Finding) bool { return f.ID == id })
					if i < 0 {
						t.Fatalf("no finding %s", id)
					}
					if f := audit.Findings[i]; f.State != want {
						t.Errorf("%s is %s, want %s: %v %s", id, f.State, want, f.Measured, f.Reason)
					}
				}
				for _, line := range behind.Asked() {
					if !strings.HasPrefix(line, "GET ") {
						t.Errorf("a request that is not GET: %s", line)
					}
				}
			})
		}
	}
}

// probes asks as the node agent1.test.
func probes(t *testing.T, ssldir string) *findings.Audit {
	t.Helper()
	var out, said bytes.Buffer
	code := Main("test", []string{"check", "puppet", "--all", "-o", "json", "--probe", "--url", "https://localhost:" + frontPort, "--puppet-ssldir", ssldir, "--certname", "agent1.test",
		"--backend", "http://" + beyondLoopback + ":" + behindPort, "--allow", beyondLoopback + "/32", "--file", "modules/motd/motd", "--environment", "production", "--environment", "testing", "--user-agent", "Puppet/7.23.0"}, &out, &said)
	audit := &findings.Audit{}
	if err := json.Unmarshal(out.Bytes(), audit); err != nil || code != 0 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, &out, &said)
	}
	if err := validate(out.Bytes()); err != nil {
		t.Error(err)
	}
	if want := "https://localhost:" + frontPort + " as agent1.test with at most 17 GET requests"; !strings.Contains(said.String(), want) {
		t.Errorf("it does not say %q: %s", want, &said)
	}
	return audit
}

// serveHTTP serves at an address until the test ends.
func serveHTTP(t *testing.T, address string, h http.Handler) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
}

// What makes no sense, and who may not be asked, is refused before any request.
func TestProbeRefused(t *testing.T) {
	ssldir := product.SSLDir(t, "localhost", "agent1.test")
	as := []string{"--puppet-ssldir", ssldir, "--certname", "agent1.test"}
	asked := func(words ...string) []string {
		return append(append([]string{"check", "puppet", "--probe"}, words...), as...)
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"check", "puppet", "--url", "https://localhost"}, "--url needs --probe"},
		{2, []string{"check", "--probe", "--url", "https://localhost"}, "--probe --url works with a Puppet Server only"},
		{2, asked(), "want --url https://HOST:8140"},
		{2, []string{"check", "puppet", "--probe", "--url", "https://localhost"}, "--probe: agent certificate missing; give --puppet-ssldir DIR --certname NAME, or --cert and --key"},
		{2, []string{"check", "puppet", "--probe", "--url", "https://localhost", "--certname", "a"}, "want both --puppet-ssldir and --certname"},
		{2, asked("--url", "localhost:8140"), "want https://HOST:PORT"},
		{2, asked("--url", "http://localhost:8140"), ": Puppet agents use https; want https://HOST:PORT"},
		{2, asked("--url", "https://u:secret@localhost:8140"), "want https://HOST:PORT"},
		{2, asked("--url", "https://localhost:8140/puppet"), "without a path"},
		{2, asked("--url", "https://localhost:8140", "--file", "motd"), "want MOUNT/PATH"},
		{2, asked("--url", "https://localhost:8140", "--environment", "a b"), "letters, digits and _"},
		{2, asked("--url", "https://localhost:8140", "--backend", "http://127.0.0.1:8139"), ": only this machine can reach this address; use an address that other machines can reach"},
		{2, asked("--url", "https://localhost:8140", "--on", "ssh:a"), "--probe cannot be used with --on"},
		{2, append(asked("--url", "https://localhost:8140"), "--root", ssldir), "--root"},
		{4, asked("--url", "https://192.0.2.7:8140"), "192.0.2.7:8140 is not a loopback address and not allowed"},
		{4, asked("--url", "https://localhost:8140", "--backend", "http://192.0.2.7:8139"), "--allow=192.0.2.7:8139"},
		{2, []string{"check", "puppet", "--probe", "--url", "https://localhost:8140", "--puppet-ssldir", ssldir, "--certname", "nobody"}, "nobody.pem"},
	} {
		var out, said bytes.Buffer
		code := Main("test", c.args, &out, &said)
		if text := out.String() + said.String(); code != c.code || !strings.Contains(text, c.want) || strings.Contains(text, "secret") {
			t.Errorf("fettle %s: exit %d, want %d and %q: %s", strings.Join(c.args, " "), code, c.code, c.want, text)
		}
	}
}

// The sockets of Puppet Server itself are those of its own file, where it is here.
func TestOwnBackEnds(t *testing.T) {
	files := engine.Files{PuppetSSLDir: product.SSLDir(t, "agent1.test"), CertName: "agent1.test"}
	for _, c := range []struct{ conf, want string }{
		{"ssl-host: 0.0.0.0\n ssl-port: 8140", "https://localhost:8140"},
		{"port: 8139", ""},
		{"host: 127.0.0.1\n port: 8139", ""},
		{"host: \"::\"\n port: 8139", "http://localhost:8139"},
		{"host: 0.0.0.0\n ssl-port: 8140", "http://localhost:8080"},
		{"client-auth: want", "the address of Puppet Server behind the front end is unknown"},
	} {
		h := testkitmachine.Mounted(t, map[string]string{"etc/puppetlabs/puppetserver/conf.d/webserver.conf": "webserver: {\n " + c.conf + "\n}\n"})
		p, err := probeOptions{url: "https://localhost:8140", environments: []string{"production"}, files: files}.plan(t.Context(), h, net.DefaultResolver)
		if err != nil {
			t.Errorf("%q: %v", c.conf, err)
			continue
		}
		got := ""
		for _, s := range p.BackEnds {
			got += s.URL.String()
		}
		if p.NoBackEnds != "" {
			got, _, _ = strings.Cut(p.NoBackEnds, " (")
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.conf, got, c.want)
		}
	}
}

// The real Puppet Server has none of the holes as its package sets it up, and two where
// it believes headers on a socket that others reach.
func TestProbeOfPuppetServer(t *testing.T) {
	testkitroot.Nightly(t, "starts Puppet Server, which takes minutes")
	if !testkitroot.Inside(t, testkitroot.Options{Puppet: true}) {
		return
	}
	product.Quicken(t)
	sh(t, "install -D /dev/stdin "+product.Code+"/modules/motd/lib/facter/motd.rb </dev/null")
	server := product.StartPuppetServer(t)
	agent := server.Agent(t, "agent1.test")
	agent.Run(t)
	states := func() (all []string) {
		audit, _ := checked(t, "puppet", "--all", "--probe", "--url", "https://"+server.Address, "--puppet-ssldir", agent.SSLDir, "--certname", agent.Name, "--user-agent", "Puppet/7.23.0")
		for _, id := range probed {
			for _, f := range audit.Findings {
				if f.ID == id {
					all = append(all, id+" "+string(f.State))
					t.Logf("%s %s: %v %s", id, f.State, f.Measured, f.Reason)
				}
			}
		}
		return all
	}
	if got, want := states(), []string{"P30 pass", "P31 pass", "P32 pass", "P33 pass", "P34 pass", "P35 not-applicable", "P36 pass"}; !slices.Equal(got, want) {
		t.Errorf("as its package has it: %q, want %q", got, want)
	}
	const auth = "/etc/puppet/puppetserver/conf.d/auth.conf"
	put(t, auth, strings.Replace(read(t, auth), "version: 1", "version: 1\n    allow-header-cert-info: true", 1))
	sh(t, "kill -s HUP $(pgrep -x java)")
	var got []string
	if !testkitroot.Eventually(10*time.Minute, func() bool {
		got = states()
		return slices.Contains(got, "P30 fail")
	}) {
		t.Fatalf("it does not read its configuration anew: %q", got)
	}
	for _, want := range []string{"P30 fail", "P31 fail"} {
		if !slices.Contains(got, want) {
			t.Errorf("with headers: %q, want %s", got, want)
		}
	}
	for _, id := range probed[2:] {
		if slices.Contains(got, id+" pass") {
			t.Errorf("%s has passed, and nobody with a certificate is let in", id)
		}
	}
}
