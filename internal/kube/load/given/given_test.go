package given

import "testing"

func TestToAll(t *testing.T) {
	token := map[string]string{"kubernetes.io/service-account.name": "default"}
	for _, c := range []struct {
		resource, name string
		notes          map[string]string
		want           bool
	}{
		{"configmaps", "kube-root-ca.crt", nil, true},
		{"configmaps", "site", nil, false},
		{"serviceaccounts", "default", nil, true},
		{"serviceaccounts", "site", token, false},
		{"secrets", "default-token-x", token, true},
		{"secrets", "site", map[string]string{"note": "x"}, false},
		{"rolebindings", "system:deployers", nil, true},
		{"rolebindings", "default", nil, false},
		{"pods", "default", token, false},
	} {
		if got := ToAll(c.resource, c.name, c.notes); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
