package host

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const sampleArchive = `fettle archive v2
time 2026-11-21T16:00:00Z
# a comment
-- file 0444 /proc/uptime --
12.50 20.00
-- dir 0755 /sys/block --
-- link /sys/block/sda -> ../devices/sda --
-- link /loop -> loop --
-- file 0644 noeol /sys/devices/sda/model --
QEMU
-- file 0644 escaped "/etc/odd name" --
a\x00b
\-- no heading --
-- file 0200 EACCES /sys/secret --
-- file 0400 unread /etc/shadow --
-- absent /sys/hypervisor --
-- denied 0000 EACCES /root/.x --
-- run 3 ["lscpu","-J"] --
{}
-- stderr noeol --
oops
-- program numad absent --
-- program tuned /usr/sbin/tuned --
-- links --
lo index=1 kind=device
eth0 index=2 kind=device driver=virtio_net parent=virtio0 altname=enp0s3 altname="odd name"
-- net eth0 link --
mtu=1500
txqueuelen=1000
-- net eth0 features --
tx-tcp-segmentation=off requested=on
rx-vlan-filter=on fixed
-- net eth0 coalesce EOPNOTSUPP --
-- net eth0 ring --
rx=256 max=4096
-- end --
`

func TestArchiveAnswers(t *testing.T) {
	h, err := ParseArchive("x", []byte(sampleArchive))
	if err != nil {
		t.Fatal(err)
	}
	read := func(p, want string, wantErr error) {
		t.Helper()
		b, err := h.Files.ReadFile(p)
		if string(b) != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %q, %v; want %q, %v", p, b, err, want, wantErr)
		}
	}
	read("/sys/block/sda/model", "QEMU", nil)
	read("/etc/odd name", "a\x00b\n-- no heading --\n", nil)
	read("/sys/secret", "", syscall.EACCES)
	read("/etc/shadow", "", ErrNotRecorded)
	read("/nowhere", "", ErrNotRecorded)
	if _, err := h.Files.ReadFile("/nowhere"); errors.Is(err, fs.ErrNotExist) {
		t.Error("what is not recorded is taken for absent")
	}
	read("/sys/block/sdb/size", "", syscall.ENOENT)
	read("/sys/hypervisor/type", "", syscall.ENOENT)
	read("/loop", "", syscall.ELOOP)
	read("/root/.x", "", syscall.EACCES)
	if _, err := h.Files.ReadFile("/sys/block/sdb"); Unknown(err) {
		t.Error("a listed directory knows what it does not have")
	}
	if _, err := h.Files.ReadDir("/etc"); !Unknown(err) {
		t.Errorf("listing of /etc: %v", err)
	}
	if d, err := h.Files.ReadDir("/sys/block"); err != nil || len(d) != 1 || d[0].Name() != "sda" || d[0].Type() != fs.ModeSymlink {
		t.Errorf("listing of /sys/block: %v, %v", d, err)
	}
	if at, err := h.Files.Resolve("/sys/block/sda/model"); at != "/sys/devices/sda/model" {
		t.Errorf("resolve: %q, %v", at, err)
	}
	if err := h.Files.Store("/proc/uptime", nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("store: %v", err)
	}
	if r, err := h.Exec.Run(context.Background(), Command{Argv: []string{"lscpu", "-J"}}); err != nil || r.ExitCode != 3 || string(r.Stderr) != "oops" || string(r.Stdout) != "{}\n" {
		t.Errorf("run: %+v, %v", r, err)
	}
	if _, err := h.Exec.Run(context.Background(), Command{Argv: []string{"lscpu"}}); !Unknown(err) {
		t.Errorf("run of what was not recorded: %v", err)
	}
	if _, err := h.Exec.LookPath("numad"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("look up numad: %v", err)
	}
	if d, err := h.Clock.SinceBoot(); d.Seconds() != 12.5 {
		t.Errorf("since boot: %v, %v", d, err)
	}
}

// Writing a parsed archive reproduces its bytes.
func TestArchiveTextRoundTrip(t *testing.T) {
	h, err := ParseArchive("x", []byte(sampleArchive))
	if err != nil {
		t.Fatal(err)
	}
	text := archiveText(t, h)
	h2, err := ParseArchive("x", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := archiveText(t, h2); !bytes.Equal(text, again) {
		t.Errorf("not canonical:\n%s\nthen\n%s", text, again)
	}
}

func archiveText(t testing.TB, h *Host) []byte {
	var b bytes.Buffer
	if err := h.Files.(archivedFiles).archive.writeTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveRefusals(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"-- file /a --\n-- file /a --\n", "x:3: /a occurs twice"},
		{"-- file a --\n", "not absolute"},
		{"-- file /a/../b --\n", "not clean"},
		{"-- file /a/ --\n", "not clean"},
		{"-- file \"/a\\x00\" --\n", "zero byte"},
		{"-- file /a --\n-- file /a/b --\n", "/a/b is below /a"},
		{"-- link /a -> b --\n-- file /a/b --\n", "below"},
		{"-- thing /a --\n", "unknown entry type"},
		{"-- file 99 /a --\n", "octal"},
		{"-- file 0644 shiny /a --\n", "unknown word"},
		{"-- file 0644 escaped /a --\n\\q\n", "bad escape"},
		{"-- file 0644 unread /a --\nx\n", "marked unread, but has content"},
		{"-- file /a\n", "does not end"},
		{"-- absent /a --\nx\n", "has content, but is not the entry of a file"},
		{"hello\n", "want an entry"},
		{"-- run x [] --\n", "exit code"},
		{"-- run 0 [] --\n", "want a command entry"},
		{"-- stderr --\n", "must follow its run entry"},
		{"-- link /a b --\n", "want a link entry"},
		{"time yesterday\n", "RFC 3339"},
		{"-- file /" + strings.Repeat("a/", 200) + "b --\n", "too long"},
		{"-- links --\neth0 speed=1\n", "unknown word \"speed\""},
		{"-- links --\neth0 index=1\neth1 altname=eth0\n", "\"eth0\" occurs twice"},
		{"-- links --\n-- links --\n", "want exactly one -- links -- entry"},
		{"-- links --\nindex=1\n", "begin with its name"},
		{"-- net eth0 rings --\n", "group \"rings\" is unknown"},
		{"-- net eth0 ring EWHAT --\n", "want an errno name"},
		{"-- net eth0 ring --\nrx\n", "want NAME=VALUE"},
		{"-- net eth0 ring --\nrx=1 min=2\n", "only requested="},
		{"-- end --\n-- file /a --\n", "x:2: -- end -- must be the last line"},
		{"-- end --\nx\n", "x:2: -- end -- must be the last line"},
	} {
		_, err := ParseArchive("x", []byte(archiveHeadingV1+"\n"+c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.body, err, c.want)
		}
	}
	if _, err := ParseArchive("x", []byte("PK\x03\x04")); err == nil || !strings.Contains(err.Error(), "not a fettle archive") {
		t.Errorf("no archive: %v", err)
	}
}

// The archive of a recording answers as the recording host did.
func TestRecordThenOpen(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a/plain": "1\n", "a/bin": "\x00\xff\\x\n-- x --\n", "a/empty": "", "b/c d": "no newline"} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink("/a", filepath.Join(dir, "link"))
	os.Symlink("../../../etc", filepath.Join(dir, "a", "out"))
	os.WriteFile(filepath.Join(dir, "a", "conf"), []byte("password = hunter2\n"), 0o600)

	rec, recording := Record(Mounted(dir))
	type answer struct {
		data string
		err  string
	}
	ask := func(h *Host) map[string]answer {
		got := map[string]answer{}
		note := func(what, data string, err error) {
			a := answer{data: data}
			if err != nil {
				a.err = err.Error()
			}
			got[what] = a
		}
		for _, p := range []string{"/a/plain", "/link/bin", "/a/empty", "/b/c d", "/a/none", "/none/none", "/a", "/link/conf", "/a/out"} {
			b, err := h.Files.ReadFile(p)
			note("read "+p, string(b), err)
		}
		for _, p := range []string{"/", "/link", "/b", "/none", "/a/plain"} {
			list, err := h.Files.ReadDir(p)
			var names []string
			for _, d := range list {
				i, _ := d.Info()
				names = append(names, d.Name()+" "+i.Mode().String())
			}
			note("list "+p, strings.Join(names, ","), err)
		}
		for _, p := range []string{"/link", "/a/plain", "/none"} {
			to, err := h.Files.Readlink(p)
			note("link "+p, to, err)
			to, err = h.Files.Resolve(p)
			note("resolve "+p, to, err)
		}
		return got
	}
	live := ask(rec)
	var text bytes.Buffer
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "hunter2") {
		t.Error("the archive holds a secret")
	}
	file := filepath.Join(t.TempDir(), "m.txt")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenRoot(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	archived := ask(h)
	for k, want := range live {
		if archived[k] != want {
			t.Errorf("%s: live %+v, archived %+v", k, want, archived[k])
		}
	}
	if err := rec.Files.Store("/a/plain", []byte("2")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a recording host wrote: %v", err)
	}
}

func TestRecordLiveCommand(t *testing.T) {
	rec, recording := Record(Live())
	cmd := Command{Argv: []string{"echo", "--password", "hunter2"}}
	if _, err := rec.Exec.Run(context.Background(), cmd); err != nil {
		t.Fatal(err)
	}
	ok := Command{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 4"}}
	want, err := rec.Exec.Run(context.Background(), ok)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	recording.WriteTo(&b)
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("secret in %s", &b)
	}
	h, err := ParseArchive("x", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Exec.Run(context.Background(), ok)
	if err != nil || got.ExitCode != want.ExitCode || !slices.Equal(got.Stdout, want.Stdout) || !slices.Equal(got.Stderr, want.Stderr) {
		t.Errorf("replayed %+v, %v; ran %+v", got, err, want)
	}
}

func TestCopyOfSosreport(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("sos_commands/kernel/sysctl_-a", "net.ipv4.conf.eth0/100.mtu = 9000\nvm.swappiness = 10\nvm.swappiness_x = 11\ndev.cdrom.info = a\ndev.cdrom.info = b\n")
	put("sos_commands/hardware/dmidecode", "BIOS Information\n\tVendor: Dell Inc.\n\tVersion: 2.1\n\nSystem Information\n\tManufacturer: Dell Inc.\n\tProduct Name: PowerEdge R740\n\tVersion: Not Specified\n")
	put("proc/meminfo", "MemTotal: 1 kB\n")
	h, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"/proc/sys/vm/swappiness": "10\n", "/proc/sys/dev/cdrom/info": "a\nb\n",
		"/proc/sys/net/ipv4/conf/eth0.100/mtu": "9000\n", "/proc/meminfo": "MemTotal: 1 kB\n",
		"/sys/class/dmi/id/product_name": "PowerEdge R740\n", "/sys/class/dmi/id/bios_version": "2.1\n",
	} {
		if b, err := h.Files.ReadFile(p); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	// A recording of a sosreport keeps the content that replaces missing files.
	rec, recording := Record(h)
	if b, err := rec.Files.ReadFile("/proc/sys/vm/swappiness"); string(b) != "10\n" || err != nil {
		t.Errorf("recorded swappiness: %q, %v", b, err)
	}
	var text bytes.Buffer
	recording.WriteTo(&text)
	if again, err := ParseArchive("x", text.Bytes()); err != nil {
		t.Error(err)
	} else if b, err := again.Files.ReadFile("/proc/sys/vm/swappiness"); string(b) != "10\n" || err != nil {
		t.Errorf("archived swappiness: %q, %v", b, err)
	}
	if _, err := OpenRoot(filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "does not contain a machine, but its subdirectory") {
		t.Errorf("a level too high: %v", err)
	}
	for _, p := range []string{"/proc/sys/vm/none", "/sys/class/dmi/id/board_name", "/sys/block"} {
		if _, err := h.Files.ReadFile(p); !Unknown(err) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func FuzzParseArchive(f *testing.F) {
	f.Add([]byte(sampleArchive))
	f.Add([]byte(sampleArchive[:len(sampleArchive)-30]))
	f.Add([]byte(archiveHeadingV1 + "\n-- link /a -> /b/.. --\n-- link /b -> a --\n-- file 07777 /c/d --\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseArchive("x", text)
		if err != nil {
			return
		}
		for p := range h.Files.(archivedFiles).entries {
			h.Files.ReadFile(p)
			h.Files.ReadDir(p)
			h.Files.Resolve(p + "/x/../y")
		}
		once := archiveText(t, h)
		h2, err := ParseArchive("x", once)
		if err != nil {
			t.Fatalf("written archive is refused: %v\n%s", err, once)
		}
		if twice := archiveText(t, h2); !bytes.Equal(once, twice) {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}
