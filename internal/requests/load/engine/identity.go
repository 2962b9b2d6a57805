// The TLS identity of a client, read from files: its certificate and key, and its trusted CAs.
// No error contains secrets.

package engine

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// Files names the certificate files. An empty name means no file.
type Files struct {
	Cert, Key string // PEM
	CA        string // PEM; empty means the system's CAs
	PKCS12    string
	// PuppetSSLDir is the ssldir of a Puppet agent, and CertName the agent's certificate name.
	PuppetSSLDir, CertName string
}

// Check returns an error if options contradict each other.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("want both --cert and --key")
	case f.Cert != "" && f.PKCS12 != "", f.Cert != "" && f.PuppetSSLDir != "", f.PKCS12 != "" && f.PuppetSSLDir != "":
		return errors.New("want only one of --cert, --pkcs12 and --puppet-ssldir")
	case (f.PuppetSSLDir == "") != (f.CertName == ""):
		return errors.New("want both --puppet-ssldir and --certname")
	case strings.ContainsAny(f.CertName, "/\x00") || strings.HasPrefix(f.CertName, "."):
		return fmt.Errorf("--certname %q is not a certificate name", f.CertName)
	}
	return nil
}

// Load reads the files. It calls passphrase for the passphrase of a PKCS#12 file.
func Load(f Files, read func(string) ([]byte, error), passphrase func() (string, error)) (*tls.Config, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	// The server belongs to the user; TLS 1.2 is also the standard library's minimum.
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.PuppetSSLDir != "" {
		f.Cert = filepath.Join(f.PuppetSSLDir, "certs", f.CertName+".pem")
		f.Key = filepath.Join(f.PuppetSSLDir, "private_keys", f.CertName+".pem")
		if f.CA == "" {
			f.CA = filepath.Join(f.PuppetSSLDir, "certs", "ca.pem")
		}
	}
	var certificate *tls.Certificate
	var err error
	switch {
	case f.Cert != "":
		certificate, err = pair(f, read)
	case f.PKCS12 != "":
		certificate, c.RootCAs, err = container(f.PKCS12, read, passphrase)
	}
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		c.Certificates = []tls.Certificate{*certificate}
	}
	if f.CA != "" {
		if c.RootCAs, err = authorities(f.CA, read); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// pair reads a PEM certificate and key.
func pair(f Files, read func(string) ([]byte, error)) (*tls.Certificate, error) {
	cert, err := read(f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read(f.Key)
	if err != nil {
		return nil, err
	}
	for rest := key; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if strings.Contains(block.Type, "ENCRYPTED") || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, fmt.Errorf("%s: the key has a passphrase; put key and certificate into a PKCS#12 file (openssl pkcs12 -export) and use --pkcs12", f.Key)
		}
	}
	certificate, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %s", f.Cert, f.Key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &certificate, nil
}

// container reads a PKCS#12 file. Its CAs, if any, are trusted too.
func container(file string, read func(string) ([]byte, error), passphrase func() (string, error)) (*tls.Certificate, *x509.CertPool, error) {
	data, err := read(file)
	if err != nil {
		return nil, nil, err
	}
	secret, err := passphrase()
	if err != nil {
		return nil, nil, err
	}
	key, leaf, others, err := pkcs12.DecodeChain(data, secret)
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword) && secret == "":
		return nil, nil, fmt.Errorf("%s has a passphrase; give it with --pass-file FILE or --pass-env NAME", file)
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, nil, fmt.Errorf("%s: wrong passphrase", file)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: not a PKCS#12 file with a key and its certificate: %s", file, strings.TrimPrefix(err.Error(), "pkcs12: "))
	}
	certificate := &tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	var pool *x509.CertPool
	for _, other := range others {
		if bytes.Equal(other.RawIssuer, other.RawSubject) { // roots are trusted, not sent
			if pool == nil {
				// Keep the system's CAs: the server's certificate may come from one of them.
				if pool, err = x509.SystemCertPool(); err != nil {
					pool = x509.NewCertPool()
				}
			}
			pool.AddCert(other)
			continue
		}
		certificate.Certificate = append(certificate.Certificate, other.Raw)
	}
	return certificate, pool, nil
}

// authorities reads CA certificates.
func authorities(file string, read func(string) ([]byte, error)) (*x509.CertPool, error) {
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no PEM certificate", file)
	}
	return pool, nil
}
