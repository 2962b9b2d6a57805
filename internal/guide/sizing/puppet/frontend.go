package puppet

import (
	"embed"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
)

// Names of the files on the machine: the script that empties the cache, and the files of the
// web servers, as in the packages of Debian and Red Hat.
const (
	PurgeScript = "usr/local/sbin/puppet-cache-purge"
	NginxFile   = "etc/nginx/conf.d/puppet.conf"
	ApacheSite  = "etc/apache2/sites-available/puppet.conf"
	ApacheFile  = "etc/httpd/conf.d/puppet.conf"
)

//go:embed templates
var templates embed.FS

var fill = sizing.Templates(templates)

// proxy is a web server in front of Puppet Server; the templates use its fields.
type proxy struct {
	Server
	name, template, file, checked string
	platform, rule, version       string // version in fettle check
	Port, Wait                    int    // of Puppet Server; Wait is in seconds
	Service, CacheDir, CacheSize  string
	LogDir                        string // of httpd
	Locations                     []location
	prepare, enable, test         string
}

// location is a kind of cached response.
type location struct {
	Why     string
	Regexp  string   // of nginx
	Paths   []string // of httpd
	Seconds int
}

// locations returns the kinds of responses that are the same for every node of an environment
// until its code changes. Files that fileserver.conf serves may differ per node.
func (p *plan) locations() []location {
	all := []location{{
		Why:    "the metadata of modules' files and of plugins: the same for each node of an environment",
		Regexp: `^/puppet/v3/(file_metadata/modules/|file_metadatas/(modules/|(plugins|pluginfacts|locales)$))`,
		Paths: []string{
			"/puppet/v3/file_metadata/modules", "/puppet/v3/file_metadatas/modules",
			"/puppet/v3/file_metadatas/plugins", "/puppet/v3/file_metadatas/pluginfacts", "/puppet/v3/file_metadatas/locales",
		},
		Seconds: p.Seconds,
	}}
	if p.static {
		const path = "/puppet/v3/static_file_content"
		all = append(all, location{"what static catalogs refer to: the query has its version, so it never changes", "^" + path + "/", []string{path}, int(p.figure("version seconds"))})
	}
	return all
}

// proxy describes nginx or Apache httpd as the front end.
func (p *plan) proxy(name string) proxy {
	f := proxy{Server: p.Server, Port: p.Port, Locations: p.locations()}
	f.Wait = int(math.Max(300, math.Ceil(p.log.Longest)+60)) // exceeds the longest request
	f.CacheSize = fmt.Sprintf("%.0fm", p.figure("cache bytes")/(1<<20))
	const notLoaded = "; it is not loaded yet, since Puppet Server has the port"
	if name == "nginx" {
		f.name, f.template, f.file, f.checked = "nginx", "nginx.conf", NginxFile, "nginx -t of nginx 1.22"
		f.platform, f.rule, f.version = "nginx", "N09", p.Server.Nginx
		f.Service, f.CacheDir = "nginx.service", "/var/lib/nginx/puppet" // in a directory that the packages create
		f.prepare, f.enable, f.test = "put nginx's file in place"+notLoaded, "install -m 0644 puppet.conf /etc/nginx/conf.d/puppet.conf", "nginx -t says that the syntax is ok"
		return f
	}
	f.name, f.template, f.file, f.checked = "Apache httpd", "apache.conf", ApacheSite, "apachectl -t of httpd 2.4.71"
	f.platform, f.rule, f.version = "httpd", "H10", p.Server.Apache
	f.Service, f.CacheDir, f.LogDir = "apache2.service", "/var/cache/apache2/mod_cache_disk", "${APACHE_LOG_DIR}"
	f.prepare, f.test = "put httpd's file in place, and turn on what it needs"+notLoaded, "apachectl -t says Syntax OK"
	f.enable = "install -m 0644 puppet.conf /etc/apache2/sites-available/puppet.conf && a2enmod ssl headers proxy_http cache_disk && a2ensite puppet"
	if p.Server.RedHat {
		f.file, f.Service, f.CacheDir, f.LogDir = ApacheFile, "httpd.service", "/var/cache/httpd/proxy", "logs"
		f.enable = "dnf install mod_ssl && install -m 0644 puppet.conf /etc/httpd/conf.d/puppet.conf"
	}
	return f
}

// frontEnd writes the files of the front-end web server and of the server behind it.
func (p *plan) frontEnd(name string) {
	f := p.proxy(name)
	if f.version == "" {
		p.Note("%s is not installed on this machine; install it first and check the paths", f.name)
	}
	p.add("cache", "front_end", strings.TrimSpace(f.name+" "+f.version), "", text.Sprintf("one request from the cache took about %.0f us of CPU with nginx and %.0f with Apache httpd, where the server took milliseconds (P23)", p.figure("nginx us"), p.figure("apache us")), rule.Cite("fettle", "measured with Puppet Server 7.9.5"))
	p.add("cache", "seconds", p.Seconds, "s", "agents may miss a changed file for this long, unless each deployment empties the cache; the cited article uses 300", cachingInApache())
	p.Files = append(p.Files,
		sizing.Artefact{Name: f.file, What: "the web server in front: TLS, certificates, cache", Checked: f.checked, Content: fill(f.template, f)},
		sizing.Artefact{
			Name: p.Server.Options + "/webserver.conf", What: "Puppet Server on the loopback alone, without TLS", Checked: "Trapperkeeper's jetty-config",
			Content: withReasons(p.Server.Webserver, "Puppet Server listens on the loopback, without TLS: the web server in front has the port of the agents, and Puppet Server trusts any client that reaches its own port (header-certificates.conf)"),
		})
	moved := "webserver.conf header-certificates.conf"
	headers := HeadersFile(p.Server.Options)
	if at := p.Server.HeadersAt; at != "" && !strings.HasPrefix(at, "/"+headers+":") {
		moved = "webserver.conf"
		p.Note("%s has allow-header-cert-info already: until Puppet Server listens only on the loopback, it trusts any client that reaches its port (P21)", at)
	} else {
		p.Files = append(p.Files, sizing.Artefact{Name: headers, What: "lets Puppet Server take the identity of a client from the front end", Checked: "Trapperkeeper's authorization", Content: fill("header-certificates.conf", f)})
	}
	p.Files = append(p.Files,
		sizing.Artefact{Name: PurgeScript, What: "empties the cache, at each deployment", Checked: "find(1)", Executable: true, Content: fill("purge.sh", f)},
		sizing.Artefact{Name: "etc/systemd/system/puppet-revocations.path", What: "watches the list of revoked certificates", Checked: "systemd.path(5)", Content: fill("revocations.path", f)},
		sizing.Artefact{Name: "etc/systemd/system/puppet-revocations.service", What: "reloads the web server when it changes", Checked: "systemd.service(5)", Content: fill("revocations.service", f)})
	p.Steps = append(p.Steps,
		sizing.Step{Do: "Cache: " + f.prepare, Command: f.enable, Check: f.test},
		sizing.Step{
			Do:       "Move the server to the loopback and trust the front end, in one step",
			Command:  fmt.Sprintf("install -m 0644 %s /%s/ && systemctl restart puppetserver.service && systemctl restart %s", moved, p.Server.Options, f.Service),
			Restarts: "puppetserver.service, about a minute without agents; " + f.Service + "; with only one of the two the server is either down or open to everyone",
			Check:    fmt.Sprintf("ss -ltn shows port %d on 127.0.0.1 only; fettle check puppet %s reports no failure of P21 and %s", p.Port, f.platform, f.rule),
		},
		sizing.Step{Do: "Request a cached answer without a certificate", Command: fmt.Sprintf("curl -sk -o /dev/null -w '%%{http_code}\\n' 'https://localhost:8140%s?environment=production'", f.Locations[0].Paths[2]), Check: "it prints 403"},
		sizing.Step{Do: "Make each deployment empty the cache: postrun of r10k", Command: "/" + PurgeScript},
		sizing.Step{Do: "Make the web server reload when the list of revoked certificates changes", Command: "systemctl enable --now puppet-revocations.path", Check: "systemctl list-units puppet-revocations.path"})
	if p.Server.RedHat {
		p.Note("with SELinux the web server has to be allowed port 8140 and the connection behind it: semanage port -m -t http_port_t -p tcp 8140; setsebool -P httpd_can_network_connect 1. These commands were not tested")
	}
	p.Note("the cache: an agent whose file differs may get the old checksum and the new content until the cached answer expires, and leave the file as it is until its next run; static catalogs have no such window")
}
