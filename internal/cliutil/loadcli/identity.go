package loadcli

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// Identity names the client's certificate and the trusted CAs.
type Identity struct {
	Files             engine.Files
	PassFile, PassEnv string
}

// IdentityFlags are the flags of Identity.
var IdentityFlags = []string{"--cert", "--key", "--cacert", "--pkcs12", "--pass-file", "--pass-env", "--puppet-ssldir", "--certname"}

// Flags adds the flags.
func (o *Identity) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Files.Cert, "cert", "", "file with the client certificate, PEM")
	f.StringVar(&o.Files.Key, "key", "", "file with the key of --cert, PEM")
	f.StringVar(&o.Files.CA, "cacert", "", "file with the CA certificates, PEM (default the system's)")
	f.StringVar(&o.Files.PKCS12, "pkcs12", "", "file with client certificate, key and CA certificates, PKCS#12")
	f.StringVar(&o.PassFile, "pass-file", "", "file with the passphrase of --pkcs12")
	f.StringVar(&o.PassEnv, "pass-env", "", "environment variable with the passphrase of --pkcs12")
	f.StringVar(&o.Files.PuppetSSLDir, "puppet-ssldir", "", "ssldir of a Puppet agent, with its certificate, key and CA")
	f.StringVar(&o.Files.CertName, "certname", "", "the agent's name in --puppet-ssldir")
}

// Rules adds checks for flags that exclude or require each other.
func (o *Identity) Rules(c *cobra.Command) {
	cliutil.Exclusive(c, "pass-file", "pass-env")
	cliutil.Requires(c, "--pkcs12", "pass-file", "pass-env")
	cliutil.Check(c, func([]string) error { return cliutil.OrUsage(o.Files.Check()) })
}

// Config loads the certificate files.
func (o *Identity) Config() (*tls.Config, error) {
	return engine.Load(o.Files, ReadFile, o.Passphrase)
}

// Passphrase reads the passphrase of a PKCS#12 file from a file or the environment. A command
// line would be visible to all users.
func (o *Identity) Passphrase() (string, error) {
	switch {
	case o.PassFile != "":
		text, err := ReadFile(o.PassFile)
		if err != nil {
			return "", cliutil.OfOption("--pass-file", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	case o.PassEnv != "":
		secret, set := os.LookupEnv(o.PassEnv)
		if !set {
			return "", fmt.Errorf("--pass-env: environment variable %s is not set", o.PassEnv)
		}
		return secret, nil
	}
	return "", nil
}
