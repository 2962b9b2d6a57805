package fact

import (
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestFillable(t *testing.T) {
	for about, c := range map[string]struct {
		table string
		want  string
	}{
		"a disk, a partition of it, and the kernel's": {`
22 61 0:21 / /proc rw - proc proc rw
61 1 254:1 / / rw - ext4 /dev/vda1 rw
62 61 254:2 / /var/lib/pulp rw - xfs /dev/vda2 rw
28 61 0:25 / /run rw - tmpfs tmpfs rw
`, "/ /var/lib/pulp"},
		"mounted twice, and a directory of it": {`
61 1 254:1 /sub / rw - ext4 /dev/vda1 rw
62 61 254:1 / /mnt/whole rw - ext4 /dev/vda1 rw
63 61 254:1 / /w rw - ext4 /dev/vda1 rw
`, "/w"},
		"hidden by what is mounted over it": {`
61 1 254:1 / / rw - ext4 /dev/vda1 rw
62 61 254:2 / /data rw - ext4 /dev/vda2 rw
63 61 254:3 / /data rw - ext4 /dev/vda3 rw
`, "/ /data"},
		"read only, images, other machines": {`
61 1 254:1 / / ro - ext4 /dev/vda1 rw
62 61 254:2 / /a rw - ext4 /dev/vda2 ro
63 61 7:0 / /snap rw - squashfs /dev/loop0 rw
64 61 0:45 / /srv rw - nfs4 files:/x rw
65 61 0:46 / /gfs rw - glusterfs /dev/x rw
`, ""},
		"subvolumes": {`
61 1 0:30 /@ / rw - btrfs /dev/sda2 rw
62 61 0:31 /@home /home rw - btrfs /dev/sda2 rw
`, "/"},
	} {
		var got []string
		for _, m := range writableDisks(parseMounts(strings.TrimSpace(c.table), "/proc/self/mountinfo")) {
			got = append(got, m.point)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", about, got, c.want)
		}
	}
}

func TestFileSystems(t *testing.T) {
	const table = "61 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
	// This machine's file systems, which are recorded.
	live := host.Live()
	here, err := FileSystems(live)
	if err != nil {
		t.Fatal(err)
	}
	recorder, recording := host.Record(live)
	if _, err := FileSystems(recorder); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	archive, err := host.ParseArchive("archive", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	mount := func(f FileSystem) string { return f.Mount }
	if got, err := FileSystems(archive); err != nil || !slices.Equal(names(got, mount), names(here, mount)) {
		t.Errorf("the archive has %v, %v; the machine %v", got, err, here)
	}
	// A machine behind a mount.
	if got, err := FileSystems(machine.Mounted(t, map[string]string{"/proc/self/mountinfo": table})); err != nil || len(got) != 1 || got[0].Mount != "/" || got[0].SizeBytes <= 0 {
		t.Errorf("%v, %v", got, err)
	}
	// A sandboxed service has its own mounts; a container has its own root.
	sandbox := "61 1 254:1 / / ro - ext4 /dev/vda1 rw\n62 61 254:1 /var/out /var/out rw - ext4 /dev/vda1 rw\n"
	container := "61 1 0:99 / / rw - overlay overlay rw\n62 61 254:1 /volume /var/out rw - ext4 /dev/vda1 rw\n"
	for own, want := range map[string]string{sandbox: "/", container: "/var/out"} {
		got, err := FileSystems(machine.Mounted(t, map[string]string{"/proc/self/mountinfo": own, "/proc/1/mountinfo": table, "/var/out/x": ""}))
		if err != nil || !slices.Equal(names(got, mount), []string{want}) {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	// A copy without output of df.
	if got, err := FileSystems(machine.Copy(t, map[string]string{"/proc/self/mountinfo": table})); !host.Unknown(err) {
		t.Errorf("%v, %v", got, err)
	}
	df := "Filesystem     1K-blocks     Used Available Use% Mounted on\n/dev/vda1       1000000   400000    600000  40% /\n"
	if got, err := FileSystems(machine.Copy(t, map[string]string{
		"/proc/self/mountinfo": table, "/sos_commands/filesys/df_-al_-x_autofs": df, "/etc/os-release": "ID=rhel\n",
	})); err != nil || len(got) != 1 || got[0] != (FileSystem{"/", 1000000 << 10, 600000 << 10}) {
		t.Errorf("%v, %v", got, err)
	}
	// Invalid records in an archive.
	for _, text := range []string{`{"size_bytes":5,"free_bytes":6}`, `{"size_bytes":-5,"free_bytes":-6}`, `{}`, "x"} {
		h, err := host.ParseArchive("archive", []byte("fettle archive v2\n-- dir 0755 / --\n-- file 0444 /proc/self/mountinfo --\n"+table+"-- ask \"space of /\" --\n"+text+"\n-- end --\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := FileSystems(h); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func names(all []FileSystem, of func(FileSystem) string) (out []string) {
	for _, f := range all {
		out = append(out, of(f))
	}
	return out
}
