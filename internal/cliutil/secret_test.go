package cliutil

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestWithoutSecrets: only the values of secret options are redacted, however they are given.
func TestWithoutSecrets(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.String("key", "", "")
	f.String("cells", "", "")
	Secret(f, "key")
	for args, want := range map[string]string{
		"bench --key s3cret --cells key": "bench --key [redacted] --cells key",
		"bench --key=s3cret":             "bench --key=[redacted]",
		"bench --cells=key --key":        "bench --cells=key --key",
		"prove key -- x --key file":      "prove key -- x --key file",
	} {
		if got := WithoutSecrets(f, strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %s", args, got)
		}
	}
}
