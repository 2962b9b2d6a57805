package product

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// An agent gets its certificate, its plug-ins, a catalog and a file, and reports: the
// log of requests has the lines that this package keeps.
func TestAgent(t *testing.T) {
	if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		t.Skip("starts Puppet Server, which takes a minute; set FETTLE_TEST_NIGHTLY=1")
	}
	if !root.Inside(t, root.Options{Puppet: true}) {
		return
	}
	Quicken(t)
	machine.Write(t, "/", map[string]string{
		Code + "/manifests/site.pp":           "file { '/srv/motd': source => 'puppet:///modules/motd/motd' }\n",
		Code + "/modules/motd/files/motd":     "from the server\n",
		Code + "/modules/motd/facts.d/a.yaml": "motd: known\n",
	})
	s := StartPuppetServer(t)
	agent := s.Agent(t, "agent1.test")
	first := agent.Run(t)
	if !strings.Contains(first, "Applied catalog in ") {
		t.Errorf("the agent has no catalog:\n%s", first)
	}
	if got := Read(t, "/srv/motd"); got != "from the server\n" {
		t.Errorf("the file is %q", got)
	}
	for _, file := range []string{"/certs/agent1.test.pem", "/private_keys/agent1.test.pem", "/certs/ca.pem"} {
		Read(t, agent.SSLDir+file)
	}
	if again := agent.Run(t); strings.Contains(again, "File[/srv/motd]") {
		t.Errorf("the file is changed twice:\n%s", again)
	}
	// The server has written a line before the agent has its answer's end, or just after.
	var log string
	Eventually(t, "the last request is in the log", func() bool {
		log = Read(t, Log)
		return strings.Count(log, "PUT /puppet/v3/report/") == 2
	})
	if got, want := kinds(t, log), kinds(t, accessLog); !slices.Equal(got, want) {
		t.Errorf("the log has\n%s\nand what is kept of such a log\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("the log:\n%s", log)
	standsIn(t, s, agent)
}

// standsIn asks the real server and its stand-in the same: who may have what, and what
// is said of it.
func standsIn(t *testing.T, s Server, agent Agent) {
	pair, err := tls.LoadX509KeyPair(agent.SSLDir+"/certs/"+agent.Name+".pem", agent.SSLDir+"/private_keys/"+agent.Name+".pem")
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(Read(t, agent.SSLDir+"/certs/ca.pem")))
	standIn := &StandIn{HeaderAuth: true} // who asks is told by headers
	standIn.Put("production", "modules/motd/motd", "from the server\n")
	const file, query = "/puppet/v3/file_metadata/modules/motd/motd", "?links=manage&checksum_type=sha256&source_permissions=ignore&environment="
	for _, q := range []struct {
		path string
		node bool
		says string // part of both answers
	}{
		{"/puppet/v3/catalog/agent1.test?environment=production&facts=fettle", true, "no fact format"},
		{"/puppet/v3/catalog/other.test?environment=production&facts=fettle", true, "Forbidden request"},
		{"/puppet/v3/catalog/agent1.test?environment=production&facts=fettle", false, "Forbidden request"},
		{file + query + "production", true, `"links":"manage"`},
		{strings.Replace(file+query, "manage", "follow", 1) + "production&fettle=0123", true, `"links":"follow"`},
		{file + query + "production", false, "Forbidden request"},
		{file + query + "fettle_0123", true, "Could not find environment 'fettle_0123'"},
		{strings.Replace(file, "motd/motd", "motd/none", 1) + query + "production", true, "Could not find file_metadata modules/motd/none"},
		{file, true, "An environment parameter must be specified"},
	} {
		config := &tls.Config{RootCAs: authority}
		told := httptest.NewRecorder()
		asked := httptest.NewRequest("GET", q.path, nil)
		if q.node {
			config.Certificates = []tls.Certificate{pair}
			asked.Header.Set("X-Client-Verify", "SUCCESS")
			asked.Header.Set("X-Client-DN", "CN="+agent.Name)
		}
		asked.Header.Set("Accept", "application/json")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: 2 * time.Minute}
		standIn.ServeHTTP(told, asked)
		request, err := http.NewRequest("GET", "https://"+s.Address+q.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %v", q.path, err)
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Errorf("%s: %v", q.path, err)
		}
		if answer.StatusCode != told.Code || !strings.Contains(string(text), q.says) || !strings.Contains(told.Body.String(), q.says) {
			t.Errorf("%s: %d %s; the stand-in says %d %s", q.path, answer.StatusCode, text, told.Code, told.Body)
		}
		for _, name := range []string{"Vary", "Cache-Control", "Etag", "Last-Modified", "Age"} {
			if got, want := told.Header().Get(name), answer.Header.Get(name); got != want && answer.StatusCode == http.StatusOK {
				t.Errorf("%s: %s is %q, and the stand-in says %q", q.path, name, want, got)
			}
		}
	}
}

// line is one of the log, as request-logging.xml has it; what differs from run to run
// is in groups that have no name.
var line = regexp.MustCompile(`^127\.0\.0\.1 - (?P<user>\S+) \[\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "(?P<request>[A-Z]+ [^ ?]+)[^"]*" (?P<status>\d{3}) \d+ "-" "(?P<agent>[^"]*)" \d+ (?:-|\d+) (?:-|\d+)$`)

// kinds are the different requests of a log, sorted: the polls of Start's are not of
// its agents.
func kinds(t *testing.T, log string) []string {
	t.Helper()
	var out []string
	for l := range strings.Lines(log) {
		m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Errorf("no line of the access log: %s", l)
			continue
		}
		out = append(out, strings.Join(m[1:], " "))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
