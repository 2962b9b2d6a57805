// Command kubelet-releases writes a table of the kubelet's releases,
// internal/kuberelease/releases.txt: the fields of KubeletConfiguration, the feature gates and the
// defaults that changed. It downloads the released modules and reads their source; it does not
// build or run them.
//
//	cd test/kubelet-releases && go run .
package main

import (
	"fmt"
	"os"
)

// releases are the versions to read, one of each release, oldest first.
var releases = []release{
	{29, "29.14"}, {30, "30.14"}, {31, "31.14"}, {32, "32.13"}, {33, "33.13"},
	{34, "34.4"}, {35, "35.4"}, {36, "36.3"}, {37, "37.2"},
}

// release is a minor version of Kubernetes 1.x, and the version of its modules without the major
// number: k8s.io/kubernetes has v1.29.14, the other modules have v0.29.14.
type release struct {
	minor   int
	version string
}

// table is the path of the output in the host module.
const table = "../../internal/kuberelease/releases.txt"

func main() {
	text, err := generate(true)
	if err == nil {
		err = os.WriteFile(table, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
