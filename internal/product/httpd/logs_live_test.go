package httpd

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// everyDirective is a configuration with each directive that a LogFormat can have.
const everyDirective = `
LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
LoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule macro_module /usr/lib/apache2/modules/mod_macro.so
LogIOTrackTTFB On
<Macro Logs $name $nam>
  LogFormat "%{X-Id}i $nam %>s" own
  CustomLog ${APACHE_LOG_DIR}/$name.log own
</Macro>
Listen 127.0.0.1:8081
Listen 127.0.0.1:8443
LogFormat "%{X-Id}i\t%% \\ <%a> <%{c}a> <%A> <%B> <%b> <%{C1}C> <%{ENVV}e> <%f> <%h> <%{c}h> <%H> \"%{X-Test}i\" <%k> <%l> <%L> <%{c}L> <%m> <%{none}n> \"%{X-Resp}o\" <%{Content-Type}o> \
<%p> <%{canonical}p> <%{local}p> <%{remote}p> <%P> <%{pid}P> <%{tid}P> <%{hextid}P> \"%q\" \"%r\" <%R> <%s> <%>s> <%<s> <%u> \"%U\" <%v> <%V> <%X> <%I> <%O> <%S> <%{T1}^ti> <%{T1}^to> <%^FB> \
<%{SSL_PROTOCOL}x> <%{SSL_CLIENT_S_DN_CN}x> <%{version}c> <%{cipher}c> <%200,304{X-Test}i> <%!200{X-Test}i> <%400,501{User-Agent}i> \
%t <%{sec}t> <%{msec}t> <%{usec}t> <%{end:msec}t> <%{msec_frac}t> <%{begin:usec_frac}t> <%{%d/%b/%Y %T %z}t> <%{end:%A, %d. %B %y, %I:%M:%S %p}t> <%{%F %T}t.%{usec_frac}t%{%z}t> <%{%s}t> <%{%Y %j %H:%M:%S}t> <%T> <%{s}T> <%{ms}T> <%{us}T> <%D>" every
LogFormat "%v %{X-Id}i %t %{ms}T" mine
<VirtualHost 127.0.0.1:8081>
  ServerName www.example.com
  HttpProtocolOptions Unsafe
  SetEnv ENVV "an \"environment\""
  Header set X-Resp "said \"so\""
  DocumentRoot /var/www/html
  CustomLog ${APACHE_LOG_DIR}/every.log every
  TransferLog ${APACHE_LOG_DIR}/transfer.log
  Use Logs macro short
</VirtualHost>
<VirtualHost 127.0.0.1:8443>
  ServerName tls.example.com
  SSLEngine on
  SSLVerifyClient optional_no_ca
  SSLCertificateFile /etc/apache2/test.pem
  DocumentRoot /var/www/html
  CustomLog ${APACHE_LOG_DIR}/every.log every
  LogFormat "%h %{X-Id}i %>s"
  TransferLog ${APACHE_LOG_DIR}/tls.log
  CustomLog "|/usr/bin/rotatelogs ${APACHE_LOG_DIR}/rotated.%Y-%m-%d 86400" mine
</VirtualHost>
`

// certificate makes one with its key, signed by itself.
func certificate(t *testing.T, name string) (text []byte, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})...)
	return text, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ask sends requests one after the other on one connection, and gives what came back.
func ask(t *testing.T, c net.Conn, requests ...string) (bodies []int) {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(c)
	for _, text := range requests {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		method, _, _ := strings.Cut(text, " ")
		answer, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, len(body))
	}
	return bodies
}

// TestEveryDirective: what Apache writes for each directive of a LogFormat is read as what
// was asked for, by the format that its configuration names.
func TestEveryDirective(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	text, _ := certificate(t, "tls.example.com")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("/etc/apache2/test.pem", string(text))
	write("/etc/apache2/conf-enabled/every.conf", everyDirective)
	write(`/var/www/html/a "file".html`, "0123456789")
	serve(t)
	begun := time.Now()

	dial := func(port int) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const test = "a\"b\\c\td\u00e4\xff ]> x"
	plain := dial(8081)
	port := strconv.Itoa(plain.LocalAddr().(*net.TCPAddr).Port)
	first := "GET /a%20\"file\".html?x=\"1\"&y=\\\xe4 HTTP/1.1\r\nHost: other.example.com\r\nX-Id: first\r\nX-Test: " + test + "\r\nCookie: C0=0; C1=v\"1\r\nUser-Agent: me\r\n\r\n"
	second := "POST /nothing HTTP/1.1\r\nHost: other.example.com\r\nX-Id: second\r\nX-Test: -\r\nTransfer-Encoding: chunked\r\nTrailer: T1\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nT1: trail\r\n\r\n"
	bodies := ask(t, plain, first, second)
	const log = "/var/log/apache2/every.log"
	var lines []string
	logged := func(count int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(log)
			lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			return len(lines) == count
		}
	}
	product.Eventually(t, "two requests are logged", logged(2)) // another thread may log the third first
	_, mine := certificate(t, `node "1"`)
	secret := tls.Client(dial(8443), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{mine}, MaxVersion: tls.VersionTLS12}) //nolint:gosec // the certificate is this test's
	bodies = append(bodies, ask(t, secret, "HEAD / HTTP/1.0\r\nX-Id: third\r\n\r\n")...)

	product.Eventually(t, "three requests are logged", logged(3))
	all, err := Logs(host.Live(), debianMain)
	if err != nil {
		t.Fatal(err)
	}
	f := formatOf(t, all, log)
	if want := fmt.Sprintf("CustomLog of /etc/apache2/conf-enabled/every.conf:%d, format every of /etc/apache2/conf-enabled/every.conf:%d", lineWith("/every.log every"), lineWith(`LogFormat "%{X-Id}i\t%%`)); f.Why != want {
		t.Errorf("%s, want %s", f.Why, want)
	}
	number := regexp.MustCompile(`^\d+$`)
	is := func(re string) func(string) bool { return regexp.MustCompile("^(?:" + re + ")$").MatchString }
	want := []map[string]any{
		{
			"%{X-Id}i": "first", "%a": "127.0.0.1", "%{c}a": "127.0.0.1", "%A": "127.0.0.1", "%B": strconv.Itoa(bodies[0]), "%b": strconv.Itoa(bodies[0]), "%{C1}C": `v"1`, "%{ENVV}e": `an "environment"`,
			"%f": `/var/www/html/a "file".html`, "%h": "127.0.0.1", "%{c}h": "127.0.0.1", "%H": "HTTP/1.1", "%{X-Test}i": test, "%k": "0", "%l": "-", "%L": "-", "%{c}L": "-", "%m": "GET", "%{none}n": "-",
			"%{X-Resp}o": `said "so"`, "%{Content-Type}o": "text/html", "%p": "80", "%{canonical}p": "80", "%{local}p": "8081", "%{remote}p": port, "%P": number.MatchString, "%{pid}P": number.MatchString,
			"%{tid}P": number.MatchString, "%{hextid}P": is("[0-9a-fx]+"), "%q": "?x=\"1\"&y=\\\xe4", "%r": "GET /a%20\"file\".html?x=\"1\"&y=\\\xe4 HTTP/1.1", "%R": is(".*"), "%s": "200", "%>s": "200", "%<s": "200", "%u": "-",
			"%U": `/a "file".html`, "%v": "www.example.com", "%V": is("www.example.com|other.example.com"), "%X": "+", "%I": strconv.Itoa(len(first)), "%O": number.MatchString, "%S": number.MatchString, "%{T1}^ti": "-", "%{T1}^to": "-",
			"%^FB": number.MatchString, "%{SSL_PROTOCOL}x": "-", "%{SSL_CLIENT_S_DN_CN}x": "-", "%{version}c": "-", "%{cipher}c": "-", "%200,304{X-Test}i": test, "%!200{X-Test}i": "-", "%400,501{User-Agent}i": "-",
		},
		{
			"%{X-Id}i": "second", "%m": "POST", "%>s": "404", "%k": "0", "%X": "-", "%{T1}^ti": "trail", "%B": strconv.Itoa(bodies[1]), "%{C1}C": "-", "%!200{X-Test}i": "-", "%q": "", "%U": "/nothing", "%{remote}p": port,
			"%r": "POST /nothing HTTP/1.1",
		},
		{
			"%{X-Id}i": "third", "%m": "HEAD", "%>s": "200", "%H": "HTTP/1.0", "%B": "0", "%b": "-", "%p": "443", "%{local}p": "8443", "%v": "tls.example.com", "%{SSL_PROTOCOL}x": "TLSv1.2", "%{version}c": "TLSv1.2", "%{SSL_CLIENT_S_DN_CN}x": `node "1"`,
			"%{cipher}c": is(".*ECDSA.*"), "%r": "HEAD / HTTP/1.0",
		},
	}
	for n, line := range lines {
		if times, durations := product.LogLine(t, f, line, want[n], begun); times != 10 || durations != 6 {
			t.Errorf("%d times and %d durations are read", times, durations)
		}
		product.LogFields(t, f, want[n])
	}

	// The other logs of the virtual hosts, and of the main server.
	var rotated []string
	product.Eventually(t, "one file is rotated", func() bool {
		rotated, err = filepath.Glob("/var/log/apache2/rotated.*")
		return err == nil && len(rotated) == 1
	})
	if day := strings.TrimPrefix(rotated[0], "/var/log/apache2/rotated."); day != begun.UTC().Format(time.DateOnly) && day != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("the rotated file is of %s", day)
	}
	for name, want := range map[string]string{
		"/var/log/apache2/transfer.log": `127.0.0.1 - - [`, "/var/log/apache2/tls.log": "127.0.0.1 third 200", "/var/log/apache2/macro.log": "first short 200\nsecond short 404\n",
		rotated[0]:                    "tls.example.com third [",
		"/var/log/apache2/access.log": "",
	} {
		f := formatOf(t, all, name)
		if want == "" {
			continue
		}
		product.Eventually(t, name+" has a line", func() bool {
			text, _ := os.ReadFile(name)
			return strings.HasPrefix(string(text), want)
		})
		text := product.Read(t, name)
		if n, all := f.Reads([]byte(text)); n == 0 || n != all {
			t.Errorf("%s: %d of %d lines are read by %s (%s)", name, n, all, f.Source, f.Why)
		}
	}
}

func lineWith(word string) int {
	before, _, _ := strings.Cut(everyDirective, word)
	return 1 + strings.Count(before, "\n")
}

func formatOf(t *testing.T, all []accesslog.Log, name string) *logformat.Format {
	t.Helper()
	l, _, err := accesslog.Of(all, name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}
