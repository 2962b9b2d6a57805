package server

import (
	"strings"
	"testing"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// The MTUs of the source (002, 12.1), and those with IPsec of the operator.
func TestNetworkExamples(t *testing.T) {
	f := sizing.Figures(t)
	for said, want := range map[string]map[string]string{
		"overlay=vxlan mtu=1500":             {"network/overlay_mtu": "1450", "network/packets": "83334"},
		"overlay=vxlan mtu=9000":             {"network/overlay_mtu": "8950"},
		"overlay=geneve mtu=1500":            {"network/overlay_mtu": "1400"},
		"overlay=geneve mtu=9000":            {"network/overlay_mtu": "8900"},
		"overlay=geneve ipsec=true":          {"network/overlay_mtu": "1354"},
		"overlay=geneve ipsec=true mtu=9001": {"network/overlay_mtu": "8855"},
		"overlay=geneve rate=40":             {"network/overlay_mtu": "1400", "network/overlay_mtu_jumbo": "8900", "network/packets": "3.333334e+06"},
	} {
		t.Run(said, func(t *testing.T) {
			r := sizing.Sized(t, f, NewNetwork(), sizing.Words(said)...)
			sizing.Want(t, r, want)
			if text := r.Artefact(NetworkFile).Content; strings.Contains(text, "ovnKubernetesConfig") == strings.Contains(said, "vxlan") {
				t.Errorf("%s: %s", said, text)
			}
			if notes := strings.Join(r.Notes, "\n"); strings.Contains(said, "rate=40") != strings.Contains(notes, "offload it") || strings.Contains(said, "ipsec") != strings.Contains(notes, "IPsec encrypts") {
				t.Errorf("%s: %s", said, notes)
			}
		})
	}
}

func TestNetworkBadInput(t *testing.T) {
	sizing.Refused(t, NewNetwork, sizing.Words, map[string]string{
		"mtu=0": "less than 576", "mtu=600": "fewer than the 576", "mtu=70000": "more than 65,535", "overlay=gre": "want vxlan, geneve",
		"rate=-1": "less than", "rate=NaN": "is not a number", "rate=fast": "is not a number", "ipsec=perhaps": "want true or false",
	})
}

// IPsec and an overlay only ever take from the MTU, and a larger device never leaves
// less.
func TestMonotone(t *testing.T) {
	f := guidesizing.NewResult(sizing.Figures(t), "", "")
	for _, overlay := range []string{"vxlan", "geneve"} {
		last := 0
		for device := 800; device < 9100; device += 7 {
			plain, _, _, err := MTU(f, overlay, false, device)
			if err != nil {
				t.Fatal(err)
			}
			secret, _, _, err := MTU(f, overlay, true, device)
			if err != nil || secret >= plain || plain >= device || plain < last {
				t.Fatalf("%s on %d: %d and %d, %v", overlay, device, plain, secret, err)
			}
			last = plain
		}
	}
}
