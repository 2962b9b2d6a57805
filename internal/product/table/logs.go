package table

import (
	"fmt"
	"path"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/haproxy"
	"fettle.dev/fettle/internal/product/httpd"
	"fettle.dev/fettle/internal/product/nginx"
	"fettle.dev/fettle/internal/product/puppetserver"
	"fettle.dev/fettle/internal/text"
)

// logReader returns the logs that a main file configures.
type logReader func(h *host.Host, main string) ([]accesslog.Log, error)

// logMains lists the main files that may be in a configuration directory, with their readers.
var logMains = []struct {
	name string
	read logReader
}{
	{"apache2.conf", httpd.Logs}, {"conf/httpd.conf", httpd.Logs}, {"httpd.conf", httpd.Logs}, {"nginx.conf", nginx.Logs},
	{"haproxy.cfg", haproxy.Logs}, {"haproxy.config", haproxy.Logs}, {"conf.d/webserver.conf", ofDirectory(2, puppetserver.Logs)}, {"request-logging.xml", puppetserver.Logs}, {"logback.xml", puppetserver.Logs},
}

// ofDirectory applies read to the directory that is up levels above the main file.
func ofDirectory(up int, read logReader) logReader {
	return func(h *host.Host, main string) ([]accesslog.Log, error) {
		for range up {
			main = path.Dir(main)
		}
		return read(h, main)
	}
}

// Patterns that recognize files with other names by their contents.
var (
	ofNginx   = text.LazyRegexp(`(?m)^\s*(http|events|server|upstream\s+\S+)\s*\{|^\s*(log_format|access_log)\s`)
	ofLogback = text.LazyRegexp(`(?s)^\s*(<\?xml.*?\?>)?\s*(<!--.*?-->\s*)*<configuration`)
	ofHAProxy = text.LazyRegexp(`(?m)^(global|defaults|frontend|listen|backend)\b[^<{]*$`)
	ofHTTPD   = text.LazyRegexp(`(?mi)^\s*(LogFormat|CustomLog|TransferLog|GlobalLog|ServerRoot|ServerName|LoadModule|Include(Optional)?)\s|^\s*<(VirtualHost|IfModule|Directory)\b`)
)

// Logs returns the request logs that a configuration names. name is its main file, or the directory
// with it.
func Logs(h *host.Host, name string) ([]accesslog.Log, error) {
	st, err := h.Files.Stat(name)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		for _, m := range logMains {
			main := path.Join(name, m.name)
			if _, err := h.Files.Stat(main); err == nil {
				return m.read(h, main)
			} else if !host.NotFound(err) {
				return nil, err
			}
		}
		return nil, fmt.Errorf("%s: no server configuration found; name the main file (apache2.conf, conf/httpd.conf, nginx.conf, haproxy.cfg, conf.d/webserver.conf or request-logging.xml)", name)
	}
	for _, m := range logMains {
		if path.Base(m.name) == path.Base(name) {
			return m.read(h, name)
		}
	}
	text, err := h.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	switch t := string(text); {
	case ofLogback().MatchString(t):
		return puppetserver.Logs(h, name)
	case ofNginx().MatchString(t):
		return nginx.Logs(h, name)
	case ofHTTPD().MatchString(t):
		return httpd.Logs(h, name)
	case ofHAProxy().MatchString(t):
		return haproxy.Logs(h, name)
	}
	return nil, fmt.Errorf("%s: not a configuration file of Apache httpd, nginx, HAProxy or logback-access", name)
}
