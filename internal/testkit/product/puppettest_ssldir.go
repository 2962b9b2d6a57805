package product

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SSLDir creates a CA and certificates of nodes, with Puppet's file names: certs/ca.pem,
// certs/NAME.pem and private_keys/NAME.pem. They are valid for a server on loopback, too.
func SSLDir(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	root, der := issue(t, "Puppet CA: test", 1, nil, nil)
	keep(t, filepath.Join(dir, "certs/ca.pem"), "CERTIFICATE", der)
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		key, der := issue(t, name, int64(i+2), authority, root)
		keep(t, filepath.Join(dir, "certs", name+".pem"), "CERTIFICATE", der)
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		keep(t, filepath.Join(dir, "private_keys", name+".pem"), "EC PRIVATE KEY", private)
	}
	return dir
}

// issue creates a certificate, or the CA's own if by is nil.
func issue(t testing.TB, name string, number int64, by *x509.Certificate, with *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
	}
	if by == nil {
		c.IsCA, c.KeyUsage, by, with = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, c, key
	} else {
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		c.DNSNames, c.IPAddresses = []string{name, "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func keep(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
