package puppet

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/product/httpd"
	"fettle.dev/fettle/internal/product/nginx"
	"fettle.dev/fettle/internal/product/puppetserver"
)

// fronts are the configurations of possible front-end web servers.
var fronts = []struct {
	main string
	logs func(*host.Host, string) ([]accesslog.Log, error)
}{
	{"/etc/httpd/conf/httpd.conf", httpd.Logs}, {"/etc/apache2/apache2.conf", httpd.Logs}, {"/etc/nginx/nginx.conf", nginx.Logs},
}

// untimed answers with the logs of agents' requests whose format lacks durations: Puppet Server's
// own, and front-end servers' logs with puppet in the file name.
func (p *puppet) untimed() fact.Answer {
	main := path.Dir(p.files.Options)
	all, err := puppetserver.Logs(p.host, main)
	if err != nil {
		return fact.Unread(main, err)
	}
	all = slices.DeleteFunc(all, func(l accesslog.Log) bool { return l.Own })
	for _, f := range fronts {
		found, err := f.logs(p.host, f.main)
		if err != nil && !host.NotFound(err) {
			return fact.Unread(f.main, err)
		}
		for _, l := range found {
			if strings.Contains(path.Base(l.Path), "puppet") {
				all = append(all, l)
			}
		}
	}
	if len(all) == 0 {
		return fact.Answer{At: main}
	}
	out, at := []string{}, all[0].At
	for i := range all {
		compiled, err := all[i].Compile()
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: all[i].At}
		}
		if compiled.Field(logformat.FieldDuration) < 0 {
			if len(out) == 0 {
				at = all[i].Format.String()
			}
			out = append(out, all[i].Path)
		}
	}
	return fact.Answer{Value: out, At: at}
}
