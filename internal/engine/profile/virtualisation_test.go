package profile

import "testing"

// Several lines of virt-what are a list, not an escaped line break.
func TestVirtualisationWords(t *testing.T) {
	v := virtualisation{known: true, virtual: true, text: "kvm\naws\n", source: "/sys/class/dmi/id"}
	if got, want := v.String(), `found "kvm, aws" (/sys/class/dmi/id)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
