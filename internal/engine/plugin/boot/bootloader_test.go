package boot

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

func TestCmdline(t *testing.T) {
	for _, c := range []struct {
		options []string
		want    string
	}{
		{[]string{"cmdline=quiet"}, "quiet"},
		{[]string{"cmdline=+quiet  splash"}, "quiet splash"},
		{[]string{"cmdline_a=+rhgb quiet", "cmdline_b=-quiet"}, "rhgb"},
		{[]string{"cmdline_a=-quiet", "cmdline_b=quiet"}, "quiet"},
		{[]string{"cmdline_a=x=1 y x=1", "cmdline_b=-x=1"}, "y"},
		{[]string{"cmdline_a=x=10", "cmdline_b=-x=1"}, "x=10"},
		{[]string{"cmdline_a=isolcpus=1", "other=z", "cmdline_b=nohz=on"}, "isolcpus=1 nohz=on"},
		{[]string{`cmdline=\+x`}, "+x"},
		{[]string{`cmdline=\-x`}, "-x"},
		{[]string{`cmdline=\\x`}, `\x`},
		{[]string{`cmdline=\x`}, `\x`},
		{[]string{`cmdline="quiet splash"`}, "quiet splash"},
		{[]string{"cmdline=+", "cmdline_b=-", "cmdline_c="}, ""},
	} {
		var opts []profile.Option
		for _, o := range c.options {
			name, v, _ := strings.Cut(o, "=")
			opts = append(opts, profile.Option{Name: name, Value: v, Raw: v})
		}
		if got := cmdline(opts); got != c.want {
			t.Errorf("%q: %q, want %q", c.options, got, c.want)
		}
	}
	// The operator is what is written: a variable cannot bring one.
	if got := cmdline([]profile.Option{{Name: "cmdline", Raw: "${x}", Value: "-quiet"}}); got != "-quiet" {
		t.Errorf("from a variable: %q", got)
	}
}

// debian is a machine whose grub-mkconfig is simulated by a function of the defaults, as the real
// one works.
func debian(t *testing.T, more map[string]string) (*host.Host, *plugin.Programs) {
	files := map[string]string{
		"/usr/sbin/grub-mkconfig": "#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg\n",
		"/etc/default/grub":       "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
		"/boot/vmlinuz":           "", "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet\n", "/tmp/": "", "/usr/lib/tuned/": "",
	}
	for p, c := range more {
		files[p] = c
	}
	var h *host.Host
	generated := func() string {
		out := "# generated\n"
		for _, f := range []string{defaults, dropIn} {
			b, _ := h.Files.ReadFile(f)
			_, ours, _, ok, err := splitBlock(string(b))
			if err != nil {
				t.Error(err)
			}
			if ok {
				out += "linux /boot/vmlinuz " + grubQuote(ours.args) + "\ninitrd /boot/" + ours.initrd + "\n"
			}
		}
		return out
	}
	files["/boot/grub/grub.cfg"] = "# generated\n"
	if c, ok := more["/boot/grub/grub.cfg"]; ok {
		files["/boot/grub/grub.cfg"] = c
	}
	h = machine.Mounted(t, files)
	update := func(cfg string) {
		if err := h.Files.Replace(cfg, []byte(generated()), host.Attr{Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{
		"grub-mkconfig": func(c host.Command) host.Result {
			if len(c.Argv) == 3 {
				update(c.Argv[2])
				return host.Result{}
			}
			return host.Result{Stdout: []byte(generated())}
		},
		"update-grub": func(host.Command) host.Result { update("/boot/grub/grub.cfg"); return host.Result{} },
	}}
	h.Exec = p
	return h, p
}

func TestGrub(t *testing.T) {
	for name, c := range map[string]struct {
		more  map[string]string
		place string
	}{
		"drop-in directory":        {map[string]string{dropInDir + "/": ""}, dropIn},
		"no directory yet":         {nil, dropIn},
		"no drop-ins":              {map[string]string{"/usr/sbin/grub-mkconfig": "#!/bin/sh\n"}, defaults},
		"defaults without an end":  {map[string]string{"/usr/sbin/grub-mkconfig": "#!/bin/sh\n", defaults: "A=1"}, defaults},
		"configuration elsewhere":  {map[string]string{"/boot/efi/g.cfg": "# generated\n"}, dropIn},
		"left by an earlier apply": {map[string]string{dropIn: block(boot{args: "old=1"}), "/boot/grub/grub.cfg": "# generated\nlinux /boot/vmlinuz old=1\ninitrd /boot/\n"}, dropIn},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := debian(t, c.more)
			kinds := plugin.Kinds(h, Kinds(h))
			before := plugin.Snapshot(t, h)
			files := Kinds(h)["bootloader"].(setting.FileLister).Files
			for cfg, want := range map[string][]string{
				"grub:/boot/grub/grub.cfg": {c.place, "/boot/grub/grub.cfg"}, "grubenv": nil, "rpm-ostree": nil,
			} {
				if got := files(setting.Setting{Kind: "bootloader", Name: cfg}); !slices.Equal(got, want) {
					t.Errorf("files of %s: %v, want %v", cfg, got, want)
				}
			}
			lines := []string{"cmdline_a=+isolcpus=1-3 memmap=1G$4G", "cmdline_b=nohz=on"}
			cfg := "/boot/grub/grub.cfg"
			if name == "configuration elsewhere" {
				cfg = "/boot/efi/g.cfg"
				lines = append(lines, "grub2_cfg_file="+cfg)
				plugin.Proves(t, plugin.FakeTree, "bootloader", "grub2_cfg_file")
			}
			images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Bootloader, h, kinds, lines...))
			b, _ := h.Files.ReadFile(c.place)
			if !strings.Contains(string(b), `'isolcpus=1-3 memmap=1G\$4G nohz=on'`) {
				t.Errorf("%s: %s", c.place, b)
			}
			b, _ = h.Files.ReadFile(cfg)
			if !strings.Contains(string(b), `isolcpus=1-3 memmap=1G\$4G nohz=on`) {
				t.Errorf("%s: %s", cfg, b)
			}
			s := setting.Setting{Kind: "bootloader", Name: "grub:" + cfg}
			k := kinds["bootloader"].(kind)
			v, why := k.Effect(context.Background(), s, setting.Text("isolcpus=1-3 quiet nohz=on"))
			if v != engineplugin.NeedsReboot || why != "the running kernel was started without isolcpus=1-3 nohz=on" {
				t.Error(v, why)
			}
			plugin.Undo(t, kinds, images)
			if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestGrubRefusesHandEdits(t *testing.T) {
	h, _ := debian(t, map[string]string{"/boot/grub/grub.cfg": "# generated\n# mine\n"})
	before := plugin.Snapshot(t, h)
	s := setting.Setting{Kind: "bootloader", Name: "grub:/boot/grub/grub.cfg"}
	err := Kinds(h)["bootloader"].Write(context.Background(), s, setting.Text("x=1"))
	if err == nil || !strings.Contains(err.Error(), "edited by hand or out of date; nothing changed. Run update-grub") {
		t.Error(err)
	}
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
	// What the generator does not take up is put back.
	h, p := debian(t, map[string]string{dropInDir + "/": ""})
	before = plugin.Snapshot(t, h)
	p.Answer["update-grub"] = nil
	err = Kinds(h)["bootloader"].Write(context.Background(), s, setting.Text("x=1"))
	if err == nil || !strings.Contains(err.Error(), "generated without the arguments") {
		t.Error(err)
	}
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
}

func TestOverlayOfDirectory(t *testing.T) {
	testkitroot.Rights(t)
	h, _ := debian(t, map[string]string{dropInDir + "/": "", "/tmp/x/etc/a": "content\n", "/tmp/x/bin/l": "-> ../etc/a"})
	kinds := plugin.Kinds(h, Kinds(h))
	items := plugin.PlanUndotest(t, &Bootloader, h, kinds, "initrd_remove_dir=True", "initrd_dst_img=o.img", "initrd_add_dir=/tmp/x", "cmdline=a=1")
	want := []string{"initrd:/boot/o.img = archive of /tmp/x, which is then removed", "bootloader:grub:/boot/grub/grub.cfg = a=1\ninitrd=o.img"}
	if d := cmp.Diff(want, plugin.Lines(items)); d != "" {
		t.Error(d)
	}
	images := plugin.Apply(t, kinds, items)
	if _, err := h.Files.Stat("/tmp/x"); err == nil {
		t.Error("/tmp/x is still there")
	}
	b, _ := h.Files.ReadFile("/boot/o.img")
	if sourceOf(string(b)) != "archive of /tmp/x, which is then removed" {
		t.Errorf("made of %q", sourceOf(string(b)))
	}
	// Once more, with the directory gone: in place already.
	if again := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Bootloader, h, kinds, "initrd_remove_dir=True", "initrd_dst_img=o.img", "initrd_add_dir=/tmp/x", "cmdline=a=1")); len(again) > 0 {
		t.Errorf("written again: %v", again)
	}
	plugin.Undo(t, kinds, images)
	for _, p := range []string{"/boot/o.img", dropIn} {
		if _, err := h.Files.Stat(p); err == nil {
			t.Errorf("%s was left behind", p)
		}
	}
	plugin.Proves(t, plugin.FakeTree, "bootloader", "initrd_remove_dir")
	plugin.Proves(t, plugin.FakeTree, "bootloader", "initrd_dst_img")
}

func TestPlan(t *testing.T) {
	huge64K := map[string]string{dropInDir + "/": ""}
	for _, size := range []string{"2048kB", "524288kB", "16777216kB"} {
		huge64K["/sys/kernel/mm/hugepages/hugepages-"+size+"/nr_hugepages"] = "0\n"
	}
	testkitroot.Rights(t)
	for _, c := range []struct {
		name  string
		more  map[string]string
		lines []string
		want  []string
	}{
		{"overlay alone brings the boot entry", map[string]string{dropInDir + "/": "", "/usr/lib/tuned/p/o.img": "IMG"}, []string{"initrd_add_img=/usr/lib/tuned/p/o.img"},
			[]string{"initrd:/boot/o.img = IMG", "bootloader:grub:/boot/grub/grub.cfg = \ninitrd=o.img"}},
		{"huge pages of arm64 with pages of 64 KiB", huge64K, []string{"cmdline=hugepagesz=2M hugepages=8 hugepagesz=16G hugepages=1"},
			[]string{"bootloader:grub:/boot/grub/grub.cfg = hugepagesz=2M hugepages=8 hugepagesz=16G hugepages=1"}},
		{"1G on arm64 with pages of 64 KiB", huge64K, []string{"cmdline=quiet hugepagesz=1G hugepages=4"},
			[]string{"bootloader:none rejected: hugepagesz=1G: this kernel has huge pages of 16 GiB, 2 MiB, 512 MiB; it would ignore this size and the hugepages= after it"}},
		{"another default on arm64 with pages of 64 KiB", huge64K, []string{"cmdline=default_hugepagesz=1G"},
			[]string{"bootloader:none rejected: default_hugepagesz=1G: this kernel has huge pages of 16 GiB, 2 MiB, 512 MiB; it would ignore this size and the hugepages= after it"}},
		{"nothing asked", nil, []string{"cmdline=-x", "skip_grub_config=1"}, nil},
		{"skipped and there", nil, []string{"cmdline=quiet", "skip_grub_config=1"},
			[]string{"bootloader:none ok: skip_grub_config: boot loader unchanged; the running kernel has these arguments"}},
		{"skipped and missing", nil, []string{"cmdline=quiet x=1", "skip_grub_config=True"},
			[]string{"bootloader:none needs-reboot: skip_grub_config: boot loader unchanged; add the arguments yourself, the running kernel lacks x=1"}},
		{"not skipped", map[string]string{dropInDir + "/": ""}, []string{"cmdline=x=1", "skip_grub_config=on"}, []string{"bootloader:grub:/boot/grub/grub.cfg = x=1"}},
		{"directory elsewhere", map[string]string{"/srv/d/f": ""}, []string{"initrd_add_dir=/srv/d"},
			[]string{"initrd:/boot/d refused: /srv/d is neither below /tmp nor below a profile directory"}},
		{"directory that is not there", nil, []string{"initrd_add_dir=/tmp/gone"},
			[]string{"initrd:/boot/gone rejected: lstat /tmp/gone: no such file or directory"}},
		{"rpm-ostree without overlays", map[string]string{"/run/ostree-booted": ""}, []string{"initrd_add_img=/x"},
			[]string{"initrd:/boot/x unsupported: rpm-ostree and bootc have no initrd overlays"}},
		{"no supported boot loader found (GRUB 2, GRUB with boot loader entries, rpm-ostree or bootc)", map[string]string{"/boot/grub/grub.cfg": "-> /none"}, []string{"cmdline=a"}, []string{"bootloader:none unsupported: " + errNoLoader.Error()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := debian(t, c.more)
			kinds := plugin.Kinds(h, Kinds(h))
			if d := cmp.Diff(c.want, plugin.Lines(plugin.PlanUndotest(t, &Bootloader, h, kinds, c.lines...))); d != "" {
				t.Error(d)
			}
		})
	}
	plugin.Proves(t, plugin.FakeTree, "bootloader", "skip_grub_config")
	h, _ := debian(t, nil)
	for _, bad := range []string{"initrd_dst_img=/etc/passwd", "initrd_dst_img=../x", "initrd_dst_img=a b"} {
		if items, err := plugin.TryPlan(&Bootloader, h, plugin.Kinds(h, Kinds(h)), "initrd_add_dir=/tmp/x", bad); err == nil {
			t.Errorf("%s: %v", bad, plugin.Lines(items))
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add("GRUB_DEFAULT=0\n", "isolcpus=1 memmap=1G$4G", "x.img")
	f.Add("no end", "it's \\ \"quoted\"", "")
	f.Add("", "", "")
	f.Add(begin+end, "a", "b")
	f.Fuzz(func(t *testing.T, text, args, image string) {
		want, err := parseBoot(boot{args, image}.text())
		if err != nil || want != (boot{args, image}) || strings.Contains(text, strings.TrimSuffix(begin, "\n")) {
			return
		}
		with, err := withBlock(text, setting.Text(want.text()))
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _, ok, err := splitBlock(with); err != nil || !ok || got != want {
			t.Errorf("%+v in %q reads %+v, %v, %v", want, text, got, ok, err)
		}
		back, err := withBlock(with, setting.Absent)
		if err != nil || back != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
		other, err := withBlock(with, setting.Text("other=1"))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := withBlock(other, setting.Text(want.text())); err != nil || again != with {
			t.Errorf("%q came back as %q, %v", with, again, err)
		}
	})
}

// FuzzSplitBlock looks for panics, and for foreign text that is taken for fettle's section.
func FuzzSplitBlock(f *testing.F) {
	f.Add(begin + argsHead + "a'\n" + end)
	f.Add(begin + "rm -rf /\n" + end)
	f.Fuzz(func(t *testing.T, text string) {
		before, b, after, ok, err := splitBlock(text)
		if err == nil && ok && before+block(b)+after != text {
			t.Errorf("%q", text)
		}
	})
}
