package tune_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
)

// units simulates systemd: it records what is written, in order.
type units struct {
	values map[string]string
	wrote  []string
}

func (u *units) Resolve(s setting.Setting) (setting.Setting, error) { return s, nil }
func (u *units) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	v, ok := u.values[s.Name]
	if !ok {
		return setting.Absent, nil
	}
	return setting.Text(v), nil
}
func (u *units) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	u.values[s.Name] = v.Text
	u.wrote = append(u.wrote, s.Name+"="+v.Text)
	return nil
}
func (u *units) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (u *units) Coupled(setting.Setting) []setting.Setting { return nil }
func (u *units) Lifetime() setting.Lifetime                { return setting.File }

func TestTunerIsRestoredWithItsProfile(t *testing.T) {
	h := testkitmachine.Mounted(t, map[string]string{"etc/tuned/active_profile": "virtual-guest mine\n", "etc/tuned/profile_mode": "manual\n"})
	file := func(name string) string {
		b, err := h.Files.ReadFile("/etc/tuned/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	u := &units{values: map[string]string{"tuned.service/active": "active", "tuned.service/enabled": "enabled"}}
	k := tune.NewTunerKind(h, u)
	s := setting.Setting{Kind: tune.TunerKind, Name: tune.TuneDUnit}
	ctx := t.Context()

	before, err := k.Read(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if want := "active=active enabled=enabled mode=manual profiles=virtual-guest mine"; before.Text != want {
		t.Fatalf("state %q, want %q", before.Text, want)
	}
	off := setting.Text("active=inactive enabled=disabled mode=manual profiles=virtual-guest mine")
	if err := k.Write(ctx, s, off); err != nil {
		t.Fatal(err)
	}
	if now, _ := k.Read(ctx, s); !k.Equal(now, off) || k.Equal(now, before) {
		t.Errorf("after the take-over: %v", now)
	}
	// fettle stands in for it and keeps its files.
	testkitmachine.WriteFile(t, h.Name, "etc/tuned/active_profile", "throughput-performance\n")
	u.values["fettle.service/active"] = "active"
	u.wrote = nil
	if now, _ := k.Read(ctx, s); !k.Equal(now, off) {
		t.Errorf("fettle's own writes to the state files count as another program's: %v", now)
	}
	if err := k.Write(ctx, s, before); err != nil {
		t.Fatal(err)
	}
	if got := file("active_profile"); got != "virtual-guest mine" {
		t.Errorf("restored with profile %q", got)
	}
	want := []string{"fettle.service/active=inactive", "tuned.service/enabled=enabled", "tuned.service/active=active"}
	if !slices.Equal(u.wrote, want) {
		t.Errorf("order %v, want %v", u.wrote, want)
	}
	for _, bad := range []string{"", "active=active", "enabled=enabled profiles="} {
		if err := k.Write(ctx, s, setting.Text(bad)); err == nil {
			t.Errorf("state %q is taken", bad)
		}
	}
}
