package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// Version is the JSON result of kubectl fettle version.
type Version struct {
	Schema  string `json:"schema"` // fettle/version/v1
	Version string `json:"version"`
	Go      string `json:"go"` // Go version of the build
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := Version{"fettle/version/v1", a.version, runtime.Version()}
			return a.show(v, nil, func() {
				fmt.Fprintf(a.screen.Out, "kubectl-fettle %s (%s, %s/%s)\n", v.Version, v.Go, runtime.GOOS, runtime.GOARCH)
			})
		},
	}
}
