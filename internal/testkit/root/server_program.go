package root

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ServerProgram returns a program from the root with the servers that runs outside of it, on
// this machine's files, with its own loader and libraries.
func ServerProgram(t testing.TB, name string) string {
	t.Helper()
	root := Servers(t)
	program := filepath.Join(root, "usr/bin", name)
	if _, err := os.Stat(program); err != nil {
		Missing(t, "%s is not in the root with the servers; run: sudo test/root/build servers", name)
	}
	find := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is like %s in %s (%s)", pattern, root, runtime.GOARCH)
		}
		return found[0]
	}
	loader, libraries := find("lib*/ld-linux-*.so.*"), find("usr/lib/*-linux-gnu")
	wrapper := filepath.Join(t.TempDir(), name)
	text := fmt.Sprintf("#!/bin/sh\nexec %s --library-path %s:%s/ceph %s \"$@\"\n", loader, libraries, libraries, program)
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return wrapper
}
