package cli

import (
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/testkit/calls"
)

// Each call that a command does not take is answered with one that it takes: no argument,
// too many, an unknown option, and for each option an invalid value.
func TestRefusedCalls(t *testing.T) { program.Refusals(t) }

// Every command has a short text, examples, a page of the manual and completions.
func TestHelp(t *testing.T) { program.Help(t, "../../docs") }

var program = calls.Program{
	Name: "kubectl fettle",
	Tree: func([]string) *cobra.Command { return tree("test") },
	Main: Main,
	Free: []string{
		// kubectl's own, which client-go reads.
		"as", "as-group", "as-uid", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "kubeconfig", "namespace",
		"request-timeout", "server", "tls-server-name", "token", "user",
		// Names of files, objects and addresses.
		"daemonset", "etcd-cacert", "etcd-cert", "etcd-endpoints", "etcd-key", "file", "format", "health-address", "image", "kubelet-dir", "kubelet-unit", "log",
		"machine-namespace", "metrics-address", "metrics-cert-dir", "node", "only", "product-version", "prometheus", "prometheus-token", "root", "set", "state", "state-dir", "user-data", "uuid", "write",
	},
}
