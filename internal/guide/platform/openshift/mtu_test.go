package openshift

import (
	"strings"
	"testing"
)

// The MTU inside is judged by that of the devices, where a document says it.
func TestDeviceMTU(t *testing.T) {
	inside := func(mtu, more string) string {
		return "apiVersion: operator.openshift.io/v1\nkind: Network\nmetadata: {name: cluster" + more + "}\nspec: {defaultNetwork: {type: OVNKubernetes, ovnKubernetesConfig: {mtu: " + mtu + "}}}\n"
	}
	const hosts = "baseDomain: x\nplatform: {baremetal: {hosts: [{networkConfig: {interfaces: [{name: lo, mtu: 1500}, {name: bond0, mtu: 9100}]}}]}}\n"
	for _, c := range []struct {
		files   map[string]string
		want    any
		unknown string
	}{
		{map[string]string{"net.yml": inside("1500", ", annotations: {fettle.dev/device-mtu: '1600'}")}, 1600.0, ""},
		{map[string]string{"net.yml": inside("9000", ""), "install-config.yaml": hosts}, 9100.0, ""},
		{map[string]string{"net.yml": strings.Replace(inside("8900", ""), "spec: {", "spec: {migration: {mtu: {machine: {from: 1500, to: 9000}}}, ", 1)}, 9000.0, ""},
		{map[string]string{"net.yml": inside("1400", "")}, nil, ""},
		{map[string]string{"net.yml": inside("9000", "")}, nil, "9000 inside the overlay needs devices with 9100, and is a mistake on devices with 9000"},
	} {
		a := directory(t, c.files).Answer("openshift.device_mtu")
		if a.Value != c.want || !strings.Contains(a.Unknown, c.unknown) || (a.Unknown == "") != (c.unknown == "") {
			t.Errorf("%v: %+v, want %v %s", c.files, a, c.want, c.unknown)
		}
	}
}
