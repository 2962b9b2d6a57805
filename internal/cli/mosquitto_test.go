package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// mosquitto is Debian's broker with a configuration.
type mosquitto struct {
	log string
	cmd *exec.Cmd
}

// startMosquitto starts it with so many open files, and waits until it answers.
func startMosquitto(t *testing.T, files int, port, conf string) *mosquitto {
	t.Helper()
	dir := t.TempDir()
	m := &mosquitto{log: filepath.Join(dir, "log")}
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte("user root\nlog_dest file "+m.log+"\n"+conf), 0o600); err != nil {
		t.Fatal(err)
	}
	m.cmd = exec.Command("/bin/sh", "-c", fmt.Sprintf("ulimit -n %d && exec mosquitto -c %s", files, file))
	var talk bytes.Buffer
	m.cmd.Stderr = &talk
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.stop() })
	if !testkitroot.Eventually(time.Minute, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		c.Close()
		return true
	}) {
		t.Fatalf("mosquitto does not listen: %s %s", talk.String(), m.logged())
	}
	return m
}

func (m *mosquitto) stop() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

func (m *mosquitto) logged() string {
	text, _ := os.ReadFile(m.log)
	return string(text)
}

// authority issues certificates into files NAME.pem, each with its key.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	a.key, der = a.sign(a.cert, a.cert)
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(c, by *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = own
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &own.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return own, der
}

// issue makes a certificate, and returns its file.
func (a *authority) issue(dir, name string) string {
	a.t.Helper()
	key, der := a.sign(&x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := filepath.Join(dir, name+".pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}
