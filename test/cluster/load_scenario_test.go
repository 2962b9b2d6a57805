package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostServer creates, shows and removes hosts. Over TLS it takes only hosts that have a
// certificate with their own name.
type hostServer struct {
	plain, secured string // addresses

	mu       sync.Mutex
	hosts    map[string]string // name by id
	versions map[string]int
	last     int
	tokens   int
	strange  int // requests with the wrong secret or certificate
}

// ServeHTTP implements http.Handler.
func (s *hostServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := filepath.Base(r.URL.Path)
	if r.Header.Get("Authorization") != "Bearer geheim" {
		s.strange++
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch {
	case r.URL.Path == "/token":
		s.tokens++
		_, _ = io.WriteString(w, `{"token": "t1"}`)
	case r.Method == http.MethodPost && r.URL.Query().Get("token") == "t1":
		name, _ := io.ReadAll(r.Body)
		if r.TLS != nil && r.TLS.PeerCertificates[0].Subject.CommonName != string(name) {
			s.strange++
		}
		s.last++
		id = fmt.Sprint(s.last)
		s.hosts[id] = string(name)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": %q}`, id)
	case s.hosts[id] == "":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(s.hosts, id)
	default:
		fmt.Fprintf(w, `{"name": %q, "version": %d}`, s.hosts[id], s.versions[id])
	}
}

// named returns the sorted names of the hosts.
func (s *hostServer) named() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.hosts))
}

// newHostServer starts the server. It writes the certificate of its authority and those of a
// number of hosts into a directory.
func newHostServer(t *testing.T, dir string, hosts int) *hostServer {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.ParseIP(nodeAddress)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &private.PublicKey, private)
	must(err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(os.WriteFile(filepath.Join(dir, "ca.pem"), cert, 0o600))
	must(os.Mkdir(filepath.Join(dir, "hosts"), 0o700))
	for n := range hosts {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		name := fmt.Sprintf("lt-%03d", n)
		of, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(int64(n + 2)), Subject: pkix.Name{CommonName: name}, NotAfter: authority.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, authority, &key.PublicKey, private)
		must(err)
		own, err := x509.MarshalPKCS8PrivateKey(key)
		must(err)
		must(os.WriteFile(filepath.Join(dir, "hosts", name+".pem"), append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own})...), 0o600))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	s := &hostServer{hosts: map[string]string{}, versions: map[string]int{}}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", nodeAddress+":0")
		must(err)
		return l
	}
	plain, secured := listen(), listen()
	s.plain, s.secured = plain.Addr().String(), secured.Addr().String()
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: s}
	go func() { _ = server.Serve(plain) }()
	go func() {
		_ = server.Serve(tls.NewListener(secured, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}))
	}()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

const hostScenario = `scenario: register
changes: true
servers: {plain: http://plain.invalid, web: http://web.invalid}
load: {hosts: 40}
data: {secret: {env: FETTLE_TEST_SECRET}}
setup:
  - {name: token, http: {url: "${plain}/token", header: {Authorization: "Bearer ${secret}"}}, take: {token: {jsonpath: $.token}}}
steps:
  - name: register
    think: 50ms..150ms
    http: {method: POST, url: "${web}/hosts?token=${token}", header: {Authorization: "Bearer ${secret}"}, body: "${name}"}
    expect: {status: 201}
    take: {id: {jsonpath: $.id}}
    creates: {name: "${name}", id: "${id}", show: "${web}/hosts/${id}", unchanged: {jsonpath: $.version}, remove: "${web}/hosts/${id}"}
  - name: read
    http: {url: "${web}/hosts/${id}", header: {Authorization: "Bearer ${secret}"}}
    expect: {body: {jsonpath: $.name, is: "${name}"}}
`

// scenarioRun is what of a run of a scenario this test asks for.
type scenarioRun struct {
	Body struct {
		Result string
		RunID  string `json:"run_id"`
		Whole  struct {
			Runs, Errors, Requests int64
			Latency                struct{ N int64 }
		}
		Created   struct{ Intended, Known int64 }
		Generator struct {
			Clients []struct {
				Name, Lost    string
				Passes, Ended int64
				ClockError    float64 `json:"clock_error_s"`
			}
		}
	}
}

// scenarioUndone is the result of an undo.
type scenarioUndone struct {
	Removed int64
	Objects []struct{ Name, State string }
}

// ended decodes the output of a call that has ended with an exit code.
func ended(t *testing.T, cmd *exec.Cmd, code int, out, said *bytes.Buffer, into any) {
	t.Helper()
	if err := json.Unmarshal(out.Bytes(), into); err != nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("exit code %d, want %d, %v\n%s%s", cmd.ProcessState.ExitCode(), code, err, out, said)
	}
	t.Log(said.String())
}

// TestLoadGeneratorsScenario: eight generators in pods of a real node run the hosts of a scenario,
// each with a certificate of its own, and create a host on a real server each; the counts equal
// the server's. A pod removes them. Then a generator is killed while it creates hosts: fettle on
// this machine removes those whose ids are known, keeps one that was changed, and names the rest.
func TestLoadGeneratorsScenario(t *testing.T) {
	if !Inside(t, generatorSetup(false)) {
		return
	}
	r := newGeneratorRig(t)
	t.Setenv("FETTLE_TEST_SECRET", "geheim")
	s := newHostServer(t, r.dir, 40)
	r.must(os.WriteFile(filepath.Join(r.dir, "register.yaml"), []byte(hostScenario), 0o600))
	verb := []string{"load", "scenario"}
	common := []string{"register.yaml", "--generators", "8", "--scenario-server", "plain=http://" + s.plain, "--allow", s.plain, "--organization", "Org", "--prefix", "lt-"}
	t.Run("counts", func(t *testing.T) {
		cmd, out, said := r.verb(verb, append(common, "--scenario-server", "web=https://"+s.secured, "--allow", s.secured, "--cacert", "ca.pem", "--host-certs", "hosts", "--most-hosts", "40")...)
		_ = cmd.Run()
		var x scenarioRun
		ended(t, cmd, 0, out, said, &x)
		all, b := int64(0), x.Body
		for _, c := range b.Generator.Clients {
			all += c.Ended
			if c.Passes != 5 || c.Ended != 5 || c.Lost != "" || c.ClockError <= 0 || c.ClockError > 1 {
				t.Errorf("%+v", c)
			}
		}
		if len(b.Generator.Clients) != 8 || all != 40 || b.Whole.Runs != 40 || b.Whole.Errors != 0 || b.Whole.Requests != 81 || b.Whole.Latency.N != 40 || b.Created.Known != 40 {
			t.Errorf("%+v", b)
		}
		var want []string
		for n := range 40 {
			want = append(want, fmt.Sprintf("lt-%03d", n))
		}
		if names := s.named(); !slices.Equal(names, want) || s.tokens != 1 || s.strange != 0 {
			t.Errorf("%q; %d tokens, %d strangers", names, s.tokens, s.strange)
		}
		if strings.Contains(out.String()+said.String(), "geheim") {
			t.Error("the secret is printed")
		}
		cmd, out, said = r.verb(append(verb, "undo"), b.RunID)
		_ = cmd.Run()
		var u scenarioUndone
		ended(t, cmd, 0, out, said, &u)
		if names := s.named(); u.Removed != 40 || len(u.Objects) != 0 || len(names) != 0 || s.strange != 0 {
			t.Errorf("%+v; the server has %q", u, names)
		}
	})
	t.Run("generator killed", func(t *testing.T) {
		cmd, out, said := r.verb(verb, append(common, "--scenario-server", "web=http://"+s.plain, "--hosts", "16", "--repeat", "100000", "--most-hosts", "16")...)
		r.must(cmd.Start())
		r.Wait("the load", 3*time.Minute, func(context.Context) error {
			if n := len(s.named()); n < 200 {
				return fmt.Errorf("%d hosts\n%s", n, said)
			}
			return nil
		})
		pods := r.Client.CoreV1().Pods(generatorSpace)
		list, err := pods.List(t.Context(), meta.ListOptions{LabelSelector: generatorLabel})
		r.must(err)
		_, id, _ := strings.Cut(list.Items[3].Status.ContainerStatuses[0].ContainerID, "://")
		run(t, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
		_ = cmd.Wait()
		var x scenarioRun
		ended(t, cmd, 1, out, said, &x)
		for _, c := range x.Body.Generator.Clients {
			if lost := c.Name == list.Items[3].Name; (c.Lost != "") != lost {
				t.Errorf("%+v; %s was killed", c, list.Items[3].Name)
			}
		}
		names := s.named()
		if x.Body.Result != "client-lost" || x.Body.Created.Known > int64(len(names)) || x.Body.Created.Intended < int64(len(names)) {
			t.Errorf("%+v; the server has %d", x.Body, len(names))
		}
		changed := ""
		s.mu.Lock()
		for id := range s.hosts {
			s.versions[id]++
			changed = s.hosts[id]
			break
		}
		s.mu.Unlock()
		undo := exec.Command("fettle", "load", "scenario", "undo", x.Body.RunID, "--state-dir", r.state, "--output", "json")
		out.Reset()
		said.Reset()
		undo.Dir, undo.Stdout, undo.Stderr = r.dir, out, said
		_ = undo.Run()
		var u scenarioUndone
		ended(t, undo, 7, out, said, &u)
		states := map[string]int{}
		var named []string
		for _, o := range u.Objects {
			states[o.State]++
			named = append(named, o.Name)
		}
		t.Logf("%d intended, %d known by id, %d on the server; undo removed %d, and named %v", x.Body.Created.Intended, x.Body.Created.Known, len(names), u.Removed, states)
		for _, left := range s.named() {
			if !slices.Contains(named, left) {
				t.Errorf("%s is left, but not named", left)
			}
		}
		if u.Removed == 0 || states["failed"] > 0 || !slices.Contains(named, changed) {
			t.Errorf("%+v; %s was changed", states, changed)
		}
	})
	r.Wait("nothing to be left", time.Minute, r.left)
}
