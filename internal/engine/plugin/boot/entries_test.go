package boot

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const entry = "title Fedora Linux\nversion 6.1\nlinux /vmlinuz-6.1\ninitrd /initramfs-6.1.img\noptions root=/dev/sda1 ro\ngrub_users $grub_users\ngrub_class fedora\n"

func fedora(more map[string]string) map[string]string {
	files := map[string]string{
		"/etc/default/grub":                          "GRUB_ENABLE_BLSCFG=\"true\"\n",
		"/boot/loader/entries/id-6.1.conf":           entry,
		"/boot/loader/entries/id-0-rescue.conf":      entry,
		"/boot/loader/entries/id-5.0.conf":           strings.Replace(entry, " ro\n", " ro $tuned_params\n", 1),
		"/boot/loader/entries/sdboot.conf":           "title other\noptions x\n",
		"/boot/grub2/grub.cfg":                       "blscfg\n",
		"/proc/cmdline":                              "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.1 root=/dev/sda1 ro\n",
		"/usr/lib/tuned/p/o.img":                     "IMG",
		"/usr/lib/kernel/install.d/92-tuned.install": "#!/bin/sh\n",
		"/etc/kernel/cmdline":                        "root=/dev/sda1 ro\n",
	}
	for p, c := range more {
		files[p] = c
	}
	return files
}

// TestEntries uses the real grub-editenv of the test root on the environment block of a Fedora-like
// tree.
func TestEntries(t *testing.T) {
	testkitroot.Real(t, "runs grub-editenv in the test root")
	for name, first := range map[string][]string{
		"fresh block": nil, "other variables": {"saved_entry=id-6.1", "kernelopts=root=/dev/sda1 ro"},
		"left by TuneD": {"tuned_params=", "tuned_initrd=", "boot_success=1"},
	} {
		t.Run(name, func(t *testing.T) {
			root := testkitroot.New(t, testkitroot.Options{Files: fedora(nil)})
			root.Must("grub-editenv", "/boot/grub2/grubenv", "create")
			if len(first) > 0 {
				root.Must(append([]string{"grub-editenv", "/boot/grub2/grubenv", "set"}, first...)...)
			}
			h := host.Mounted(root.Path("/"))
			h.Exec = rootExec{root}
			kinds := plugin.Kinds(h, Kinds(h))
			files := []string{"/boot/grub2/grubenv", "/boot/loader/entries/id-6.1.conf", "/boot/loader/entries/id-0-rescue.conf",
				"/boot/loader/entries/id-5.0.conf", "/boot/loader/entries/sdboot.conf", "/etc/default/grub", "/boot/grub2/grub.cfg"}
			snapshot := func() map[string]string {
				out := map[string]string{}
				for _, f := range files {
					b, err := h.Files.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					out[f] = string(b)
				}
				return out
			}
			before := snapshot()
			images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Bootloader, h, kinds, "cmdline=+isolcpus=1 dyndbg=a\\b memmap=1G$4G", "initrd_add_img=/usr/lib/tuned/p/o.img"))
			after := snapshot()
			list := root.Must("grub-editenv", "/boot/grub2/grubenv", "list")
			for _, want := range []string{"tuned_params=isolcpus=1 dyndbg=a\\b memmap=1G$4G\n", "tuned_initrd=/o.img\n"} {
				if !strings.Contains(list, want) {
					t.Errorf("grub-editenv list lacks %q: %s", want, list)
				}
			}
			if want := strings.Replace(strings.Replace(entry, " ro\n", " ro $tuned_params\n", 1), "6.1.img\n", "6.1.img $tuned_initrd\n", 1); after["/boot/loader/entries/id-6.1.conf"] != want {
				t.Errorf("entry: %s", after["/boot/loader/entries/id-6.1.conf"])
			}
			for _, same := range []string{"/boot/loader/entries/id-0-rescue.conf", "/boot/loader/entries/sdboot.conf", "/boot/grub2/grub.cfg"} {
				if after[same] != before[same] {
					t.Errorf("%s was changed", same)
				}
			}
			plugin.Undo(t, kinds, images)
			if d := cmp.Diff(before, snapshot()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestArchive unpacks an overlay with the real cpio.
func TestArchive(t *testing.T) {
	root := testkitroot.New(t, testkitroot.Options{Files: map[string]string{"/srv/src/etc/a.conf": "one\n", "/srv/src/usr/bin/run": "#!/bin/sh\n"}})
	root.Must("ln", "-s", "../etc/a.conf", "/srv/src/usr/link")
	root.Must("chmod", "700", "/srv/src/etc")
	h := host.Mounted(root.Path("/"))
	k := Kinds(h)["initrd"]
	if err := k.Write(context.Background(), setting.Setting{Kind: "initrd", Name: "/boot/o.img"}, setting.Text("archive of /srv/src")); err != nil {
		t.Fatal(err)
	}
	root.Must("sh", "-c", "mkdir /srv/out && cd /srv/out && cpio -i --quiet </boot/o.img")
	want := root.Must("sh", "-c", "cd /srv/src && find . -printf '%p %M %l\n' | sort && cat etc/a.conf usr/bin/run")
	got := root.Must("sh", "-c", "cd /srv/out && rm -f "+sourceName+" && find . -printf '%p %M %l\n' | sort && cat etc/a.conf usr/bin/run")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOSTree(t *testing.T) {
	kargs := "root=UUID=1 rw quiet"
	h := machine.Mounted(t, map[string]string{"/run/ostree-booted": "", "/proc/cmdline": "root=UUID=1 rw quiet\n"})
	p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"rpm-ostree": func(c host.Command) host.Result {
		args := strings.Fields(kargs)
		for _, a := range c.Argv[2:] {
			if d, ok := strings.CutPrefix(a, "--delete="); ok {
				args = without(args, []string{d})
			}
			if n, ok := strings.CutPrefix(a, "--append="); ok {
				args = append(args, n)
			}
		}
		kargs = strings.Join(args, " ")
		return host.Result{Stdout: []byte(kargs + "\n")}
	}}}
	h.Exec = p
	kinds := plugin.Kinds(h, Kinds(h))
	images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Bootloader, h, kinds, "cmdline=quiet isolcpus=1 nohz=on"))
	if kargs != "root=UUID=1 rw quiet isolcpus=1 nohz=on" {
		t.Errorf("applied: %s", kargs)
	}
	plugin.Undo(t, kinds, images)
	if kargs != "root=UUID=1 rw quiet" {
		t.Errorf("undone: %s", kargs)
	}
	var did []string
	for _, c := range p.Calls {
		if c != "rpm-ostree kargs" {
			did = append(did, c)
		}
	}
	if d := cmp.Diff([]string{"rpm-ostree kargs --append=isolcpus=1 --append=nohz=on", "rpm-ostree kargs --delete=isolcpus=1 --delete=nohz=on"}, did); d != "" {
		t.Error(d)
	}
}

func TestBootc(t *testing.T) {
	testkitroot.Rights(t)
	files := map[string]string{
		"/run/ostree-booted": "", "/proc/cmdline": "ostree=/ostree/boot.1/x/0 rw\n",
		"/boot/loader/entries/ostree-1.conf": "options ostree=/ostree/boot.0/x/0 rw\nx-options-source-fettle old=1\n",
		"/boot/loader/entries/ostree-2.conf": "options ostree=/ostree/boot.1/x/0 rw\nx-options-source-tuned y=1\n",
		"/run/ostree/":                       "",
	}
	h := machine.Mounted(t, files)
	p := &plugin.Programs{Answer: map[string]func(host.Command) host.Result{"bootc": func(c host.Command) host.Result {
		if c.Argv[len(c.Argv)-1] == "--help" {
			return host.Result{}
		}
		args := ""
		if len(c.Argv) == 7 {
			args = c.Argv[6]
		}
		h.Files.Replace("/run/ostree/staged-deployment", []byte("\x01bootconfig-extra\x00x-options-source-tuned\x00y=1\x00\x17"+sourceKey+"\x00"+args+"\x00\x18"), host.Attr{Mode: 0o600})
		return host.Result{}
	}}}
	h.Exec = p
	kinds := plugin.Kinds(h, Kinds(h))
	images := plugin.Apply(t, kinds, plugin.PlanUndotest(t, &Bootloader, h, kinds, "cmdline=isolcpus=1 nohz=on"))
	plugin.Undo(t, kinds, images)
	var did []string
	for _, c := range p.Calls {
		if !strings.HasSuffix(c, "--help") {
			did = append(did, c)
		}
	}
	want := []string{"bootc loader-entries set-options-for-source --source fettle --options isolcpus=1 nohz=on", "bootc loader-entries set-options-for-source --source fettle"}
	if d := cmp.Diff(want, did); d != "" {
		t.Error(d)
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add("# GRUB Environment Block\ntuned_params=a\\\\b\n####")
	f.Add("\\")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseEnv(text) {
			if strings.HasPrefix(name, "#") {
				t.Errorf("%q", text)
			}
		}
	})
}

func FuzzSourceOf(f *testing.F) {
	h := machine.Mounted(f, map[string]string{"/tmp/x/a": "b"})
	b, err := pack(h, "/tmp/x", "archive of /tmp/x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b))
	f.Add("070701")
	f.Fuzz(func(_ *testing.T, s string) { sourceOf(s) })
}

// FuzzVars adds references to each sort of file and removes them again.
func FuzzVars(f *testing.F) {
	f.Add(entry)
	f.Add("options a\r\n\toptions\tb\ninitrd /x")
	f.Add("root=/dev/sda1 ro \n")
	f.Add("# comment\n\n")
	f.Add("GRUB_TIMEOUT=5")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "$tuned_") || strings.Contains(text, defaultsBegin) || strings.Contains(text, noLineFeed) {
			return
		}
		args, image := entryLines(text)
		for _, c := range []struct {
			name, want string
			change     func(text, refs string) string
		}{
			{entriesDir + "/a.conf", refsOf(args >= 0, image >= 0), withEntry},
			{kernelCmdline, argsRef, func(text, refs string) string { return withCmdline(text, refs != "") }},
			{defaults, argsRef, func(text, refs string) string { return withDefaults(text, refs != "") }},
		} {
			with := c.change(text, argsRef+" "+initrdRef)
			if refs, err := refsIn(c.name, with); err != nil || refs != c.want {
				t.Errorf("%s: %q: reads %q, %v", c.name, with, refs, err)
			}
			if again := c.change(with, argsRef+" "+initrdRef); again != with {
				t.Errorf("%s: %q: not the same the second time: %q", c.name, with, again)
			}
			if back := c.change(with, ""); back != text {
				t.Errorf("%s: %q came back as %q", c.name, text, back)
			}
		}
	})
}

// rootExec runs programs in the test root.
type rootExec struct{ root *testkitroot.Root }

func (e rootExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	out, code := e.root.Run(c.Argv...)
	return host.Result{Stdout: []byte(out), ExitCode: code}, nil
}

func (e rootExec) LookPath(name string) (string, error) {
	if name == "grub2-editenv" {
		return "", host.ErrNotRecorded
	}
	return name, nil
}
