package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLogsOnce: of the logs of one server, which have the same requests, one is read, also
// where the name of another fits the name with variables (nginx 1.22, two access_log lines
// of one level: each request is in both files).
func TestLogsOnce(t *testing.T) {
	const (
		plain = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 9 "-" "curl/8"` + "\n"
		timed = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 9 "-" "curl/8" 0.100` + "\n"
	)
	for name, c := range map[string]struct {
		config string
		logs   map[string]string
		want   []string
		count  int
	}{
		"a variable that has the literal name too": {
			"access_log /var/log/nginx/access.log;\naccess_log /var/log/nginx/$host.log timed;\nserver { }",
			map[string]string{"access.log": plain + plain + plain, "a.log": timed + timed, "b.log": timed},
			[]string{"a.log", "b.log"}, 3,
		},
		"the literal name has the time": {
			"access_log /var/log/nginx/access.log timed;\naccess_log /var/log/nginx/$host.log;\nserver { }",
			map[string]string{"access.log": timed + timed + timed, "a.log": plain + plain, "b.log": plain},
			[]string{"access.log"}, 3,
		},
		"servers of their own": {
			"server { access_log /var/log/nginx/access.log; }\nserver { access_log /var/log/nginx/$host.log timed; }",
			map[string]string{"access.log": plain + plain + plain, "a.log": timed},
			[]string{"a.log", "access.log"}, 4,
		},
	} {
		root := t.TempDir()
		files := map[string]string{"etc/nginx/nginx.conf": "events {}\nhttp {\nlog_format timed '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" $request_time';\n" + c.config + "\n}\n"}
		for log, text := range c.logs {
			files["var/log/nginx/"+log] = text
		}
		for file, text := range files {
			to := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, said strings.Builder
		code := Main("test", []string{"logs", "--root", root, "--config", "/etc/nginx", "--by", "path", "--output", "json"}, &out, &said)
		var r struct {
			Requests int
			Logs     []struct{ Path string }
		}
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil || code != 0 {
			t.Fatalf("%s: exit code %d, %v: %s%s", name, code, err, out.String(), said.String())
		}
		var names []string
		for _, l := range r.Logs {
			names = append(names, filepath.Base(l.Path))
		}
		if slices.Sort(names); r.Requests != c.count || !slices.Equal(names, c.want) {
			t.Errorf("%s: %d requests of %q; want %d of %q", name, r.Requests, names, c.count, c.want)
		}
	}
}
