package plan

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

func TestByOpenShift(t *testing.T) {
	for _, c := range []struct {
		resource, name string
		want           bool
	}{
		{"serviceaccounts", "builder", true},
		{"configmaps", "openshift-service-ca.crt", true},
		{"rolebindings", "system:image-pullers", true},
		{"serviceaccounts", "default", false},
		{"configmaps", "kube-root-ca.crt", false},
		{"configmaps", "site", false},
	} {
		if got := ByOpenShift(c.resource, c.name); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestAccount(t *testing.T) {
	for _, c := range []struct {
		note, value, account string
		is                   bool
	}{
		{"kubernetes.io/service-account.name", "site", "site", true},
		{"openshift.io/internal-registry-auth-token.service-account", "builder", "builder", true},
		{"openshift.io/internal-registry-auth-token.binding", "bound", "", true},
		{"note", "x", "", false},
	} {
		if account, is := Account(map[string]string{c.note: c.value, "other": "y"}); account != c.account || is != c.is {
			t.Errorf("%+v: %q %v", c, account, is)
		}
	}
}
