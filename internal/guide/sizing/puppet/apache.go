package puppet

import "fmt"

// Names of the files of Apache httpd, as Debian's and Red Hat's packages have them.
const (
	ApacheSite = "etc/apache2/sites-available/puppet.conf"
	ApacheFile = "etc/httpd/conf.d/puppet.conf"
)

// apache is Apache httpd as the front end.
func (p *plan) apache() web {
	s := p.Server
	w := web{
		name: "Apache httpd", platform: "httpd", rule: "H10", service: "apache2.service", file: ApacheSite, checked: "apachectl -t of httpd 2.4.71", cache: "/var/cache/apache2/mod_cache_disk",
		prepare: "put httpd's file in place, and turn on what it needs; it is not loaded yet, since Puppet Server has the port",
		enable:  "install -m 0644 puppet.conf /etc/apache2/sites-available/puppet.conf && a2enmod ssl headers proxy_http cache_disk && a2ensite puppet", test: "apachectl -t says Syntax OK",
	}
	logs := "${APACHE_LOG_DIR}"
	if s.RedHat {
		w.service, w.file, w.cache, logs = "httpd.service", ApacheFile, "/var/cache/httpd/proxy", "logs"
		w.enable = "dnf install mod_ssl && install -m 0644 puppet.conf /etc/httpd/conf.d/puppet.conf"
	}
	l := &lines{}
	l.say("Puppet Server behind Apache httpd, with a cache. Written by fettle size puppet.")
	l.WriteString("\n")
	l.say("where agents come to, as ever", "Listen 8140")
	l.say("the log says how long each request took (%D, microseconds), who asked, and whether the cache answered: fettle logs --config",
		`LogFormat "%h %l %u %t \"%r\" %>s %b %D \"%{Referer}i\" \"%{User-Agent}i\" %{SSL_CLIENT_S_DN_CN}x \"%{cache-status}e\"" puppet`)
	l.block("what agents speak with", "<VirtualHost *:8140>", "</VirtualHost>", func() {
		l.say("a log of its own, in the format above", "CustomLog "+logs+"/puppet.log puppet")
		l.say("agents speak TLS; what is before 1.2 is not to be used (RFC 8996)", "SSLEngine on", "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1")
		l.say("the server's own certificate", "SSLCertificateFile "+s.Certificate, "SSLCertificateKeyFile "+s.Key)
		l.say("clients' certificates are of Puppet's authority, and not revoked", "SSLCACertificateFile "+s.CA, "SSLCARevocationFile "+s.CRL, "SSLCARevocationCheck chain")
		l.say("an agent without a certificate comes to ask for one; auth.conf and the locations below say what it may", "SSLVerifyClient optional")
		l.say("Puppet's authority has one in between since version 6: the default of 1 refuses every agent", "SSLVerifyDepth 3")
		l.WriteString("\n")
		l.say("who the client is, by its certificate alone: what it says of itself in these headers goes", "RequestHeader unset X-Client-Verify", "RequestHeader unset X-Client-DN", "RequestHeader unset X-Client-Cert")
		l.say("and httpd says it anew", `RequestHeader set X-Client-Verify "expr=%{SSL_CLIENT_VERIFY}"`, `RequestHeader set X-Client-DN "expr=%{SSL_CLIENT_S_DN}" "expr=-n %{SSL_CLIENT_S_DN}"`)
		l.say("the certificate itself, for trusted facts and the extensions that auth.conf asks for", `RequestHeader set X-Client-Cert "expr=%{escape:%{SSL_CLIENT_CERT}}" "expr=-n %{SSL_CLIENT_CERT}"`)
		l.WriteString("\n")
		l.say("Puppet Server, on the loopback alone (webserver.conf); longer than the longest request of the log", "ProxyPreserveHost on", fmt.Sprintf("ProxyPass / http://127.0.0.1:%d/ timeout=%d", p.Port, p.wait()), fmt.Sprintf("ProxyPassReverse / http://127.0.0.1:%d/", p.Port))
		l.WriteString("\n")
		l.say("the cache is asked after the client was: the quick way gives what is kept to whoever asks", "CacheQuickHandler off")
		l.say("on disk: mod_cache_socache keeps nothing whose size is not said beforehand, and the server's answers come in chunks", "CacheRoot "+w.cache, "CacheDirLevels 2", "CacheDirLength 1")
		l.say("of many that ask at once for what is not there, one goes through", "CacheLock on")
		l.say("nothing that is out of date, also while the server is down", "CacheStaleOnError off")
		l.say("the query is of the key, with environment and kind of checksum: never turn this on", "CacheIgnoreQueryString off")
		l.say("for a look from outside", "CacheHeader on")
		for _, kept := range p.locations() {
			for i, path := range kept.paths {
				why := kept.why
				if i > 0 {
					why = "as above"
				}
				l.block(why, fmt.Sprintf("<Location \"%s\">", path), "</Location>", func() {
					l.say("from the cache or not: for clients with a certificate alone", `Require expr "%{SSL_CLIENT_VERIFY} == 'SUCCESS'"`)
					l.say("the cache of above", "CacheEnable disk")
					l.say("the server says no time, and without one nothing with a query is kept", fmt.Sprintf(`Header set Cache-Control "max-age=%d" "expr=%%{REQUEST_STATUS} == 200"`, kept.seconds))
					l.say("the server says Vary: Accept-Encoding, User-Agent, an entry for each version of Puppet; the answers differ by the form that is asked for, and are not compressed", "Header set Vary Accept", "RequestHeader unset Accept-Encoding")
				})
			}
		}
	})
	w.text = l.String()
	return w
}
