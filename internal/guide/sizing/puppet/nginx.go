package puppet

import "fmt"

// NginxFile is the name of nginx's file.
const NginxFile = "etc/nginx/conf.d/puppet.conf"

// nginxCache is below a directory that the packages make.
const nginxCache = "/var/lib/nginx/puppet"

// headers tell the server who a client is. A location that sets one header of its own has
// none of those around it, so each has all of them.
func headers(l *lines) {
	l.say("who the client is, by its certificate alone: what it says of itself in these headers is replaced",
		"proxy_set_header X-Client-Verify $ssl_client_verify;",
		"proxy_set_header X-Client-DN $ssl_client_s_dn;")
	l.say("the certificate itself, for trusted facts and the extensions that auth.conf asks for; none where there is none",
		"proxy_set_header X-Client-Cert $ssl_client_escaped_cert;")
	l.say("for the server's log, and connections that are kept",
		"proxy_set_header X-Forwarded-For $remote_addr;",
		"proxy_set_header Host $http_host;",
		`proxy_set_header Connection "";`)
}

// nginx is nginx as the front end.
func (p *plan) nginx() web {
	l := &lines{}
	s := p.Server
	l.say("Puppet Server behind nginx, with a cache. Written by fettle size puppet.")
	l.WriteString("\n")
	l.say(fmt.Sprintf("the cache: on disk, since answers come in chunks whose size nobody says beforehand; one for all workers; %s at most, and what nobody asks for goes in an hour", size(p.figure("cache bytes"))),
		fmt.Sprintf("proxy_cache_path %s levels=1:2 keys_zone=puppet:16m max_size=%s inactive=1h use_temp_path=off;", nginxCache, size(p.figure("cache bytes"))))
	l.say("the log says how long each request took, who asked, and whether the cache answered: fettle logs --config /etc/nginx",
		`log_format puppet '$remote_addr - $ssl_client_s_dn [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $upstream_cache_status';`)
	l.block("Puppet Server, on the loopback alone (webserver.conf)", "upstream puppetserver {", "}", func() {
		l.say("without TLS, which ends here", fmt.Sprintf("server 127.0.0.1:%d;", p.Port))
		l.say("connections are kept for further requests", "keepalive 32;")
	})
	l.block("what agents speak with", "server {", "}", func() {
		l.say("where agents come to, as ever", "listen 8140 ssl;")
		l.say("a log of its own, in the format above", "access_log /var/log/nginx/puppet.log puppet;")
		l.say("the server's own certificate", "ssl_certificate "+s.Certificate+";", "ssl_certificate_key "+s.Key+";")
		l.say("clients' certificates are of Puppet's authority, and not revoked", "ssl_client_certificate "+s.CA+";", "ssl_crl "+s.CRL+";")
		l.say("an agent without a certificate comes to ask for one; auth.conf and the locations below say what it may", "ssl_verify_client optional;")
		l.say("Puppet's authority has one in between since version 6: the default of 1 refuses every agent", "ssl_verify_depth 3;")
		l.say("what is before 1.2 is not to be used (RFC 8996)", "ssl_protocols TLSv1.2 TLSv1.3;")
		l.say("an agent that comes again needs no whole handshake", "ssl_session_cache shared:puppet_tls:10m;")
		l.say("facts and reports are larger than nginx's 1m", "client_max_body_size 0;")
		l.say("longer than the longest request of the log", fmt.Sprintf("proxy_read_timeout %ds;", p.wait()), fmt.Sprintf("proxy_send_timeout %ds;", p.wait()))
		l.say("HTTP/1.0, which is the default, keeps no connection to Puppet Server", "proxy_http_version 1.1;")
		l.block("catalogs, reports, the authority: never from the cache", "location / {", "}", func() {
			headers(l)
			l.say("to Puppet Server", "proxy_pass http://puppetserver;")
		})
		for _, kept := range p.locations() {
			l.block(kept.why, fmt.Sprintf("location ~ %s {", kept.regexp), "}", func() {
				l.say("from the cache or not: for clients with a certificate alone", "if ($ssl_client_verify != SUCCESS) {", "    return 403;", "}")
				l.say("the cache of above", "proxy_cache puppet;")
				l.say("the whole query is of the key, with environment and kind of checksum, and so is the form that the client takes", `proxy_cache_key "$request_uri $http_accept";`)
				l.say("answers alone that are whole and right; of GET, which is the default", fmt.Sprintf("proxy_cache_valid 200 %ds;", kept.seconds))
				l.say("they are the same for every agent: the server says Vary: User-Agent for the sake of compression, and that is asked for below no more", "proxy_ignore_headers Vary;", `proxy_set_header Accept-Encoding "";`)
				l.say("of many that ask at once for what is not there, one goes through", "proxy_cache_lock on;")
				l.say("for a look from outside", "add_header X-Cache $upstream_cache_status;")
				headers(l)
				l.say("what the cache has not comes from Puppet Server", "proxy_pass http://puppetserver;")
			})
		}
	})
	return web{
		name: "nginx", platform: "nginx", rule: "N09", service: "nginx.service", file: NginxFile, text: l.String(), checked: "nginx -t of nginx 1.22", cache: nginxCache,
		prepare: "put nginx's file in place; it is not loaded yet, since Puppet Server has the port", enable: "install -m 0644 puppet.conf /etc/nginx/conf.d/puppet.conf", test: "nginx -t says that the syntax is ok",
	}
}

// location is one kind of answers that are kept.
type location struct {
	why     string
	regexp  string   // of nginx
	paths   []string // of httpd
	seconds int
}

// locations are what is kept.
func (p *plan) locations() []location {
	all := []location{{
		"the metadata of modules' files and of plugins: the same for each node of an environment", `^/puppet/v3/(file_metadata/modules/|file_metadatas/(modules/|(plugins|pluginfacts|locales)$))`, kept, p.Seconds,
	}}
	if p.static {
		all = append(all, location{"what static catalogs refer to: its version is in the query, and it never changes", "^" + forever + "/", []string{forever}, int(p.figure("version seconds"))})
	}
	return all
}

// size is an amount of bytes as nginx writes it.
func size(n float64) string { return fmt.Sprintf("%.0fm", n/(1<<20)) }
