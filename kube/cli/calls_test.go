package cli

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/testkit/calls"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a third of the time of these tests would be garbage collection
	os.Exit(m.Run())
}

// TestRefusedCalls tests each call that a command rejects: no argument, too many, an unknown
// option, and an invalid value of each option. The answer contains a valid call.
func TestRefusedCalls(t *testing.T) { program.Refusals(t) }

// TestHelp tests that every command has a short text, examples, a page of the manual and
// completions.
func TestHelp(t *testing.T) { program.Help(t, "../../docs") }

var program = calls.Program{
	Name: "kubectl fettle",
	Tree: func(args []string) *cobra.Command { return tree("test", args...) },
	Main: Main,
	Free: []string{
		// kubectl's own, which client-go reads.
		"as", "as-group", "as-uid", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "kubeconfig", "namespace",
		"request-timeout", "server", "tls-server-name", "token", "user",
		// Names of files, objects and addresses.
		"body", "cacert", "cert", "certname", "claim", "connect-to", "header", "host-certs", "key", "method", "organization", "pass-env", "pass-file", "pkcs12", "puppet-ssldir", "urls",
		"daemonset", "duration", "etcd-cacert", "etcd-cert", "etcd-endpoints", "etcd-key", "file", "format", "health-address", "image", "kubelet-dir", "kubelet-unit", "log",
		"machine-namespace", "metrics-address", "metrics-cert-dir", "node", "only", "product-version", "prometheus", "prometheus-token", "root", "save", "set", "state", "state-dir", "user-data", "uuid", "where", "write",
	},
}
