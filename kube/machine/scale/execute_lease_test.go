package scale

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"fettle.dev/fettle/kube/machine"
)

// TestHold tests that only one scale runs at a time, that remediation waits for it, and that a
// killed scale blocks others no longer than its lease lasts.
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
	if why, _, _ := machine.Scaling(get(), machine.LeaseSeen{}, time.Now()); why != "machine sets are being scaled by host/1: a to 9 machines" {
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
	if why, _, _ := machine.Scaling(get(), machine.LeaseSeen{}, time.Now()); why != "" || held.Err() == nil {
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

// TestLeaseThatIsNone tests a lease without an end, or with a time that no scale uses: it is
// unknown whether a scale runs, so the scale is refused and the lease kept.
func TestLeaseThatIsNone(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) *meta.MicroTime { x := meta.NewMicroTime(now.Add(d)); return &x }
	minute, year, who, nobody := int32(60), int32(365*24*3600), "host/1", ""
	for name, c := range map[string]struct {
		spec   coordination.LeaseSpec
		want   error
		says   string
		lawful bool
	}{
		"without a time":     {coordination.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &minute}, ErrLease, "is held by host/1 and has no end (spec.renewTime, spec.leaseDurationSeconds)", false},
		"without a duration": {coordination.LeaseSpec{HolderIdentity: &who, RenewTime: at(0)}, ErrLease, "has no end", false},
		"for a year":         {coordination.LeaseSpec{HolderIdentity: &who, RenewTime: at(0), LeaseDurationSeconds: &year}, ErrLease, "ends at " + now.Add(365*24*time.Hour).Local().Format(time.DateTime), false},
		"of tomorrow":        {coordination.LeaseSpec{HolderIdentity: &who, RenewTime: at(24 * time.Hour), LeaseDurationSeconds: &minute}, ErrLease, "ends at", false},
		"held":               {coordination.LeaseSpec{HolderIdentity: &who, RenewTime: at(0), LeaseDurationSeconds: &minute}, ErrBusy, "by host/1 (purpose not recorded)", false},
		"ended":              {coordination.LeaseSpec{HolderIdentity: &who, RenewTime: at(-time.Hour), LeaseDurationSeconds: &minute}, nil, "", true},
		"of nobody":          {coordination.LeaseSpec{HolderIdentity: &nobody, LeaseDurationSeconds: &minute}, nil, "", true},
		"released":           {coordination.LeaseSpec{RenewTime: at(0), LeaseDurationSeconds: &minute}, nil, "", true},
	} {
		api := fake.NewClientset(&coordination.Lease{ObjectMeta: meta.ObjectMeta{Namespace: "fleet", Name: machine.ScaleLease}, Spec: c.spec})
		err := Free(t.Context(), api, "fleet")
		_, release, held := Hold(t.Context(), api, "fleet", "host/2", "b")
		if c.lawful {
			if err != nil || held != nil {
				t.Errorf("%s: %v, %v", name, err, held)
				continue
			}
			if err := release(); err != nil {
				t.Error(err)
			}
			continue
		}
		for _, err := range []error{err, held} {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrLease) && !strings.Contains(err.Error(), "fleet/fettle-scale is held by host/1") || errors.Is(err, ErrLease) && !strings.Contains(err.Error(), "remove the lease: kubectl -n fleet delete lease fettle-scale") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
