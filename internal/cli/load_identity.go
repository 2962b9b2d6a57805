package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

// identityOptions hold the client's certificate and the trusted CAs.
type identityOptions struct {
	files             engine.Files
	passFile, passEnv string
}

// identityOptionNames are the flags of identityOptions.
var identityOptionNames = []string{"--cert", "--key", "--cacert", "--pkcs12", "--pass-file", "--pass-env", "--puppet-ssldir", "--certname"}

func (o *identityOptions) identityFlags(f *pflag.FlagSet) {
	f.StringVar(&o.files.Cert, "cert", "", "file with the client certificate, PEM")
	f.StringVar(&o.files.Key, "key", "", "file with the key of --cert, PEM")
	f.StringVar(&o.files.CA, "cacert", "", "file with the CA certificates, PEM (default the system's)")
	f.StringVar(&o.files.PKCS12, "pkcs12", "", "file with client certificate, key and CA certificates, PKCS#12")
	f.StringVar(&o.passFile, "pass-file", "", "file with the passphrase of --pkcs12")
	f.StringVar(&o.passEnv, "pass-env", "", "environment variable with the passphrase of --pkcs12")
	f.StringVar(&o.files.PuppetSSLDir, "puppet-ssldir", "", "ssldir of a Puppet agent, with its certificate, key and CA")
	f.StringVar(&o.files.CertName, "certname", "", "the agent's name in --puppet-ssldir")
}

func (o *identityOptions) identityRules(c *cobra.Command) {
	cliutil.Exclusive(c, "pass-file", "pass-env")
	cliutil.Requires(c, "--pkcs12", "pass-file", "pass-env")
	cliutil.Check(c, func([]string) error { return orUsage(o.files.Check()) })
}

// orUsage makes an error without an exit code a usage error.
func orUsage(err error) error {
	if err == nil || errors.As(err, new(*ui.Error)) {
		return err
	}
	return ui.Exit(ui.Usage, err)
}

// identity loads the certificate files.
func (o identityOptions) identity() (*tls.Config, error) {
	return engine.Load(o.files, readCapped, o.passphrase)
}

// passphrase reads the passphrase of a PKCS#12 file from a file or the environment. A command
// line would be visible to all users.
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
			return "", fmt.Errorf("--pass-env: environment variable %s is not set", o.passEnv)
		}
		return secret, nil
	}
	return "", nil
}
