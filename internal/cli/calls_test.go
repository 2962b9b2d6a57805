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
	Name: "fettle",
	Tree: func(args []string) *cobra.Command { return tree("test", args) },
	Main: Main,
	Free: free,
}

// free are the options whose text may be anything until the command looks at it: names of
// files, servers, keys and headers, conditions and formats, which depend on the logs, and
// what has an error of its own that TestRefusalsPrintACommand covers.
var free = []string{"compliance",
	"access-log", "allow", "archive", "backend", "baseline", "bench", "body", "by", "cacert", "cert", "certname", "change-cmd", "client-command", "config",
	"connect-to", "covariate", "database", "dir", "duration", "environment", "explain", "file", "fio", "for", "format", "guard", "header", "host-certs",
	"html", "image", "job", "key", "log", "log-config", "log-format", "member", "method", "metric", "organization", "parquet", "pass-env", "pass-file", "pattern", "pgbench", "pkcs12", "plan",
	"platform", "process", "product-version", "profile", "profile-dir", "prometheus", "prometheus-token", "pull", "puppet-ssldir", "reason", "replay", "replay-format",
	"replay-method", "resume", "root", "save", "schedule", "server", "series", "since-last", "state-dir", "stop-above", "undo-cmd", "unit-of-metric", "url", "urls",
	"user-agent", "where", "write", "write-prefix",
}
