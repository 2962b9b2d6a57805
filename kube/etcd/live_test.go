package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// server is a running member of Debian's etcd.
type server struct {
	url string
	cmd *exec.Cmd
}

// serve starts members of one cluster on ports of loopback.
func serve(t *testing.T, n int, more ...string) []*server {
	t.Helper()
	var ports []int
	for range 2 * n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	var all []*server
	var cluster []string
	for i := range n {
		cluster = append(cluster, fmt.Sprintf("m%d=http://127.0.0.1:%d", i, ports[n+i]))
	}
	scheme := "http"
	if slices.Contains(more, "--client-cert-auth") {
		scheme = "https"
	}
	for i := range n {
		s := &server{url: fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[i])}
		peer := fmt.Sprintf("http://127.0.0.1:%d", ports[n+i])
		dir := t.TempDir()
		args := append([]string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, "data"), "--listen-client-urls", s.url, "--advertise-client-urls", s.url,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(cluster, ","), "--snapshot-count", "1000",
			"--heartbeat-interval", "500", "--election-timeout", "5000", // who leads goes on to, though it may not run for a second
		}, more...)
		s.cmd = exec.Command("/usr/bin/etcd", args...)
		log, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		s.cmd.Stdout, s.cmd.Stderr = log, log
		all = append(all, s)
		t.Cleanup(func() { s.kill() })
		t.Cleanup(func() {
			if t.Failed() {
				text, _ := os.ReadFile(log.Name())
				t.Logf("%s:\n%s", s.url, text[max(0, len(text)-2000):])
			}
		})
	}
	return all // the ports are free again when it returns
}

// start starts the members and waits until they are healthy.
func start(t *testing.T, all []*server, members []*Member) {
	t.Helper()
	for _, s := range all {
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if !root.Eventually(2*time.Minute, func() bool {
		_, err := observe(t.Context(), members)
		return err == nil
	}) {
		_, err := observe(t.Context(), members)
		t.Fatalf("the cluster is not well: %v", err)
	}
}

func (s *server) kill() {
	if s.cmd.Process != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func urlsOf(all []*server) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.url)
	}
	return out
}

// fill writes and deletes keys; their space is free once the history is compacted. It returns when
// all members report the new size: members apply the leader's log, and update their sizes a moment
// later.
func fill(t *testing.T, members []*Member) {
	t.Helper()
	m := members[0]
	code := base64.StdEncoding.EncodeToString
	value := code([]byte(strings.Repeat("x", 200<<10)))
	for i := range 60 {
		if _, err := m.Call(t.Context(), "/v3/kv/put", map[string]string{"key": code(fmt.Appendf(nil, "big/%d", i)), "value": value}, patience); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Call(t.Context(), "/v3/kv/put", map[string]string{"key": code([]byte("kept")), "value": code([]byte("yes"))}, patience); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Call(t.Context(), "/v3/kv/deleterange", map[string]string{"key": code([]byte("big/")), "range_end": code([]byte("big0"))}, patience); err != nil {
		t.Fatal(err)
	}
	if !root.Eventually(time.Minute, func() bool {
		return !slices.ContainsFunc(members, func(m *Member) bool {
			s, err := m.Status(t.Context())
			return err != nil || s.DatabaseBytes < 12e6
		})
	}) {
		t.Fatal("12 MB were written, and not all members have them")
	}
}

// ticking keeps writing a key, as the components of Kubernetes renew their leases.
func ticking(t *testing.T, url string) {
	t.Helper()
	members, err := Open([]string{url}, Access{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	code := base64.StdEncoding.EncodeToString
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			_, _ = members[0].Call(t.Context(), "/v3/kv/put", map[string]string{"key": code([]byte("lease")), "value": code([]byte("mine"))}, patience)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { <-ended })
}

func kept(t *testing.T, m *Member) {
	t.Helper()
	code := base64.StdEncoding.EncodeToString
	text, err := m.Call(t.Context(), "/v3/kv/range", map[string]string{"key": code([]byte("kept"))}, patience)
	if err != nil || !strings.Contains(string(text), code([]byte("yes"))) {
		t.Errorf("%s has lost data: %s %v", m.URL, text, err)
	}
}

// TestThreeMembers reads, compacts and defragments three real members, the leader last. If a member
// dies during this, the work stops.
func TestThreeMembers(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	servers := serve(t, 3)
	members, err := Open(urlsOf(servers), Access{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, servers, members)
	fill(t, members)
	ticking(t, servers[0].url)

	limits := Limits{Share: 0.45, Bytes: 5e6}
	p, err := Make(t.Context(), members, limits, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 3 || !p.Steps[2].Leader || p.Steps[0].Leader || p.CompactTo == 0 || p.Steps[0].DatabaseBytes < 10e6 {
		t.Fatalf("%+v", p)
	}
	w := &Work{Members: members, Settle: time.Minute, Look: 50 * time.Millisecond, Calm: 2 * time.Second, Tell: func(s string) { t.Log(s) }}
	r, err := w.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Done) != 3 || !r.Done[2].Leader || r.Done[0].Leader || r.Done[1].Leader {
		t.Errorf("%+v", r.Done)
	}
	for _, d := range r.Done {
		t.Logf("%+v", d)
		if d.Skipped != "" || d.AfterBytes > d.BeforeBytes/4 {
			t.Errorf("%+v", d)
		}
	}
	for _, m := range members {
		kept(t, m)
	}
	// Once more: nothing is above the limits, and nothing is done.
	if p, err = Make(t.Context(), members, limits, true); err != nil {
		t.Fatal(err)
	}
	if r, err = w.Run(t.Context(), p); err != nil || slices.ContainsFunc(r.Done, func(d Done) bool { return d.Skipped == "" }) {
		t.Errorf("%+v %v", r, err)
	}

	looks := Looks(t.Context(), members)
	for _, l := range looks {
		if l.Silent != nil || !l.Healthy || len(l.Peers) != 3 || l.ID == 0 || l.Page.Values["etcd_server_has_leader"] != 1 || len(l.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""]) < 5 {
			t.Errorf("%+v", l)
		}
	}
	if !root.Eventually(2*time.Minute, func() bool { // a round trip is measured every 30 s
		return slices.ContainsFunc(Looks(t.Context(), members), func(l Look) bool { return len(l.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]) == 2 })
	}) {
		t.Error("no member has measured a round trip to both others")
	}

	fill(t, members)
	if p, err = Make(t.Context(), members, limits, true); err != nil {
		t.Fatal(err)
	}
	// The second follower dies while the first one is at work. By then what was compacted is
	// free, which may take a while.
	w.Tell = func(s string) {
		t.Log(s)
		if strings.HasPrefix(s, p.Steps[0].Endpoint) {
			i := slices.IndexFunc(servers, func(s *server) bool { return s.url == p.Steps[1].Endpoint })
			servers[i].kill()
			w.Settle = 3 * time.Second
		}
	}
	r, err = w.Run(t.Context(), p)
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), p.Steps[1].Endpoint) {
		t.Errorf("%v", err)
	}
	if len(r.Done) != 0 || len(r.Left) != 3 || !r.Compacted {
		t.Errorf("%+v", r)
	}
	leader := slices.IndexFunc(members, func(m *Member) bool { return m.URL == p.Steps[2].Endpoint })
	if s, err := members[leader].Status(t.Context()); err != nil || s.DatabaseBytes < 10e6 {
		t.Errorf("the leader was not left alone: %+v %v", s, err)
	}
	if _, err := Make(t.Context(), members, limits, true); !errors.As(err, new(*Refused)) {
		t.Errorf("with a dead member it is planned: %v", err)
	}
	kept(t, members[leader])
}

// TestCertificates tests that a member that requires certificates answers clients with one.
func TestCertificates(t *testing.T) {
	if !root.Inside(t, root.Options{Servers: true}) {
		return
	}
	a := certificate(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"ca": a.CA, "cert": a.Cert, "key": a.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servers := serve(t, 1, "--client-cert-auth", "--trusted-ca-file", dir+"/ca", "--cert-file", dir+"/cert", "--key-file", dir+"/key")
	members, err := Open(urlsOf(servers), a)
	if err != nil {
		t.Fatal(err)
	}
	start(t, servers, members)
	for want, x := range map[string]Access{
		"": a, "is not trusted: give etcd's CA with --etcd-cacert": {Cert: a.Cert, Key: a.Key}, "give a client certificate of etcd's CA with --etcd-cert and --etcd-key": {CA: a.CA},
	} {
		m, err := Open(urlsOf(servers), x)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m[0].Status(t.Context())
		l := m[0].look(t.Context())
		if want == "" {
			if err != nil || l.Silent != nil || !l.Healthy {
				t.Errorf("%v %+v", err, l)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || l.Silent == nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
	plain, err := Open([]string{strings.Replace(servers[0].url, "https", "http", 1)}, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain[0].Status(t.Context()); err == nil {
		t.Error("it answers without TLS")
	}
}

// certificate creates a CA, and a certificate signed by it for 127.0.0.1.
func certificate(t *testing.T) Access {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pemOf := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, &root.PublicKey, root)
	must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, &own.PublicKey, root)
	must(err)
	key, err := x509.MarshalECPrivateKey(own)
	must(err)
	return Access{CA: pemOf("CERTIFICATE", authority), Cert: pemOf("CERTIFICATE", cert), Key: pemOf("EC PRIVATE KEY", key)}
}
