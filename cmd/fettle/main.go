// Fettle measures a machine, tunes it, proves that the tuning helped, and
// undoes it.
package main

import (
	"os"

	"fettle.dev/fettle/internal/cli"
)

// version is set by the build.
var version = "devel"

func main() { os.Exit(cli.Main(version, os.Args[1:], os.Stdout, os.Stderr)) }
