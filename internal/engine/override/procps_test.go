package override

import (
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// What systemd-sysctl 252 and procps 4.0 of Debian 12 leave of the same files. The
// claims are systemd-sysctl's, which a machine with systemd runs at boot.
func TestSystemdSysctlAndProcps(t *testing.T) {
	testkitroot.Real(t, "runs systemd-sysctl and procps in the Debian test root")
	const key = "net/ipv4/conf/eth0/rp_filter"
	cases := []struct {
		name, text      string
		systemd, procps string
	}{
		{"exclusion after an assignment", "net.ipv4.conf.eth0.rp_filter = 2\n-net.ipv4.conf.eth0.rp_filter\n", untouched, "2"},
		{"and before a pattern", "net.ipv4.conf.eth0.rp_filter = 2\n-net.ipv4.conf.eth0.rp_filter\nnet.ipv4.conf.*.rp_filter = 1\n", untouched, "2"},
		{"exclusion before an assignment", "-net.ipv4.conf.eth0.rp_filter\nnet.ipv4.conf.eth0.rp_filter = 2\n", "2", "2"},
		{"exclusion of a pattern", "net.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.eth0.rp_filter\n", untouched, untouched},
		{"pattern after the key", "net.ipv4.conf.eth0.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 1\n", "2", "2"},
	}
	root := testkitroot.New(t, testkitroot.Options{})
	for i, c := range cases {
		for _, program := range []string{"systemd", "procps"} {
			dir := filepath.Join(root.Share(), program, string(rune('a'+i)))
			machine.WriteFile(t, dir, "proc/sys/"+key, untouched)
			machine.WriteFile(t, dir, "etc/sysctl.d/10-a.conf", c.text)
		}
	}
	root.Must("sh", "-euc", `
for d in etc/sysctl.d run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d; do
  mkdir -p "/${d%/*}"; rm -rf "/$d"
done
rm -f /etc/sysctl.conf
for program in systemd procps; do
  for tree in "$1/$program"/*; do
    rm -rf /etc/sysctl.d; ln -s "$tree/etc/sysctl.d" /etc/sysctl.d
    mount --bind "$tree/proc/sys" /proc/sys
    if [ $program = systemd ]; then /lib/systemd/systemd-sysctl; else /sbin/sysctl --system; fi >"$tree/log" 2>&1 || :
    umount /proc/sys
  done
done`, "sh", root.Share())
	for i, c := range cases {
		left := func(program string) string {
			b, err := os.ReadFile(filepath.Join(root.Share(), program, string(rune('a'+i)), "proc/sys", key))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		text := func(s string) string {
			if s == untouched {
				return s
			}
			return s + "\n"
		}
		if got := left("systemd"); got[:min(len(got), len(text(c.systemd)))] != text(c.systemd) {
			t.Errorf("%s: systemd-sysctl leaves %q, want %q", c.name, got, c.systemd)
		}
		if got := left("procps"); got[:min(len(got), len(text(c.procps)))] != text(c.procps) {
			t.Errorf("%s: procps leaves %q, want %q", c.name, got, c.procps)
		}
		h, err := host.Copy(filepath.Join(root.Share(), "systemd", string(rune('a'+i))))
		if err != nil {
			t.Fatal(err)
		}
		claims, _ := read(t, h)
		want := untouched
		if w, ok := claims.Winner(setting.Setting{Kind: "sysctl", Name: "net.ipv4.conf.eth0.rp_filter"}); ok {
			want = w.Value.Text
		}
		if want != c.systemd {
			t.Errorf("%s: the winner is %q, systemd-sysctl leaves %q", c.name, want, c.systemd)
		}
	}
}
