package proofs

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
)

// routes is how many the router has. Route N is asked for as host app-N, at a loopback
// address of its own, and its back end has another one: no pair of addresses runs out of
// ports, however many connections are opened for one request each.
const routes = 100

func routeName(n int) string { return fmt.Sprintf("app-%03d", n) }
func routeHost(n int) string { return routeName(n) + ".router.test" }

func routerAddress(n int) netip.Addr  { return netip.AddrFrom4([4]byte{127, 0, 2, byte(n)}) }
func backEndAddress(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, byte(n)}) }

// Where things are in the root.
const (
	routerDir   = "/etc/router"
	routerRun   = "/run/router"
	statsSocket = routerRun + "/stats.sock"
	nginxCounts = "127.0.0.1:8090"
)

// page1k and page8k are the sizes of the pages, in bytes.
const page1k, page8k = 1 << 10, 8 << 10

// backPrefix is what the name of a back end begins with, by the sort of its route.
var backPrefix = map[string]string{"none": "be_http", "edge": "be_edge_http", "passthrough": "be_tcp", "re-encrypt": "be_secure"}

// put writes a file of the root.
func put(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// certificates writes a certificate for all hosts with its key, RSA of 2048 bits as
// OpenShift makes its router's own, and that of the authority, which is returned too.
func certificates(t *testing.T) *x509.CertPool {
	t.Helper()
	made := func(c, by *x509.Certificate, signer *rsa.PrivateKey) (*x509.Certificate, *rsa.PrivateKey) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			by, signer = c, key
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	authority, signer := made(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the router test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	server, key := made(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "router.test"}, DNSNames: []string{"*.router.test"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, signer)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, routerDir+"/ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))
	put(t, routerDir+"/router.pem", append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...))
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return pool
}

// haproxyFiles are the configuration of a router whose routes are all of one sort, and
// its maps: path to content. Sections, maps and the way of a request are those of
// OpenShift's router (openshift/router, haproxy-config.template): hosts are regular
// expressions that are tried one after the other, TLS is first looked into for the name
// and, unless it is passed through, ended by a second frontend behind a socket, requests
// get headers that say from where they came, and answers a cookie.
func haproxyFiles(mode string) map[string]string {
	var b, plain, ended, passed, passedTo strings.Builder
	b.WriteString(`global
    nbthread 1
    maxconn 6000
    stats socket ` + statsSocket + ` mode 600 level admin
    tune.bufsize 32768
    tune.maxrewrite 8192
    tune.ssl.default-dh-param 2048
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    maxconn 6000
    timeout connect 5s
    timeout client 30s
    timeout client-fin 1s
    timeout server 30s
    timeout server-fin 1s
    timeout http-request 10s
    timeout http-keep-alive 300s
    timeout tunnel 1h
frontend public
    bind :80
    mode http
    tcp-request inspect-delay 5s
    tcp-request content accept if HTTP
    http-request del-header Proxy
    http-request set-header Host %[req.hdr(Host),lower]
    use_backend %[base,map_reg(` + routerDir + "/" + mode + `.plain.map)]
frontend public_ssl
    bind :443
    tcp-request inspect-delay 5s
    tcp-request content accept if { req_ssl_hello_type 1 }
    acl named req.ssl_sni -m found
    acl passed req.ssl_sni,lower,map_reg(` + routerDir + "/" + mode + `.passed.map) -m found
    use_backend %[req.ssl_sni,lower,map_reg(` + routerDir + "/" + mode + `.passed-to.map)] if named passed
    use_backend be_sni if named
backend be_sni
    server fe_sni unix@` + routerRun + `/sni.sock send-proxy
frontend fe_sni
    bind unix@` + routerRun + `/sni.sock ssl crt ` + routerDir + `/router.pem accept-proxy
    mode http
    http-request del-header Proxy
    http-request set-header Host %[req.hdr(Host),lower]
    use_backend %[base,map_reg(` + routerDir + "/" + mode + `.ended.map)]
`)
	for n := 1; n <= routes; n++ {
		name := backPrefix[mode] + ":" + routeName(n)
		host := "^" + strings.ReplaceAll(routeHost(n), ".", `\.`) + `\.?`
		fmt.Fprintf(&b, "backend %s\n", name)
		if mode == "passthrough" {
			fmt.Fprintf(&passed, "%s$ 1\n", host)
			fmt.Fprintf(&passedTo, "%s$ %s\n", host, name)
			fmt.Fprintf(&b, "    server app %s:8443\n", backEndAddress(n))
			continue
		}
		to, server := &ended, fmt.Sprintf("%s:8080 cookie %s", backEndAddress(n), routeName(n))
		switch mode {
		case "none":
			to = &plain
		case "re-encrypt":
			server = fmt.Sprintf("%s:8443 cookie %s ssl verifyhost %s verify required ca-file %s/ca.pem", backEndAddress(n), routeName(n), routeHost(n), routerDir)
		}
		fmt.Fprintf(to, "%s(:[0-9]+)?(/.*)?$ %s\n", host, name)
		fmt.Fprintf(&b, `    mode http
    option redispatch
    option forwardfor
    http-request add-header X-Forwarded-Host %%[req.hdr(host)]
    http-request add-header X-Forwarded-Port %%[dst_port]
    http-request add-header X-Forwarded-Proto http if !{ ssl_fc }
    http-request add-header X-Forwarded-Proto https if { ssl_fc }
    http-request add-header Forwarded for=%%[src];host=%%[req.hdr(host)];proto=%%[req.hdr(X-Forwarded-Proto)]
    cookie route insert indirect nocache httponly
    server app %s
`, server)
	}
	at := routerDir + "/" + mode
	return map[string]string{at + ".cfg": b.String(), at + ".plain.map": plain.String(), at + ".ended.map": ended.String(), at + ".passed.map": passed.String(), at + ".passed-to.map": passedTo.String()}
}

// nginxFile is the configuration of the back ends: one nginx that listens at the address of
// each, in plain text and with TLS, and has the pages for the host of that route alone. What
// comes to the wrong back end is answered 421 (Misdirected Request).
func nginxFile() string {
	var b strings.Builder
	b.WriteString(`daemon off;
master_process off;
pid ` + routerRun + `/nginx.pid;
error_log ` + routerRun + `/nginx.log;
events { worker_connections 8192; }
http {
    access_log off;
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=16;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    ssl_certificate ` + routerDir + `/router.pem;
    ssl_certificate_key ` + routerDir + `/router.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    server { listen ` + nginxCounts + `; location = /status { stub_status; } }
`)
	for n := 1; n <= routes; n++ {
		fmt.Fprintf(&b, "    server { listen %[1]s:8080 default_server; listen %[1]s:8443 ssl default_server; server_name _; return 421; }\n", backEndAddress(n))
		fmt.Fprintf(&b, "    server { listen %[1]s:8080; listen %[1]s:8443 ssl; server_name %s; root /srv/pages; }\n", backEndAddress(n), routeHost(n))
	}
	b.WriteString("}\n")
	return b.String()
}

// server is a program that serves until it is stopped.
type server struct {
	*exec.Cmd
	said bytes.Buffer
}

// serve starts a server in the foreground of its own, and waits until it takes connections.
func serve(t *testing.T, network, address string, argv ...string) *server {
	t.Helper()
	s := &server{Cmd: exec.Command("prlimit", append([]string{"--nofile=16384"}, argv...)...)}
	s.Stdout, s.Stderr = &s.said, &s.said
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if !root.Eventually(time.Minute, func() bool {
		conn, err := net.DialTimeout(network, address, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		s.stop()
		t.Fatalf("%s does not serve: %s", argv[0], s.said.String())
	}
	return s
}

// stop ends it at once.
func (s *server) stop() {
	_ = s.Process.Kill()
	_ = s.Wait()
}
