package text

import (
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Messages of Go's libraries lose the names of functions and types.
func TestPlainMessage(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "no such")
	var wrong struct{ A int }
	dialed := func(network, address string) error {
		_, err := net.Dial(network, address)
		return err
	}
	failed := func(_ any, err error) error { return err }
	badURL := func(u string) error { return failed(url.Parse(u)) }
	leaks := regexp.MustCompile(`\b(open|stat|lstat|readlink|mkdir|remove|dial|exec|lookup|parse|strconv|json|time|parsing|Go) ?[.:"/]|Operator\(|EOF|Go value|token|invalid character|beginning of|magic`)
	for _, err := range []error{
		failed(os.Open(missing)), failed(os.Stat(missing)), failed(os.Lstat(missing)), failed(os.ReadDir(missing)), failed(os.Readlink(dir)), failed(os.ReadFile(dir)),
		os.Mkdir(dir, 0o700), os.Remove(missing), dialed("tcp", "127.0.0.1:1"), dialed("unix", missing),
		failed(exec.LookPath("no-such-program")), failed(exec.LookPath(missing)), exec.Command(missing).Run(), badURL("127.0.0.1:1"), badURL("http://a:b"),
		&net.DNSError{Err: "no such host", Name: "a"}, &net.DNSError{Err: "server misbehaving", Name: "a", Server: "192.0.2.1:53"},
		&net.DNSError{Err: "read udp 127.0.0.1:40000->127.0.0.1:53: read: connection refused", Name: "a", Server: "127.0.0.1:53"}, failed(strconv.Atoi("x")), failed(strconv.ParseUint("99999999999999999999", 10, 64)), failed(strconv.ParseFloat("", 64)),
		json.Unmarshal([]byte(`{"A":"x"}`), &wrong), json.Unmarshal([]byte(`3`), &wrong), json.Unmarshal([]byte(`{"A":`), &wrong),
		json.Unmarshal([]byte(`root:x`), &wrong), json.Unmarshal([]byte(`{"A":1]`), &wrong), json.Unmarshal([]byte("{\"A\":\"\n\"}"), &wrong), json.Unmarshal([]byte(`{}x`), &wrong),
		failed(time.ParseDuration("3")), failed(time.ParseDuration("3 parsecs")),
		errors.New(`unexpected token Operator("=") (1:8)`), errors.New("unexpected token EOF (1:8)"),
	} {
		if err == nil {
			t.Fatal("no error")
		}
		if got := PlainMessage("x: " + err.Error() + "; do this"); leaks.MatchString(got) {
			t.Errorf("%q leaks the words of %q", got, err)
		}
	}
	for text, want := range map[string]string{
		"stat nofile: no such file or directory":                              "nofile: no such file or directory",
		"a.log: open /x/y: permission denied":                                 "a.log: /x/y: permission denied",
		"x: invalid character 'r' looking for beginning of value":             "x: invalid JSON at 'r'",
		"x: invalid input: magic number mismatch":                             "x: the file has another format",
		"part: part: no such file or directory":                               "part: no such file or directory",
		"the files are open: see the manual":                                  "the files are open: see the manual",
		"read the manual: it says so":                                         "read the manual: it says so",
		`--where: unexpected token Operator("=") (1:8)`:                       `--where: unexpected "=" (1:8)`,
		`exec: "fio": executable file not found in $PATH`:                     "fio: not found in $PATH",
		`cannot start the command: exec: "/x": /x: no such file or directory`: "cannot start the command: /x: no such file or directory",
		"lookup a.example on 192.0.2.1:53: server misbehaving":                "a.example: server misbehaving",
		`parse "127.0.0.1:1": first path segment in URL cannot contain colon`: `"127.0.0.1:1" is not a URL such as http://HOST:PORT`,
		"json: cannot unmarshal number into Go value of type rule":            "unexpected number in the JSON",
	} {
		if got := PlainMessage(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
