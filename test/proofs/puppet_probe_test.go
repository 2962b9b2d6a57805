package proofs

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// beyondLoopback is an address of this root that others than itself could use.
const beyondLoopback = "192.0.2.10"

// behindURL is Puppet Server itself, behind a front end.
const behindURL = "http://127.0.0.1:8139"

// The questions, in their order. In the record each is by its name.
const (
	askedNobody      = "metadata of a file that a node has just asked for, without a certificate"
	askedForged      = "the same, with headers that say who one is"
	askedElsewhere   = "metadata of the same file in another environment"
	askedStale       = "metadata of a file that was just changed"
	askedPurged      = "the same, after the script for deployments"
	askedForeign     = "another node's catalog, which that node has just asked for"
	askedNoCatalog   = "the same catalog, without a certificate"
	askedForgedAlone = "the same catalog, without a certificate and with headers that name its node"
	askedForgedNode  = "the same catalog, with a certificate and headers that name its node"
	askedPast        = "the same catalog past the front end, with headers that name its node"
)

var puppetQuestions = []string{askedNobody, askedForged, askedElsewhere, askedStale, askedPurged, askedForeign, askedNoCatalog, askedForgedAlone, askedForgedNode, askedPast}

// sourceCache is the source's configuration, word for word (Turning on Caching in Apache).
const sourceCache = `<IfModule mod_mem_cache.c>
CacheEnable mem /
CacheDefaultExpire 300
MCacheSize 1024000
MCacheMaxObjectCount 10000
MCacheMinObjectSize 1
MCacheMaxObjectSize 2048000
CacheIgnoreNoLastMod On
</IfModule>
`

// todaysCache is the same for the module that Apache has today.
const todaysCache = "CacheEnable disk /\nCacheDefaultExpire 300\nCacheIgnoreNoLastMod On\n"

// workingCache is that with the one directive more by which it keeps anything: what agents
// ask for has a query since Puppet 4.
const workingCache = todaysCache + "CacheIgnoreQueryString On\n"

// probes asks each sort of front end for what it should refuse: first those of the source
// and those with a hole, then what fettle has written, and then a server that all can reach.
func (x *puppetProof) probes() {
	past := "http://" + beyondLoopback + ":8139"
	for _, c := range []struct {
		name, configuration string
		front               product.Front
	}{
		{"Apache, the source's cache word for word", sourceCache, product.Front{Server: "Apache", Cache: sourceCache}},
		{"Apache, the same with mod_cache_disk", todaysCache, product.Front{Server: "Apache", Cache: todaysCache}},
		{"Apache, the same made to keep something", workingCache, product.Front{Server: "Apache", Cache: workingCache}},
		{"Apache, headers of clients kept", "RequestHeader setifempty X-Client-Verify, X-Client-DN", product.Front{Server: "Apache", Hole: product.Headers}},
		{"nginx, the cache asks for no certificate", "no if ($ssl_client_verify != SUCCESS)", product.Front{Server: "nginx", Hole: product.NoCertificate}},
		{"nginx, the cache without the query", "proxy_cache_key $uri", product.Front{Server: "nginx", Hole: product.NoQuery}},
		{"nginx, headers of clients kept", "map $http_x_client_dn", product.Front{Server: "nginx", Hole: product.Headers}},
	} {
		c.front.SSLDir, c.front.Port, c.front.Behind = x.server.SSLDir, "8140", strings.TrimPrefix(behindURL, "http://")
		_, end := c.front.Serve(x)
		x.probe(puppetSite{Name: c.name, Configuration: c.configuration}, past)
		end()
	}
	for _, f := range puppetFronts {
		end := x.serve(f, true)
		x.probe(puppetSite{Name: f.Title + ", as fettle writes it", Ours: true}, past)
		end()
	}
	f := puppetFronts[1]
	defer x.serve(f, true)()
	const webserver = "/etc/puppet/puppetserver/conf.d/webserver.conf"
	x.write(map[string]string{webserver: strings.Replace(product.Read(x, webserver), "127.0.0.1", "0.0.0.0", 1)})
	product.Command(x, "sh", "-c", "kill -s HUP $(pgrep -x java)")
	if !root.Eventually(10*time.Minute, func() bool {
		return exec.Command("curl", "-sf", past+"/status/v1/simple").Run() == nil && exec.Command("curl", "-sfk", "https://"+x.server.Address+"/status/v1/simple").Run() == nil
	}) {
		x.Fatal("Puppet Server does not listen on all addresses")
	}
	x.probe(puppetSite{Name: f.Title + ", as fettle writes it, and Puppet Server on all addresses", Configuration: "webserver.conf: host: 0.0.0.0"}, past)
}

// probe asks the server on port 8140 all questions, and has fettle ask it. past is an
// address of Puppet Server itself that should lead nowhere.
func (x *puppetProof) probe(s puppetSite, past string) {
	x.Helper()
	const file = "probe"
	path, elsewhere := metadata("site/"+file, "production"), metadata("site/"+file, "test")
	catalog := "/puppet/v3/catalog/" + x.other.Name + "?environment=test"
	forged := []string{"X-Client-Verify: SUCCESS", "X-Client-DN: CN=" + x.other.Name}
	says := map[string]string{}
	content := func(environment, name string) string {
		text := fmt.Sprintf("%s, %s, before %s\n", environment, name, s.Name)
		says[fmt.Sprintf("%x", sha256.Sum256([]byte(text)))] = name
		return text
	}
	x.change("production", file, content("production", "as it was"))
	x.change("test", file, content("test", "the other one's"))

	from := x.mark(product.Log)
	for range 3 {
		if status, _ := x.ask(&x.node, "", path); status != "200" {
			x.Fatalf("%s: a node gets %s for the metadata of a file", s.Name, status)
		}
	}
	// A request of another kind is logged after those three.
	_, _ = x.ask(&x.node, "", "/puppet/v3/node/"+x.node.Name+"?environment=production")
	s.Kept = strings.Count(product.Read(x, from.since(x, "GET /puppet/v3/node/")), "GET "+path+" ") < 3

	add := func(question string, as *product.Agent, base, path string, open func(status, said string) bool, headers ...string) {
		x.Helper()
		status, body := x.ask(as, base, path, headers...)
		a := puppetAnswer{Question: question, Status: status}
		for sum, word := range says {
			if strings.Contains(body, sum) {
				a.Says = word
			}
		}
		a.Open = open(status, a.Says)
		s.Answers = append(s.Answers, a)
	}
	given := func(status, _ string) bool { return status == "200" }
	old := func(status, said string) bool { return status == "200" && said == "as it was" }
	add(askedNobody, nil, "", path, given)
	add(askedForged, nil, "", path, given, forged...)
	add(askedElsewhere, &x.node, "", elsewhere, old)
	x.change("production", file, content("production", "as it is"))
	add(askedStale, &x.node, "", path, old)
	if s.Ours {
		x.purge()
		add(askedPurged, &x.node, "", path, old)
	}
	if status, body := x.ask(&x.other, "", catalog); status != "200" {
		x.Errorf("%s: a node gets %s for its own catalog: %.300s", s.Name, status, body)
	}
	add(askedForeign, &x.node, "", catalog, given)
	add(askedNoCatalog, nil, "", catalog, given)
	add(askedForgedAlone, nil, "", catalog, given, forged...)
	add(askedForgedNode, &x.node, "", catalog, given, forged...)
	add(askedPast, nil, past, catalog, given, forged...)

	s.Findings = x.findings(past)
	for _, a := range s.Answers {
		x.Logf("%s: %s: %s %s, open: %v", s.Name, a.Question, a.Status, a.Says, a.Open)
	}
	x.Logf("%s: kept %v, %v", s.Name, s.Kept, s.Findings)
	x.record.Probes = append(x.record.Probes, s)
}

// findings are those of fettle check puppet --probe.
func (x *puppetProof) findings(past string) map[string]puppetFinding {
	x.Helper()
	var audit findings.Audit
	x.decode(x.fettle("check", "puppet", "--all", "--output", "json", "--probe", "--url", "https://"+x.server.Address, "--puppet-ssldir", x.node.SSLDir, "--certname", x.node.Name,
		"--backend", past, "--allow", beyondLoopback+"/32", "--file", "modules/site/probe", "--environment", "production", "--environment", "test", "--user-agent", userAgent), &audit)
	out := map[string]puppetFinding{}
	for _, f := range audit.Findings {
		if f.ID >= "P30" && f.ID <= "P36" {
			out[f.ID] = puppetFinding{string(f.State), f.Measured, f.Reason}
		}
	}
	if len(out) != 7 {
		x.Errorf("%d findings of what was asked: %v", len(out), out)
	}
	return out
}

// userAgent is what curl says it is: a cache may keep an answer for each sort of agent.
const userAgent = "Puppet/7.23.0"

// ask asks with curl, as a node or without a certificate, by what an agent sends in its headers. base
// is "" for what agents come to.
func (x *puppetProof) ask(as *product.Agent, base, path string, headers ...string) (status, body string) {
	x.Helper()
	if base == "" {
		base = "https://" + x.server.Address
	}
	const file = "/srv/body"
	args := []string{"--silent", "--insecure", "--max-time", "120", "--compressed", "--output", file, "--write-out", "%{http_code}", "--user-agent", userAgent}
	for _, h := range append([]string{"Accept: application/json, text/pson", "Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3"}, headers...) {
		args = append(args, "--header", h)
	}
	if as != nil {
		args = append(args, "--cert", as.SSLDir+"/certs/"+as.Name+".pem", "--key", as.SSLDir+"/private_keys/"+as.Name+".pem")
	}
	x.write(map[string]string{file: ""})
	said, _ := exec.Command("curl", append(args, base+path)...).Output() // it fails without an answer, and prints 000
	return string(said), product.Read(x, file)
}
