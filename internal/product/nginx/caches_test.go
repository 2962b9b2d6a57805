package nginx

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/machine"
)

func TestCertificateFaults(t *testing.T) {
	const headers = "proxy_set_header X-Client-Verify $ssl_client_verify; proxy_set_header x-client-dn $ssl_client_s_dn; proxy_set_header X-Client-Cert $ssl_client_escaped_cert;"
	const asks = "if ($ssl_client_verify != SUCCESS) { return 403; }"
	for name, tt := range map[string]struct{ server, want string }{
		"sound":                  {"ssl_verify_client optional; " + headers + " location / { proxy_pass http://a; }\nlocation /c { " + asks + " proxy_cache x; proxy_cache_key \"$request_uri $http_accept\"; proxy_pass http://a; }", ""},
		"the default key":        {"ssl_verify_client on; location / { proxy_cache x; proxy_pass http://a; }", ""},
		"no certificates":        {"location / { proxy_cache x; proxy_cache_key $uri; }", ""},
		"no query":               {"ssl_verify_client on;\nproxy_cache_key $uri;\nlocation / { proxy_cache x; }", "nginx.conf:4: the cache's key \"$uri\" has no query string"},
		"nobody is asked":        {"ssl_verify_client optional;\n location / { proxy_cache x; proxy_pass http://a; }", "nginx.conf:3: cached responses are served to clients without"},
		"asked outside":          {"ssl_verify_client optional;\n" + asks + " location / { proxy_cache x; }", ""},
		"headers of another one": {"ssl_verify_client optional; " + headers + "\nlocation /a { proxy_pass http://a; proxy_set_header Accept-Encoding \"\"; }", "nginx.conf:3: the client's X-Client-Verify is passed on unchanged|X-Client-DN|X-Client-Cert"},
		"one is forgotten":       {"ssl_verify_client optional; proxy_set_header X-Client-Verify $ssl_client_verify; proxy_set_header X-Client-Cert $ssl_client_escaped_cert;\nlocation / { proxy_pass http://a; }", "nginx.conf:3: the client's X-Client-DN"},
		"a cache that is off":    {"ssl_verify_client optional; location / { proxy_cache off; }", ""},
	} {
		h := machine.Mounted(t, map[string]string{mainFile: "http {\nserver { " + tt.server + " }\n}\n"})
		got, err := certificateFaults(h, []string{mainFile})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want []string
		if tt.want != "" {
			want = strings.Split(tt.want, "|")
		}
		all := strings.Join(got, "\n")
		if len(got) != len(want) {
			t.Errorf("%s: %q", name, got)
		}
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q has no %q", name, got, w)
			}
		}
	}
}
