package puppet

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
)

// PurgeScript is the name, on the machine, of what empties the cache.
const PurgeScript = "usr/local/sbin/puppet-cache-purge"

// kept are the paths whose answers are the same for every node of an environment, until
// its code changes. Other mounts are not among them: what fileserver.conf gives out may
// differ from node to node.
var kept = []string{
	"/puppet/v3/file_metadata/modules", "/puppet/v3/file_metadatas/modules",
	"/puppet/v3/file_metadatas/plugins", "/puppet/v3/file_metadatas/pluginfacts", "/puppet/v3/file_metadatas/locales",
}

// forever is the path whose answers never change: its query names the version.
const forever = "/puppet/v3/static_file_content"

// cache decides whether a cache in front of the server pays, beside static catalogs where
// there are some.
func (p *plan) cache() error {
	names := []string{"file_metadatas"}
	beside := " beside static catalogs"
	if !p.static {
		names, beside = append(names, "file_metadata"), ""
	}
	count, share := p.log.count(names...), 100*p.log.share(names...)
	hits := p.log.hits(float64(p.Seconds), names...)
	rate := 0.0
	if count > 0 {
		rate = 100 * float64(hits) / float64(count)
	}
	figures := fmt.Sprintf("%s%s: %d requests, %.1f %% of all time; a cache of %d s would have answered at least %d of them (%.0f %%)", strings.Join(names, " and "), beside, count, share, p.Seconds, hits, rate)
	pays := share >= p.figure("share percent") && rate >= p.figure("hits percent")
	sources := []rule.Source{caching003, terminations}
	verdict := func(v, why string) { p.add("cache", "verdict", v, "", why, sources...) }
	front := p.FrontEnd
	if front == "" {
		front = "nginx"
		if p.Server.Nginx == "" && p.Server.Apache != "" {
			front = "apache"
		}
	}
	switch {
	case !pays && !p.forced("cache"):
		verdict("does not pay", fmt.Sprintf("%s; with less than %.0f %% of the time, or answers for less than %.0f %% of the requests, it is not worth that agents may get what is out of date", figures, p.figure("share percent"), p.figure("hits percent")))
		return nil
	case p.Server.Version == "":
		verdict("pays", figures+"; no Puppet Server is here to write files for")
		return nil
	case p.Server.Enterprise:
		verdict("not written", figures+"; the services of Puppet Enterprise talk to each other over the port that would move")
		return nil
	case older(p.Server.Version, 5, 0):
		verdict("not with this version", figures+"; what is written is for Puppet Server 5 and later, and this is "+p.Server.Version)
		return nil
	case p.Server.Satellite:
		verdict("not written", figures+"; Satellite's installer owns the server's port and its web server")
		return nil
	case p.Server.FileRule != "":
		verdict("not possible", figures+"; "+p.Server.FileRule+", and a cache would give them to all")
		return nil
	case p.Server.Webserver == "":
		verdict("not written", figures+"; "+p.Server.WebserverNo)
		return nil
	case p.Server.HeadersAt != "" && !p.Server.Headers:
		verdict("not written", figures+"; "+p.Server.HeadersAt+" has allow-header-cert-info as false, and the server refuses what two files set: take the line out")
		return nil
	case p.Server.Certificate == "":
		return sizing.Bad("certname", "what is the server's certificate? neither its puppet.conf says, nor is there one alone below its ssldir")
	case front == "nginx" && p.Server.Nginx != "" && olderThan(p.Server.Nginx, 1, 13, 5):
		return sizing.Bad("front-end", "nginx %s cannot pass a certificate on: 1.13.5 can ($ssl_client_escaped_cert)", p.Server.Nginx)
	case front == "apache" && p.Server.Apache != "" && olderThan(p.Server.Apache, 2, 4, 10):
		return sizing.Bad("front-end", "httpd %s has no expressions as values of headers: 2.4.10 has", p.Server.Apache)
	}
	p.cached = true
	verdict("second", figures)
	return p.frontEnd(front)
}

// frontEnd writes the files of the web server in front, and of the server behind it.
func (p *plan) frontEnd(front string) error {
	web := p.nginx()
	installed := p.Server.Nginx
	if front == "apache" {
		web, installed = p.apache(), p.Server.Apache
	}
	if installed == "" {
		p.Note("%s is not installed here: install it first, and look whether the paths are its own", web.name)
	}
	p.add("cache", "front_end", strings.TrimSpace(web.name+" "+installed), "", fmt.Sprintf("one request from the cache took about %.0f us of CPU with nginx and %.0f with Apache httpd, where the server took milliseconds (P23)", p.figure("nginx us"), p.figure("apache us")), rule.Source{Document: "fettle", Section: "measured with Puppet Server 7.9.5"})
	p.add("cache", "seconds", p.Seconds, "s", "a file that was changed may be missed for as long, unless the cache is emptied at each deployment; the source had 300", caching003)
	p.Files = append(p.Files,
		sizing.Artefact{Name: web.file, What: "the web server in front: TLS, certificates, cache", Checked: web.checked, Content: web.text},
		sizing.Artefact{Name: p.Server.Options + "/webserver.conf", What: "Puppet Server on the loopback alone, without TLS", Checked: "Trapperkeeper's jetty-config",
			Content: because(p.Server.Webserver, "host and port are of the loopback, without TLS: the web server in front has the port of the agents, and whoever reaches this one is believed (header-certificates.conf)")},
		sizing.Artefact{Name: HeadersFile(p.Server.Options), What: "Puppet Server believes the front end who a client is", Checked: "Trapperkeeper's authorization", Content: `# Written by fettle size puppet. Whoever reaches the server's port is believed with this:
# it goes in place together with webserver.conf, which has it on the loopback alone.
authorization: {
    # who a client is comes in X-Client-Verify, X-Client-DN and X-Client-Cert: the web server in front has its certificate, and this one sees none
    allow-header-cert-info: true
}
`},
		sizing.Artefact{Name: PurgeScript, What: "empties the cache, at each deployment", Checked: "find(1)", Executable: true, Content: `#!/bin/sh
# Empties the cache in front of Puppet Server. Written by fettle size puppet.
# Answers of before a deployment are wrong after it: r10k calls this as postrun.
exec find ` + quote(web.cache) + ` -mindepth 1 -type f -delete
`})
	options, service, both := "/"+p.Server.Options, web.service, "webserver.conf header-certificates.conf"
	if at := p.Server.HeadersAt; at != "" && !strings.HasPrefix(at, "/"+HeadersFile(p.Server.Options)+":") {
		p.Files = slices.DeleteFunc(p.Files, func(a sizing.Artefact) bool { return a.Name == HeadersFile(p.Server.Options) })
		both = "webserver.conf"
		p.Note("%s has allow-header-cert-info already: until Puppet Server is on the loopback alone whoever reaches its port is whom he says (P21)", at)
	}
	p.Steps = append(p.Steps,
		sizing.Step{Do: "Cache: " + web.prepare, Command: web.enable, Check: web.test},
		sizing.Step{Do: "Move Puppet Server to the loopback and let it believe the front end, in one step: one without the other is either out of order or open to everybody",
			Command:  fmt.Sprintf("install -m 0644 %s %s/ && systemctl restart puppetserver.service && systemctl restart %s", both, options, service),
			Restarts: "puppetserver.service, about a minute without agents; " + service,
			Check:    fmt.Sprintf("ss -ltn has 127.0.0.1:%d and no other address with it; fettle check puppet %s has no failure (P21, %s)", p.Port, web.platform, web.rule)},
		sizing.Step{Do: "Ask for something that is kept without a certificate", Command: fmt.Sprintf("curl -sk -o /dev/null -w '%%{http_code}\\n' 'https://localhost:8140%s?environment=production'", kept[2]), Check: "it prints 403"},
		sizing.Step{Do: "Have each deployment empty the cache: postrun of r10k", Command: "/" + PurgeScript},
		sizing.Step{Do: "Have the web server read the list of revoked certificates anew when it changes: it reads it at a reload only", Command: "systemctl enable --now puppet-revocations.path", Check: "systemctl list-units puppet-revocations.path"})
	p.Files = append(p.Files,
		sizing.Artefact{Name: "etc/systemd/system/puppet-revocations.path", What: "watches the list of revoked certificates", Checked: "systemd.path(5)", Content: fmt.Sprintf("# Written by fettle size puppet.\n[Path]\n# the authority writes it when a certificate is revoked, and a web server reads it at a reload only\nPathChanged=%s\n\n[Install]\n# at each boot\nWantedBy=multi-user.target\n", p.Server.CRL)},
		sizing.Artefact{Name: "etc/systemd/system/puppet-revocations.service", What: "reloads the web server when it changes", Checked: "systemd.service(5)", Content: fmt.Sprintf("# Written by fettle size puppet.\n[Service]\n# puppet-revocations.path starts it when the list of revoked certificates has changed; a reload ends no request\nType=oneshot\nExecStart=/usr/bin/systemctl reload %s\n", service)})
	if p.Server.RedHat {
		p.Note("with SELinux the web server has to be allowed port 8140 and the connection behind it: semanage port -m -t http_port_t -p tcp 8140; setsebool -P httpd_can_network_connect 1. That was not tried here")
	}
	p.Note("the cache: an agent whose file differs may, until an answer is out of date, get the old checksum and the new content, and leave the file as it is until its next run; static catalogs have no such window")
	return nil
}

// HeadersFile is the name of the file that has the server believe the front end.
func HeadersFile(options string) string { return options + "/header-certificates.conf" }

// web is one web server as the front end.
type web struct {
	name, platform, rule, service string
	file, text, checked           string
	cache                         string // directory
	prepare, enable, test         string
}

// wait is how long the front end waits for the server, in seconds: longer than the
// longest request of the log.
func (p *plan) wait() int { return int(math.Max(300, math.Ceil(p.log.Longest)+60)) }

func olderThan(version string, want ...int) bool {
	var have [3]int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); n == 0 {
		return false
	}
	for i, w := range want {
		if have[i] != w {
			return have[i] < w
		}
	}
	return false
}
