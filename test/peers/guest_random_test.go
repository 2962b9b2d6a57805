package peers

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	testkitvm "fettle.dev/fettle/internal/testkit/vm"
)

// guestSeed is the seed of the generated profiles, and guestProfiles are the numbers of
// those that are tried; FETTLE_TEST_PROFILES=26 or 20-40 names others.
const guestSeed, guestProfiles = 20261128, "0-199"

// TestRandomProfilesInGuest boots a machine with systemd, NUMA, disks, network devices,
// USB, sound and SELinux, and has TestProfilesOfGuest tune it with 200 generated
// profiles over all plug-ins and coupled pairs.
func TestRandomProfilesInGuest(t *testing.T) {
	vm := testkitvm.Boot(t, testkitvm.Options{ATA: true, Peripherals: true, Append: "lsm=selinux selinux=1 enforcing=0"})
	vm.Put(root.Program(t, "./cmd/fettle"), "/usr/bin/fettle")
	vm.Put(testkitvm.Tests(t, "."), "/root/peers.test")
	out, code := vm.RunFor(3*time.Hour, "cd /root && FETTLE_TEST_IN_GUEST="+cmp.Or(os.Getenv("FETTLE_TEST_PROFILES"), guestProfiles)+" ./peers.test -test.v -test.timeout 170m -test.run '^TestProfilesOfGuest$' 2>&1")
	if code != 0 || !strings.Contains(out, "--- PASS: TestProfilesOfGuest") {
		t.Errorf("exit code %d", code)
	}
	t.Log(out)
}

// prepareGuest makes what the profiles speak of: services, modules, a second file
// system, a network device without hardware, and an irqbalance that moves nothing.
// TuneD takes no profile by itself.
const prepareGuest = `
modprobe -a ahci loop nf_conntrack tcp_bbr sch_fq bfq kyber-iosched
modprobe dummy numdummies=1 && ip link set net1 up
modprobe nbd nbds_max=4
mount | grep -q selinuxfs || mount -t selinuxfs selinuxfs /sys/fs/selinux
mount | grep -q debugfs || mount -t debugfs debugfs /sys/kernel/debug
mkdir -p /mnt/vdb && { mountpoint -q /mnt/vdb || { mkfs.ext4 -q /dev/vdb && mount /dev/vdb /mnt/vdb; }; }
for u in one two; do printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/$u.service; done
systemctl disable --quiet --now tuned.service
mkdir -p /etc/systemd/system/irqbalance.service.d
printf '[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n' >/etc/systemd/system/irqbalance.service.d/still.conf
systemctl daemon-reload
systemctl enable --quiet --now two.service
systemctl restart one.service irqbalance.service
[ -e /etc/default/grub ] || { mkdir -p /boot/grub; echo 'GRUB_CMDLINE_LINUX_DEFAULT=quiet' >/etc/default/grub; }
grub-mkconfig -o /boot/grub/grub.cfg
mkdir -p /etc/tuned/random /etc/tuned/random-parent
printf '#!/bin/sh\n[ "$1" != start ] || echo started >/run/guest-script\n[ "$1" != stop ] || rm -f /run/guest-script\nexit 0\n' | tee /etc/tuned/random/script.sh >/etc/tuned/random-parent/script.sh
printf '[Service]\nNice=7\n' | tee /etc/tuned/random/one.conf >/etc/tuned/random-parent/one.conf
chmod 755 /etc/tuned/random*/script.sh
sed -i -e 's/^[# ]*dynamic_tuning *=.*/dynamic_tuning = 0/' /etc/tuned/tuned-main.conf
udevadm settle
`

// TestProfilesOfGuest is run in the guest by TestRandomProfilesInGuest.
func TestProfilesOfGuest(t *testing.T) {
	which := os.Getenv("FETTLE_TEST_IN_GUEST")
	if which == "" {
		t.Skip("is run by TestRandomProfilesInGuest")
	}
	from, to, isRange := strings.Cut(which, "-")
	first, err := strconv.Atoi(from)
	last := first
	if isRange && err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil {
		t.Fatalf("profiles %q: %v", which, err)
	}
	for name, text := range map[string]string{
		"/usr/lib/python3/dist-packages/perf.py": strings.Replace(noPerf, "8", "4", 1),
		// TestGuest of internal/engine/plugin/table has the real generator, which takes longer.
		"/usr/sbin/grub-mkconfig": "#!/bin/sh\n" + grubMkconfig + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", "-c", prepareGuest).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	daemon := exec.Command("fettle", "daemon", "--tuned=false")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { daemon.Process.Signal(syscall.SIGTERM); daemon.Wait() })
	g := &guestRun{t: t, tuned: startTunedServer(t), state: newGuestState(t), listed: map[string]int{}, kinds: map[string]int{}, plugins: map[string]int{}}
	t.Logf("seed %d; %d files; these move by themselves: %v", guestSeed, len(g.state.files), slices.Sorted(maps.Keys(g.state.moves)))
	began := time.Now()
	for n := first; n <= last; n++ {
		g.try(generateForGuest(guestSeed, n))
	}
	t.Logf("%d profiles, %d values read and the same in both, %d changed by fettle, %d by TuneD; %s\nlisted differences: %v\nprofiles with each plug-in: %v\nverdicts compared with the kernel: %v; %d with what other programs show; %d values changed by hand and seen",
		last-first+1, g.same, g.moved, g.theirs, time.Since(began).Round(time.Second), g.listed, g.plugins, g.kinds, g.shown, g.spoilt)
}

// guestRun is one run over many profiles and what it has counted.
type guestRun struct {
	t                   *testing.T
	tuned               *tunedInGuest
	state               *guestState
	same, moved, theirs int
	shown, spoilt       int            // verdicts compared with other programs; values changed by hand
	listed              map[string]int // reason to values
	kinds               map[string]int // kind of setting and verdict to values
	plugins             map[string]int
}

// try tunes with one profile: by TuneD, by fettle, verify, undo.
func (g *guestRun) try(p guestProfile) {
	for name := range p.plugins {
		g.plugins[name]++
	}
	began := time.Now()
	interrupts, _ := os.ReadFile("/proc/interrupts")
	p.handled = string(interrupts)
	before := g.state.read(p.plugins)
	g.install(p.older)
	log := g.tuned.apply("random")
	p.failed = strings.Contains(log, "BUG: Unhandled exception in start_tuning")
	theirs := g.state.read(p.plugins)
	g.tuned.stop()
	if left := g.state.giveBack(before, p.plugins); len(left) > 0 {
		g.t.Errorf("profile %d: TuneD's changes could not be taken back:\n%s\n%v\n%s", p.n, lines(left, before, g.state.read(p.plugins)), p.older, warnings(log))
	}
	half := time.Since(began)

	g.install(p.all)
	out, code := command("fettle", "tune", "random")
	held := waitForLatency(theirs["cpu_dma_latency"])
	ours := g.state.read(p.plugins)
	ours["cpu_dma_latency"] = held
	fail := func(format string, args ...any) {
		g.t.Helper()
		g.t.Errorf("profile %d (exit %d): %s\n--\n%s--\n%s--\n%s--\n%s", p.n, code, fmt.Sprintf(format, args...), p.all[1], p.all[0], out, warnings(log))
	}
	g.moved += len(differing(before, ours))
	g.theirs += len(differing(before, theirs))
	differ := differing(theirs, ours)
	g.same += len(ours) - len(differ)
	var unlisted []string
	for _, k := range differ {
		if why := listedInGuest(k, before, theirs, ours, p); why != "" {
			g.listed[why]++
		} else {
			unlisted = append(unlisted, fmt.Sprintf("%s was %q: TuneD left %q, fettle %q", k, before[k], theirs[k], ours[k]))
		}
	}
	if len(unlisted) > 0 {
		fail("%s", strings.Join(unlisted, "\n"))
	}
	g.verify(p, before, ours, fail)
	if out, code := command("fettle", "undo"); code != 0 {
		fail("undo: exit %d: %s", code, out)
	}
	waitForLatency(before["cpu_dma_latency"])
	undone := g.state.read(p.plugins)
	if left := differing(before, undone); len(left) > 0 {
		fail("undo left\n%s", lines(left, before, undone))
		g.state.giveBack(before, p.plugins)
	}
	fmt.Printf("profile %d: TuneD %.1f s, fettle %.1f s\n", p.n, half.Seconds(), (time.Since(began) - half).Seconds())
}

// install writes the profile and its parent.
func (g *guestRun) install(text [2]string) {
	g.t.Helper()
	for k, dir := range []string{"random", "random-parent"} {
		if err := os.WriteFile(filepath.Join("/etc/tuned", dir, "tuned.conf"), []byte(text[k]), 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
}

// warnings are the lines of a log of TuneD that are not only information.
func warnings(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " INFO ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// waitForLatency waits some seconds until the daemon holds a limit on the wake-up
// latency, or has given it up, and returns what the kernel keeps to.
func waitForLatency(want string) string {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if is := wakeUpLatency(); is == want || time.Now().After(end) {
			return is
		}
	}
}

// command runs a program and returns what it prints and its exit code.
func command(name string, args ...string) (string, int) {
	c := exec.Command(name, args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		return err.Error(), -1
	}
	return string(out), c.ProcessState.ExitCode()
}

func lines(at []string, was, is root.Tree) string {
	var b strings.Builder
	for _, k := range at {
		fmt.Fprintf(&b, "%s: was %q, is %q\n", k, was[k], is[k])
	}
	return b.String()
}
