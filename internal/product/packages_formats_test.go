package product

import (
	"strings"
	"testing"
)

func FuzzLists(f *testing.F) {
	f.Add("a-1-1.noarch Tue\n-- \nii x:y 1:2-3 all\nPackage: a\nStatus: x installed\nVersion: :-\n")
	f.Add("COMMAND> dpkg --list\n\nii  a:amd64 1:2-3 amd64 b\n")
	f.Add("1\ta\n2\tb c\n3\t\n")
	f.Fuzz(func(t *testing.T, text string) {
		reads := []func(string) map[string]string{ofLines(queried), dpkgStatus}
		for _, l := range lists {
			reads = append(reads, l.read)
		}
		for i, read := range reads {
			for name, version := range read(text) {
				if name == "" || strings.ContainsAny(name+version, "\n") {
					t.Errorf("%d: %q is no name, or %q no version", i, name, version)
				}
			}
		}
	})
}
