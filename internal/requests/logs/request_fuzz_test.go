package logs

import (
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

// FuzzParseWhere tests that an accepted condition can be evaluated for every line.
func FuzzParseWhere(f *testing.F) {
	for _, text := range []string{
		`status >= 500 and indirector == "catalog"`, `duration > "500ms" or not (path matches "^/a" && bytes in [1, 2.5])`, `status`, `(((`, `"a" == method`, `method in []`, `status < -1`, `path startsWith "\x00"`,
		`parameter:x == "y"`, `route contains "a"`, "a == `b`", `status >= 1e400`, `duration == "1h" and user == ""`,
	} {
		f.Add(text, `::1 - - [18/Mar/2012:04:02:25 +0200] "GET /puppet/v3/catalog/a?environment=b HTTP/1.1" 200 5 17 "x\"y"`)
	}
	one, err := logformat.Apache(`%h %l %u %t "%r" %>s %b %D "%{X-Forwarded-For}i"`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, line string) {
		if len(text) > 1000 || len(line) > 64<<10 {
			return
		}
		w, err := ParseWhere(one, text, nil)
		var r Request
		if NewReader(one).Read([]byte(line), &r) != logformat.RequestLine {
			return
		}
		for _, name := range Names(one) {
			d, err := Named(one, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			d.Of(&r)
		}
		if err == nil {
			w(&r)
		}
	})
}
