package puppet

import (
	"slices"
	"testing"
)

// A log has the time of a request where its format, as the server has it, says so.
func TestUntimed(t *testing.T) {
	logging := func(pattern string) map[string]string {
		return map[string]string{
			"installed-rpms": rpms("puppetserver-7.15.0-1.el8.noarch Tue\n"),
			dir + "puppetserver/conf.d/webserver.conf":    "webserver: {\n    access-log-config: /etc/puppetlabs/puppetserver/request-logging.xml\n}\n",
			dir + "puppetserver/conf.d/puppetserver.conf": "jruby-puppet: {}\n",
			dir + "puppetserver/request-logging.xml": `<configuration><appender name="FILE" class="ch.qos.logback.core.FileAppender"><file>` + accessLog + `</file><encoder><pattern>` +
				pattern + `</pattern></encoder></appender><appender-ref ref="FILE" /></configuration>`,
		}
	}
	const combined = `%h %l %u [%t] "%r" %s %b "%i{Referer}" "%i{User-Agent}"`
	with := func(files map[string]string, name, text string) map[string]string {
		files[name] = text
		return files
	}
	const httpd = "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %b\" short\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %b %D\" timed\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"with %D":    {logging(combined + " %D"), []string{}},
		"without":    {logging(combined), []string{accessLog}},
		"in seconds": {logging(combined + " %T"), []string{}},
		"Apache in front": {with(logging(combined+" %D"), "etc/httpd/conf/httpd.conf", httpd+"CustomLog /var/log/httpd/puppet_access_ssl.log short\nCustomLog /var/log/httpd/access_log short\n"),
			[]string{"/var/log/httpd/puppet_access_ssl.log"}},
		"Apache in front, with the time": {with(logging(combined+" %D"), "etc/httpd/conf/httpd.conf", httpd+"CustomLog /var/log/httpd/puppet_access_ssl.log timed\n"), []string{}},
	} {
		a := subject(t, c.files).Answer("puppetserver.log.untimed")
		if got, ok := a.Value.([]string); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %v", name, a, c.want)
		}
	}
}
