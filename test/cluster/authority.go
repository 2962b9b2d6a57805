package cluster

import (
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
	"path/filepath"
	"time"
)

// authority signs the certificates of one cluster: of the programs, and of the clients (the common
// name is the user, the organizations are the groups).
type authority struct {
	dir  string // of all files
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// certFile is the authority's own certificate.
	certFile string
}

// pair is a certificate with its key, as PEM files.
type pair struct{ certFile, keyFile string }

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("test cluster")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key, certFile: filepath.Join(dir, "ca.crt")}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(a.certFile, "CERTIFICATE", der)
}

// certificate returns a template that is valid for a day.
func certificate(name string, groups ...string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the kernel's random numbers do not fail
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// server signs a certificate for a program with these addresses and names.
func (a *authority) server(name string, at ...string) (pair, error) {
	c := certificate(name)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range at {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	return a.sign(name, c)
}

// client signs a certificate for a user in groups. file is the name of its file.
func (a *authority) client(file, user string, groups ...string) (pair, error) {
	c := certificate(user, groups...)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(file, c)
}

func (a *authority) sign(file string, c *x509.Certificate) (pair, error) {
	p := pair{filepath.Join(a.dir, file+".crt"), filepath.Join(a.dir, file+".key")}
	key, err := writeKey(p.keyFile)
	if err != nil {
		return p, err
	}
	c.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		return p, fmt.Errorf("certificate of %s: %w", file, err)
	}
	return p, writePEM(p.certFile, "CERTIFICATE", der)
}

// writeKey makes a key.
func writeKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
