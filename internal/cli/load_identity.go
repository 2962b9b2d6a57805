package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

// identityOptions say what is shown to a server under TLS, and whom is trusted.
type identityOptions struct {
	files             engine.Files
	passFile, passEnv string
}

// identityOptionNames are the options that say who asks.
var identityOptionNames = []string{"--cert", "--key", "--cacert", "--pkcs12", "--pass-file", "--pass-env", "--puppet-ssldir", "--certname"}

func (o *identityOptions) identityFlags(f *pflag.FlagSet) {
	f.StringVar(&o.files.Cert, "cert", "", "client certificate, PEM")
	f.StringVar(&o.files.Key, "key", "", "its key, PEM")
	f.StringVar(&o.files.CA, "cacert", "", "authorities of the servers, PEM (default: the system's)")
	f.StringVar(&o.files.PKCS12, "pkcs12", "", "client certificate with its key, and authorities, PKCS#12")
	f.StringVar(&o.passFile, "pass-file", "", "file with the passphrase of --pkcs12")
	f.StringVar(&o.passEnv, "pass-env", "", "environment variable with the passphrase of --pkcs12")
	f.StringVar(&o.files.PuppetSSLDir, "puppet-ssldir", "", "ssldir of a Puppet agent: its certificate, key and authority")
	f.StringVar(&o.files.CertName, "certname", "", "the agent's name in --puppet-ssldir")
}

// checkIdentity says which of them do not go together.
func (o identityOptions) checkIdentity() error {
	switch {
	case o.passFile != "" && o.passEnv != "":
		return ui.Without(errors.New("want one of --pass-file and --pass-env"), "--pass-env")
	case (o.passFile != "" || o.passEnv != "") && o.files.PKCS12 == "":
		return ui.Without(errors.New("--pass-file and --pass-env are for --pkcs12"), "--pass-file", "--pass-env")
	}
	return o.files.Check()
}

// identity reads the files.
func (o identityOptions) identity() (*tls.Config, error) {
	return engine.Load(o.files, readCapped, o.passphrase)
}

// passphrase is that of PKCS#12: from a file or the environment, because a command line is
// seen by all.
func (o identityOptions) passphrase() (string, error) {
	switch {
	case o.passFile != "":
		text, err := readCapped(o.passFile)
		if err != nil {
			return "", ofOption("--pass-file", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	case o.passEnv != "":
		secret, set := os.LookupEnv(o.passEnv)
		if !set {
			return "", fmt.Errorf("--pass-env: the environment has no %s", o.passEnv)
		}
		return secret, nil
	}
	return "", nil
}

// identityWords adds those that were given to a command line.
func (o identityOptions) identityWords(add func(flag, value string)) {
	add("cert", o.files.Cert)
	add("key", o.files.Key)
	add("cacert", o.files.CA)
	add("pkcs12", o.files.PKCS12)
	add("pass-file", o.passFile)
	add("pass-env", o.passEnv)
	add("puppet-ssldir", o.files.PuppetSSLDir)
	add("certname", o.files.CertName)
}
