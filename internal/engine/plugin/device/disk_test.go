package device

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// block is one disk: its directory below /sys/devices, the subsystem of its parent device ("" for
// none), and its schedulers.
func block(name, below, subsystem, schedulers string) map[string]string {
	dir := "/sys/devices/" + below + "/block/" + name
	files := map[string]string{
		dir + "/removable":           "0\n",
		dir + "/uevent":              "MAJOR=8\nMINOR=0\nDEVNAME=" + name + "\nDEVTYPE=disk\n",
		dir + "/queue/read_ahead_kb": "128\n",
		"/sys/block/" + name:         "-> " + dir,
		"/sys/class/block/" + name:   "-> " + dir,
	}
	if schedulers != "" {
		files[dir+"/queue/scheduler"] = schedulers
	}
	if subsystem != "" {
		files["/sys/devices/"+below+"/uevent"] = ""
		files["/sys/devices/"+below+"/subsystem"] = "-> /sys/bus/" + subsystem
	}
	return files
}

const sdaDir = "/sys/devices/pci0/ata1/host0/target0:0:0/0:0:0:0"

func diskMachine() map[string]string {
	return plugin.Join(
		block("sda", "pci0/ata1/host0/target0:0:0/0:0:0:0", "scsi", "[mq-deadline] none\n"),
		map[string]string{
			sdaDir + "/vendor":                   "ATA     \n",
			sdaDir + "/block/sda/device":         "-> ../..",
			sdaDir + "/block/sda/sda1/partition": "1\n",
			sdaDir + "/block/sda/sda1/removable": "0\n",
			"/sys/class/block/sda1":              "-> " + sdaDir + "/block/sda/sda1",
		},
		block("nvme0n1", "pci1/nvme/nvme0", "nvme", "[none] mq-deadline kyber bfq\n"),
		block("vda", "pci2/virtio1", "virtio", "none [mq-deadline] kyber bfq\n"),
		block("dm-0", "virtual", "", "[none]\n"),
		block("zram0", "virtual", "", ""),
		block("cciss!c0d0", "pci3/cciss0", "cciss", "[none]\n"),
		block("mmcblk0", "pci4/mmc0/mmc0:1", "mmc", "[none] bfq\n"),
		block("sr0", "pci0/ata2/1:0:0:0", "scsi", "[none]\n"),
		map[string]string{"/sys/devices/pci0/ata2/1:0:0:0/block/sr0/removable": "1\n"},
		map[string]string{
			"/proc/sys/kernel/osrelease":     "6.1.0\n",
			"/lib/modules/6.1.0/modules.dep": "kernel/block/bfq.ko.xz:\nkernel/block/kyber-iosched.ko.xz: a b\n",
		})
}

func TestDiskDevices(t *testing.T) {
	got, err := diskDevices(context.Background(), machine.Mounted(t, diskMachine()))
	if err != nil {
		t.Fatal(err)
	}
	// sda1 is a partition, sr0 removable, and TuneD leaves the cciss bus alone.
	want := []string{"dm-0", "mmcblk0", "nvme0n1", "sda", "vda", "zram0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiskPlan(t *testing.T) {
	h := machine.Mounted(t, diskMachine())
	const sda, vda = "sysfs:/sys/block/sda/queue/", "sysfs:/sys/block/vda/queue/"
	for _, tt := range []struct {
		devices string
		lines   []string
		want    []string
	}{
		{"vda", []string{"elevator=bfq"}, []string{vda + "scheduler = bfq"}},
		{"vda", []string{"elevator=deadline"}, []string{vda + "scheduler = mq-deadline # deadline is called mq-deadline since Linux 5.0"}},
		{"vda", []string{"elevator=noop"}, []string{vda + "scheduler = none # noop is called none since Linux 5.0"}},
		{"vda", []string{"elevator=cfq"}, []string{vda + "scheduler = bfq # cfq left Linux in 5.0; bfq replaces it"}},
		{"sda", []string{"elevator=cfq"}, []string{sda + "scheduler = bfq # cfq left Linux in 5.0; bfq replaces it; the kernel then loads the module bfq"}},
		{"sda", []string{"elevator=bfq|mq-deadline"}, []string{sda + "scheduler = mq-deadline"}},
		{"sda", []string{"elevator=kyber"}, []string{sda + "scheduler = kyber # the kernel then loads the module kyber"}},
		{"sda", []string{"elevator=anticipatory | none"}, []string{sda + "scheduler = none"}},
		{"sda", []string{"elevator=anticipatory"}, []string{sda + "scheduler ! unsupported: sda offers only mq-deadline, none"}},
		{"sda", []string{"elevator=none|"}, []string{sda + `scheduler ! rejected: "none|" is not a value for elevator: want a scheduler such as mq-deadline, or alternatives a|b`}},
		{"dm-0", []string{"elevator=bfq"}, []string{"sysfs:/sys/block/dm-0/queue/scheduler ! unsupported: dm-0 has no queue of its own, so it offers only the scheduler none"}},
		{"dm-0", []string{"elevator=noop"}, []string{"sysfs:/sys/block/dm-0/queue/scheduler = none # noop is called none since Linux 5.0"}},
		{"zram0", []string{"elevator=none"}, []string{"sysfs:/sys/block/zram0/queue/scheduler ! unsupported: zram0 has no I/O scheduler"}},
		{"sd*,!sdb vd*", []string{"readahead=>4096", "dynamic=0"}, []string{sda + "read_ahead_kb = >4096", vda + "read_ahead_kb = >4096"}},
		{"sda", []string{"readahead=8192 s"}, []string{sda + "read_ahead_kb = 4096"}},
		{"sda", []string{"readahead=<8192 s"}, []string{sda + "read_ahead_kb = <4096"}},
		{"sda", []string{"readahead=0"}, []string{sda + "read_ahead_kb = 0"}},
		{"sda", []string{"readahead=4095"}, []string{sda + "read_ahead_kb = 4092 # 4095 KiB in whole pages of 4 KiB"}},
		{"sda", []string{"readahead=4M"}, []string{sda + `read_ahead_kb ! rejected: "4M" is not a value for readahead: want KiB (4096), or sectors of 512 bytes ("8192 s"), after > or < if wanted`}},
		{"sda", []string{"readahead_multiply=4"}, []string{sda + "read_ahead_kb = 512 # 4 times 128 KiB"}},
		{"sda", []string{"readahead_multiply=0.5"}, []string{sda + "read_ahead_kb = 64 # 0.5 times 128 KiB"}},
		{"sda", []string{"readahead=>1024", "readahead_multiply=2"}, []string{sda + "read_ahead_kb = 2048 # 2 times 1024 KiB"}},
		{"sda", []string{"readahead=<1024", "readahead_multiply=2"}, []string{sda + "read_ahead_kb = 256 # 2 times 128 KiB"}},
		{"sda", []string{"readahead_multiply=-1"}, []string{sda + `read_ahead_kb ! rejected: "-1" is not a value for readahead_multiply: want a factor greater than 0, such as 4 or 0.5`}},
		{"sda", []string{"scheduler_quantum=64"}, []string{sda + "iosched/quantum ! unsupported: quantum belongs to the CFQ scheduler, which sda does not use; Linux 5.0 removed CFQ"}},
		{"sda", []string{"apm=128", "spindown=6"}, []string{"hdparm:sda/apm = 128", "hdparm:sda/spindown = 6"}},
		{"sda", []string{"apm=0", "spindown=256"}, []string{
			`hdparm:sda/apm ! rejected: "0" is not a value for apm: want 1 to 254, or 255 for off`,
			`hdparm:sda/spindown ! rejected: "256" is not a value for spindown: want 0 to 255, in the steps of hdparm -S`}},
		{"nvme0n1", []string{"apm=128"}, []string{"hdparm:nvme0n1/apm ! unsupported: nvme0n1 is not an ATA disk"}},
		{"xvd*", []string{"elevator=none"}, []string{"p.conf:1: [disk] does nothing: devices=xvd* matches no unassigned device"}},
	} {
		u := plugin.Unit("disk", append([]string{"devices=" + tt.devices}, tt.lines...)...)
		if diff := cmp.Diff(tt.want, plugin.PlanPlugintest(t, Disk, h, u)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", tt.devices, tt.lines, diff)
		}
	}
}

// ataDisk simulates hdparm 9.65 for a disk with an APM level.
type ataDisk struct {
	apm, timer string
	stderr     string
	ran        []string
}

func (d *ataDisk) LookPath(name string) (string, error) { return "/sbin/" + name, nil }

func (d *ataDisk) Run(_ context.Context, c host.Command) (host.Result, error) {
	d.ran = append(d.ran, c.String())
	if d.stderr != "" {
		return host.Result{Stderr: []byte(d.stderr), ExitCode: 5}, nil
	}
	switch {
	case c.Argv[1] == "-B" && len(c.Argv) == 4:
		d.apm = c.Argv[2]
		return host.Result{Stdout: []byte("\n/dev/sda:\n setting Advanced Power Management level to 0x80 (128)\n APM_level\t= 128\n")}, nil
	case c.Argv[1] == "-S":
		d.timer = c.Argv[2]
		return host.Result{Stdout: []byte("\n/dev/sda:\n setting standby to " + d.timer + "\n")}, nil
	}
	return host.Result{Stdout: []byte(fmt.Sprintf("\n/dev/sda:\n APM_level\t= %s\n", d.apm))}, nil
}

func TestHdparm(t *testing.T) {
	ctx := context.Background()
	h := machine.Mounted(t, plugin.Join(diskMachine(), map[string]string{"/run/": "", "/dev/disk/by-id/ata-x": "-> ../../sda", "/dev/sda": ""}))
	disk := &ataDisk{apm: "254"}
	h.Exec = disk
	k := NewHdparm(h)
	read := func(s setting.Setting) string {
		t.Helper()
		v, err := k.Read(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.String()
	}
	write := func(s setting.Setting, v string) {
		t.Helper()
		if err := k.Write(ctx, s, setting.Text(v)); err != nil {
			t.Fatal(err)
		}
	}
	level, timer := DiskSetting("sda", apm), DiskSetting("sda", spindown)
	for answer, want := range map[string]string{"254": "254", "off": "255", "not supported": "(absent)"} {
		disk.apm = answer
		if got := read(level); got != want {
			t.Errorf("APM %q reads %s, want %s", answer, got, want)
		}
	}
	write(level, "128")
	if got := read(level); got != "128" || disk.apm != "128" {
		t.Errorf("APM reads %s and the disk has %s, want 128", got, disk.apm)
	}

	if got := read(timer); got != ownTimer {
		t.Errorf("an untouched timer reads %s, want %s", got, ownTimer)
	}
	write(timer, "6")
	again := NewHdparm(h) // another process
	if v, err := again.Read(ctx, timer); err != nil || v.Text != "6" || disk.timer != "6" {
		t.Errorf("the timer reads %v (%v) and the disk was told %s, want 6", v, err, disk.timer)
	}
	write(timer, ownTimer)
	if got := read(timer); got != ownTimer || disk.timer != ownTimer || engineplugin.Exists(h, notes+"/sda") {
		t.Errorf("after undo the timer reads %s, the disk was told %s", got, disk.timer)
	}

	if s, err := k.Resolve(DiskSetting("disk/by-id/ata-x", apm)); err != nil || s != level {
		t.Errorf("Resolve gives %v (%v), want %v", s, err, level)
	}
	for _, bad := range []string{"sda", "sda/other", "/apm", "../x/apm", ""} {
		if _, err := k.Resolve(setting.Setting{Kind: DiskKindName, Name: bad}); err == nil {
			t.Errorf("name %q was taken", bad)
		}
	}
	ran := len(disk.ran)
	for _, bad := range []setting.Value{setting.Absent, setting.Text("256"), setting.Text("x")} {
		if err := k.Write(ctx, level, bad); err == nil || len(disk.ran) != ran {
			t.Errorf("value %s was sent to the disk", bad)
		}
	}
	disk.stderr = "/dev/sda: \n HDIO_DRIVE_CMD failed: Input/output error\n"
	if err := k.Write(ctx, level, setting.Text("1")); err == nil || err.Error() != "hdparm -B 1 /dev/sda: HDIO_DRIVE_CMD failed: Input/output error" {
		t.Errorf("a refused level gives %v", err)
	}
	if v, err := k.Read(ctx, DiskSetting("sdz", apm)); err != nil || !v.Absent {
		t.Errorf("a disk that is not there reads %v (%v)", v, err)
	}
}
