package boot

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// grubProbe answers for the root's overlay file system, which GRUB does not know. All other GRUB
// programs are Debian's own.
const grubProbe = `case "$*" in
*fs_uuid*) echo 1234-ABCD ;;
*target=fs*) echo ext4 ;;
*target=device*) echo /dev/vda ;;
*compatibility_hint*) echo hd0 ;;
esac`

// TestRealGrub generates with Debian's update-grub before, with and after the
// arguments.
func TestRealGrub(t *testing.T) {
	testkitroot.Real(t, "runs GRUB's generator in the test root")
	for _, lang := range []string{"", "C.UTF-8", "de_DE.UTF-8"} {
		t.Run("language "+lang, func(t *testing.T) { testRealGrub(t, lang) })
	}
}

func testRealGrub(t *testing.T, lang string) {
	root := testkitroot.New(t, testkitroot.Options{Stubs: map[string]string{"grub-probe": grubProbe}, Files: map[string]string{"/srv/overlay/etc/added": "x\n"}})
	root.Must("env", "LC_ALL=", "LANG="+lang, "update-grub")
	h := host.Mounted(root.Path("/"))
	h.Exec = grubExec{root}
	kinds := plugin.Kinds(h, Kinds(h))
	cfg := func() string {
		return root.Must("sh", "-c", "cat /boot/grub/grub.cfg; ls -l /boot/grub/grub.cfg | cut -c1-10; ls /etc/default/grub.d /boot")
	}
	before := cfg()
	ctx := context.Background()
	image := setting.Setting{Kind: "initrd", Name: "/boot/overlay"}
	s := setting.Setting{Kind: "bootloader", Name: "grub:/boot/grub/grub.cfg"}
	for _, w := range []struct {
		s setting.Setting
		v string
	}{{image, "archive of /srv/overlay"}, {s, "skew_tick=1 memmap=1G$60G x=it's\ninitrd=overlay"}} {
		if err := kinds.Write(ctx, w.s, setting.Text(w.v)); err != nil {
			t.Fatal(err)
		}
	}
	normal, recovery := 0, 0
	for line := range strings.Lines(cfg()) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "linux" {
			continue
		}
		switch {
		case strings.HasSuffix(strings.TrimSpace(line), `skew_tick=1 memmap=1G\$60G x=it\'s`):
			normal++
		case strings.Contains(line, " single") && !strings.Contains(line, "skew_tick"):
			recovery++
		default:
			t.Errorf("a kernel line of neither kind: %s", line)
		}
	}
	if normal == 0 || recovery == 0 {
		t.Errorf("%d kernel lines with the arguments, %d for recovery", normal, recovery)
	}
	if n := strings.Count(cfg(), "/boot/overlay /boot/initrd.img"); n != normal+recovery {
		t.Errorf("the overlay stands in %d of %d initrd lines", n, normal+recovery)
	}
	for _, x := range []setting.Setting{s, image} {
		if err := kinds.Write(ctx, x, setting.Absent); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(before, cfg()); d != "" {
		t.Error(d)
	}
}

// grubExec runs programs in the test root and separates standard output and standard error.
type grubExec struct{ root *testkitroot.Root }

func (e grubExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	cmd := e.root.Command(append([]string{"env", "LC_ALL=C"}, append(c.Env, c.Argv...)...)...)
	out, err := cmd.Output()
	res := host.Result{Stdout: out, ExitCode: cmd.ProcessState.ExitCode()}
	if res.ExitCode > 0 {
		err = nil
	}
	return res, err
}

func (e grubExec) LookPath(name string) (string, error) {
	if out, code := e.root.Run("sh", "-c", "command -v "+name); code == 0 {
		return strings.TrimSpace(out), nil
	}
	return "", host.ErrNotRecorded
}
