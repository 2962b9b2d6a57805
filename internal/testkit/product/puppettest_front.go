package product

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Front is a web server in front of Puppet Server, with a cache for the metadata of files and
// at most one vulnerability. It runs in a root with the servers.
type Front struct {
	Server   string // Apache or nginx
	Hole     Hole
	Uncached bool   // without a cache
	Cache    string // replaces Apache's directives about the cache
	SSLDir   string // certs/localhost.pem with its key, and the authority
	Port     string // of 127.0.0.1
	Behind   string // HOST:PORT of Puppet Server, by HTTP
}

// Hole is a vulnerability of a front end.
type Hole string

// Holes of the configuration.
const (
	Headers       Hole = "headers"        // passes the client's headers about certificates on
	NoCertificate Hole = "no certificate" // the cache answers clients without one
	AnHour        Hole = "an hour"        // lifetime of answers
	NoQuery       Hole = "no query"       // the cache ignores queries
)

// Words in capitals depend on the hole.
const apache = `ServerRoot /usr/lib/apache2
ServerName localhost
Listen 127.0.0.1:PORT
User www-data
Group www-data
PidFile DIR/pid
ErrorLog DIR/error.log
LogLevel warn
LogFormat "%h %l %u %t \"%r\" %>s %b %D \"%{Referer}i\" \"%{User-Agent}i\" %{cache-status}e" puppet
LoadModule mpm_event_module modules/mod_mpm_event.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule ssl_module modules/mod_ssl.so
LoadModule headers_module modules/mod_headers.so
LoadModule proxy_module modules/mod_proxy.so
LoadModule proxy_http_module modules/mod_proxy_http.so
LoadModule cache_module modules/mod_cache.so
LoadModule cache_disk_module modules/mod_cache_disk.so
CacheRoot DIR/cache
<VirtualHost 127.0.0.1:PORT>
CustomLog DIR/access.log puppet
SSLEngine on
SSLCertificateFile SSL/certs/localhost.pem
SSLCertificateKeyFile SSL/private_keys/localhost.pem
SSLCACertificateFile SSL/certs/ca.pem
SSLVerifyClient optional
SSLVerifyDepth 3
UNSET
RequestHeader SETTING X-Client-Verify "expr=%{SSL_CLIENT_VERIFY}"
RequestHeader SETTING X-Client-DN "expr=%{SSL_CLIENT_S_DN}" "expr=-n %{SSL_CLIENT_S_DN}"
RequestHeader SETTING X-Client-Cert "expr=%{escape:%{SSL_CLIENT_CERT}}" "expr=-n %{SSL_CLIENT_CERT}"
ProxyPass / http://BEHIND/ timeout=600
CACHE</VirtualHost>
`

// apacheCache contains Apache's cache directives.
const apacheCache = `CacheQuickHandler QUICK
CacheIgnoreQueryString QUERY
ENABLE
<Location /puppet/v3/file_metadata/>
Header set Cache-Control "max-age=LIFETIME"
Header edit Vary ", ?User-Agent" ""
Require expr "%{SSL_CLIENT_VERIFY} == 'SUCCESS'"
</Location>
`

const nginx = `user www-data;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 1024; }
http {
  log_format puppet '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $upstream_cache_status';
  access_log DIR/access.log puppet;
  keepalive_requests 100000;
  proxy_cache_path DIR/cache keys_zone=puppet:1m;
  proxy_http_version 1.1;
  proxy_read_timeout 600s;
  client_max_body_size 16m;
  map $http_x_client_dn $verify { SETVERIFY }
  map $http_x_client_dn $dn { SETDN }
  server {
    listen 127.0.0.1:PORT ssl;
    ssl_certificate SSL/certs/localhost.pem;
    ssl_certificate_key SSL/private_keys/localhost.pem;
    ssl_client_certificate SSL/certs/ca.pem;
    ssl_verify_client optional;
    ssl_verify_depth 3;
    proxy_set_header X-Client-Verify $verify;
    proxy_set_header X-Client-DN $dn;
    proxy_set_header X-Client-Cert $ssl_client_escaped_cert;
    location / { proxy_pass http://BEHIND; }
    location /puppet/v3/file_metadata/ {
      ONLYFOR
      proxy_pass http://BEHIND;
      proxy_cache ENABLE;
      proxy_cache_key KEY;
      proxy_cache_valid 200 LIFETIMEs;
      proxy_ignore_headers Vary;
      proxy_hide_header Vary;
      add_header Cache-Control "max-age=LIFETIME";
    }
  }
}
`

// words returns the replacements of the words in capitals.
func (f Front) words(dir string) []string {
	either := func(hole Hole, open, shut string) string {
		if f.Hole == hole {
			return open
		}
		return shut
	}
	cached := func(yes, no string) string {
		if f.Uncached {
			return no
		}
		return yes
	}
	common := []string{"SSL/", f.SSLDir + "/", "DIR/", dir + "/", "127.0.0.1:PORT", "127.0.0.1:" + f.Port, "BEHIND", f.Behind, "LIFETIME", either(AnHour, "3600", "300")}
	if f.Server == "Apache" {
		unset := "RequestHeader unset X-Client-Verify\nRequestHeader unset X-Client-DN\nRequestHeader unset X-Client-Cert"
		return append(common, "UNSET", either(Headers, "", unset), "SETTING", either(Headers, "setifempty", "set"), "QUICK", either(NoCertificate, "on", "off"), "CacheIgnoreQueryString QUERY", "CacheIgnoreQueryString "+either(NoQuery, "on", "off"),
			"ENABLE", cached("CacheEnable disk /puppet/v3/file_metadata/", ""))
	}
	return append(common,
		"SETVERIFY", either(Headers, `default SUCCESS; "" $ssl_client_verify;`, "default $ssl_client_verify;"),
		"SETDN", either(Headers, `default $http_x_client_dn; "" $ssl_client_s_dn;`, "default $ssl_client_s_dn;"),
		"ONLYFOR", either(NoCertificate, "", "if ($ssl_client_verify != SUCCESS) { return 403; }"),
		"KEY", either(NoQuery, "$uri", "$request_uri"), "ENABLE", cached("puppet", "off"))
}

// Serve starts the front end. It returns the directory of its access.log, and a function that
// stops it before the test ends.
func (f Front) Serve(t testing.TB) (dir string, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("/srv", "front")
	if err != nil {
		t.Fatal(err)
	}
	cache := f.Cache
	if cache == "" {
		cache = apacheCache
	}
	conf := map[string]string{"Apache": strings.Replace(apache, "CACHE", cache, 1), "nginx": nginx}[f.Server]
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(f.words(dir)...).Replace(conf)), 0o644); err != nil {
		t.Fatal(err)
	}
	Command(t, "sh", "-c", "mkdir "+dir+"/cache; chmod 755 "+dir+"; chown www-data "+dir+"/cache")
	argv := map[string][]string{"Apache": {"/usr/sbin/apache2", "-f", file, "-DFOREGROUND"}, "nginx": {"/usr/sbin/nginx", "-c", file, "-g", "daemon off;"}}[f.Server]
	cmd := exec.Command(argv[0], argv[1:]...)
	var talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &talk, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = sync.OnceFunc(func() { // another server may use its port by the end of the test
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		Eventually(t, f.Server+" has ended", func() bool {
			c, err := net.Dial("tcp", "127.0.0.1:"+f.Port)
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	})
	t.Cleanup(end)
	status := []string{"curl", "-sf", "--cacert", f.SSLDir + "/certs/ca.pem", "https://localhost:" + f.Port + "/status/v1/simple"}
	serves := false
	Eventually(t, f.Server+" serves, or has ended", func() bool {
		serves = exec.Command(status[0], status[1:]...).Run() == nil
		select {
		case <-ended:
			return true
		default:
			return serves
		}
	})
	if !serves {
		text, _ := os.ReadFile(filepath.Join(dir, "error.log"))
		t.Fatalf("%s does not serve: %s%s", f.Server, &talk, text)
	}
	return dir, end
}
