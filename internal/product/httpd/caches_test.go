package httpd

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestCertificateFaults(t *testing.T) {
	const headers = "RequestHeader unset X-Client-Verify\nRequestHeader set X-Client-DN \"%{SSL_CLIENT_S_DN}s\"\nRequestHeader unset x-client-cert\n"
	const asks = "Require expr \"%{SSL_CLIENT_VERIFY} == 'SUCCESS'\"\n"
	location := func(more string) string {
		return "<Location \"/puppet/v3/file_metadata/modules\">\n" + more + "CacheEnable disk\n</Location>\n"
	}
	for name, tt := range map[string]struct{ host, want string }{
		"sound":                     {"SSLVerifyClient optional\nCacheQuickHandler off\n" + headers + location(asks), ""},
		"all have one":              {"SSLVerifyClient require\nCacheQuickHandler off\n" + location(""), ""},
		"no certificates":           {location(""), ""},
		"the default way":           {"SSLVerifyClient require\n" + location(""), "cached responses are served without access checks (CacheQuickHandler)"},
		"a certificate is optional": {"SSLVerifyClient optional\nCacheQuickHandler off\n" + location(""), "apache2.conf:5: cached responses are served to clients without a certificate (disk)"},
		"no query":                  {"SSLVerifyClient require\nCacheQuickHandler off\nCacheIgnoreQueryString On\n" + location(""), "ignores the query string"},
		"a request decides":         {"SSLVerifyClient require\nCacheQuickHandler off\n<If \"%{HTTP_HOST} == 'a'\">\nSSLVerifyClient none\n</If>\n" + location(""), "?apache2.conf:5: inside <If>"},
		"it is irrelevant":          {"SSLVerifyClient require\nCacheQuickHandler off\n<If \"%{HTTP_HOST} == 'a'\">\nHeader set a b\n</If>\n" + location(""), ""},
		"a version":                 {"<IfVersion < 2.4>\nSSLVerifyClient require\n</IfVersion>\n" + location(""), "?inside <IfVersion < 2.4>"},
		"one is forgotten":          {"SSLVerifyClient optional\nRequestHeader set X-Client-Verify x\nRequestHeader set X-Client-Cert x\n", "apache2.conf:2: the client's X-Client-DN"},
	} {
		const main = "/etc/apache2/apache2.conf"
		h := machine.Mounted(t, map[string]string{main: "<VirtualHost *:8140>\n" + tt.host + "</VirtualHost>\n"})
		s, err := readSettings(h, instance{Instance: conf.Instance{Name: "apache2", Main: main}, root: "/etc/apache2"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := s.certificateFaults()
		if unknown, ok := strings.CutPrefix(tt.want, "?"); ok {
			if err == nil || !strings.Contains(err.Error(), unknown) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
