// Kubectl-fettle tunes the nodes of a cluster. It is a kubectl plug-in (kubectl fettle), and runs
// as operator and agents in the cluster.
package main

import (
	"os"

	"fettle.dev/fettle/kube/cli"
)

// version is set by the build.
var version = "devel"

func main() { os.Exit(cli.Main(version, os.Args[1:], os.Stdout, os.Stderr)) }
