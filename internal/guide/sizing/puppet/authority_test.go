package puppet

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is one as Puppet's has been since version 6: a root, and one in between that
// signs, each with a list of what it has revoked.
type authority struct {
	t          *testing.T
	dir        string
	root, ca   *x509.Certificate
	rootKey    crypto.Signer
	key        crypto.Signer
	serial     int64
	rootSerial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	dir, err := os.MkdirTemp("/etc", "puppet-test")
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: dir, serial: 100}
	a.root, a.rootKey, _ = a.sign("Puppet Root CA", true, nil, nil)
	a.ca, a.key, _ = a.sign("Puppet CA: test", true, a.root, a.rootKey)
	a.put("ca.pem", pemOf("CERTIFICATE", a.ca.Raw, a.root.Raw))
	a.revoke()
	return a
}

func pemOf(kind string, all ...[]byte) []byte {
	var b bytes.Buffer
	for _, der := range all {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return b.Bytes()
}

func (a *authority) put(name string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), text, 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// sign makes a certificate; without an issuer it is self-signed.
func (a *authority) sign(name string, ca bool, by *x509.Certificate, with crypto.Signer) (*x509.Certificate, crypto.Signer, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if ca {
		c.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	} else {
		c.DNSNames, c.ExtKeyUsage = []string{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), with)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key, private
}

// node makes a certificate of a name, and its files.
func (a *authority) node(name string) tls.Certificate {
	a.t.Helper()
	c, key, private := a.sign(name, false, a.ca, a.key)
	a.put(name+".pem", pemOf("CERTIFICATE", c.Raw))
	a.put(name+".key", pemOf("PRIVATE KEY", private))
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

// revoke writes the lists of both, with some certificates on it.
func (a *authority) revoke(certificates ...tls.Certificate) {
	a.t.Helper()
	a.rootSerial++
	var entries []x509.RevocationListEntry
	for _, c := range certificates {
		entries = append(entries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Minute)})
	}
	list := func(by *x509.Certificate, with crypto.Signer, entries []x509.RevocationListEntry) []byte {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(a.rootSerial), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour), RevokedCertificateEntries: entries}, by, with)
		if err != nil {
			a.t.Fatal(err)
		}
		return der
	}
	a.put("crl.pem", pemOf("X509 CRL", list(a.ca, a.key, entries), list(a.root, a.rootKey, nil)))
}

// pool is what agents trust.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.root)
	p.AddCert(a.ca)
	return p
}
