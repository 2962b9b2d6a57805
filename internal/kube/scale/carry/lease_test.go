package carry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"fettle.dev/fettle/internal/kube/health"
	"fettle.dev/fettle/internal/kube/machine"
)

// TestHold: one scale at a time; remediation waits as long as it holds; what was killed
// keeps nobody away for longer than the lease says.
func TestHold(t *testing.T) {
	api := fake.NewClientset()
	leases := api.CoordinationV1().Leases(machine.Namespace)
	get := func() *coordination.Lease {
		t.Helper()
		l, err := leases.Get(t.Context(), machine.ScaleLease, meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	held, release, err := Hold(t.Context(), api, machine.Namespace, "host/1", "a to 9 machines")
	if err != nil {
		t.Fatal(err)
	}
	if why, _, _ := health.Scaling(get(), health.LeaseSeen{}, time.Now()); why != "machine sets are being scaled by host/1: a to 9 machines" {
		t.Errorf("%q", why)
	}
	if _, _, err := Hold(t.Context(), api, machine.Namespace, "host/2", "b"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "by host/1 (a to 9 machines)") {
		t.Error(err)
	}
	if err := Free(t.Context(), api, machine.Namespace); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "by host/1 (a to 9 machines)") {
		t.Error(err)
	}
	if held.Err() != nil {
		t.Error(held.Err())
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if why, _, _ := health.Scaling(get(), health.LeaseSeen{}, time.Now()); why != "" || held.Err() == nil {
		t.Errorf("it was given back: %q %v", why, held.Err())
	}
	if err := Free(t.Context(), api, machine.Namespace); err != nil {
		t.Error(err)
	}
	// The next one takes it, is killed, and its lease ends.
	if _, _, err := Hold(t.Context(), api, machine.Namespace, "host/3", "c"); err != nil {
		t.Fatal(err)
	}
	l := get()
	old := meta.NewMicroTime(time.Now().Add(-LeaseTime - time.Second))
	l.Spec.RenewTime = &old
	if _, err := leases.Update(t.Context(), l, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, release, err = Hold(ctx, api, machine.Namespace, "host/4", "d")
	if err != nil {
		t.Fatal(err)
	}
	// Also what was interrupted gives it back.
	cancel()
	if err := release(); err != nil || get().Spec.HolderIdentity != nil {
		t.Errorf("%v %+v", err, get().Spec)
	}
}
