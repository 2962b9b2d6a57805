package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// build creates a machine that is switched off.
func build(t testing.TB, o Options) *VM {
	t.Helper()
	const why = "boots a virtual machine"
	root.Real(t, why)
	if !o.EveryTier {
		root.Nightly(t, why)
	}
	if o.Queues {
		root.Rights(t) // to make a tap device
	}
	arch, cache, script := runtime.GOARCH, "", "build"
	if o.ARM64 {
		arch, cache, script = "arm64", root.ARM64(t), "arm64" // installs what is missing, if it may
	}
	for _, program := range []string{o.program(), "qemu-img", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			root.Missing(t, "%s is not installed; run: sudo test/root/%s --install", program, script)
		}
	}
	if !o.ARM64 {
		cache = root.Cache(t)
	}
	agent := root.ProgramFor(t, arch, "./internal/testkit/vm/agent")
	if o.MemoryMiB == 0 {
		o.MemoryMiB = 2048
	}
	if o.Ready == "" {
		o.Ready = "multi-user.target"
	}
	dir, err := os.MkdirTemp("/tmp", "fettle-vm-")
	if err != nil {
		t.Fatal(err)
	}
	vm := &VM{t: t, o: o, cache: cache, dir: dir, share: filepath.Join(dir, "share"), ports: map[int]int{}}
	t.Cleanup(func() {
		vm.Kill()
		if t.Failed() {
			t.Logf("console of the virtual machine:\n%s", vm.Console())
		}
		os.RemoveAll(dir)
	})
	if err := os.Mkdir(vm.share, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, agent, filepath.Join(vm.share, "agent.bin"))
	// Copy it to memory, because the shared directory serves a program page by page.
	start := "#!/bin/sh\ncp /run/test/agent.bin /run/agent && exec /run/agent\n"
	if err := os.WriteFile(filepath.Join(vm.share, "agent"), []byte(start), 0o755); err != nil {
		t.Fatal(err)
	}
	if !o.ARM64 {
		image, err := initrd(root.Dir(t), root.Program(t, "./internal/testkit/vm/init"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vm.file("initrd"), image, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	vm.command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "key"))
	copyFile(t, filepath.Join(dir, "key.pub"), filepath.Join(vm.share, "authorized_keys"))
	disk := filepath.Join(cache, "disk.ext4")
	if o.Servers {
		vm.makeServersDisk(t)
		disk = vm.file("servers.ext4")
	}
	vm.command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", disk, vm.file("root.qcow2"))
	for _, name := range []string{"ata.raw", "nvme.raw", "scsi.raw", "virtio.raw"} {
		vm.makeDisk(name, 64)
	}
	for _, port := range append([]int{22}, o.Forward...) {
		vm.ports[port] = root.Port(t)
	}
	return vm
}

// makeDisk creates an empty disk of mib MiB.
func (vm *VM) makeDisk(name string, mib int64) {
	vm.t.Helper()
	f, err := os.Create(vm.file(name))
	if err != nil {
		vm.t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(mib << 20); err != nil {
		vm.t.Fatal(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}

// program returns the name of the emulator.
func (o *Options) program() string {
	if o.ARM64 {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// boot returns the kernel arguments for the console, and for the root disk if no initrd mounts it.
func (o *Options) boot() string {
	if o.ARM64 {
		return "console=ttyAMA0 root=/dev/vda rw rootwait"
	}
	return "console=ttyS0"
}

// arguments returns the arguments of QEMU. All devices have names for Monitor: network devices
// net0 (control, ssh) and net1, PCI slots hot0 to hot3, SCSI bus scsi0.0.
func (vm *VM) arguments() []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none",
		// A reset ends QEMU, and Reboot starts another: a warm reset takes twice as long,
		// because of the code that the emulator has already translated.
		"-no-reboot",
		// Four CPUs on four nodes; no KVM, so that results are the same everywhere.
		"-accel", "tcg,thread=multi", "-smp", "4,sockets=4",
		"-m", fmt.Sprint(vm.o.MemoryMiB),
		"-kernel", filepath.Join(vm.cache, "vmlinuz"),
		"-append", strings.TrimSpace("quiet mitigations=off nokaslr " +
			"random.trust_cpu=on " + vm.audit() + "udev.event_timeout=600 rcupdate.rcu_cpu_stall_suppress=1 systemd.show_status=0 " +
			// Used by state if the machine does not boot.
			"sysrq_always_enabled=1 systemd.journald.forward_to_console=1 systemd.journald.max_level_console=err " + vm.o.boot() + " " + vm.o.Append),
		"-chardev", "file,id=console,append=on,path=" + vm.file("console"), "-serial", "chardev:console",
		"-qmp", "unix:" + vm.file("qmp") + ",server=on,wait=off",
		"-device", "virtio-rng-pci",
	}
	if vm.o.ARM64 {
		// Cortex-A72 has granules of 64 KiB.
		args = append(args, "-machine", "virt,gic-version=3", "-cpu", "cortex-a72")
	} else {
		// The CPU is plain, so that the guest's libraries and ciphers use no instructions that
		// are slow to emulate, which saves a third of the boot.
		args = append(args, "-machine", "q35", "-cpu", "Nehalem", "-initrd", vm.file("initrd"))
	}
	nodes := 4
	if vm.o.Queues {
		nodes = 2
	}
	for n := range nodes {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=mem%d,size=%dM", n, vm.o.MemoryMiB/nodes),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=mem%d", n, n*4/nodes, (n+1)*4/nodes-1, n))
	}
	for n := range 4 {
		args = append(args,
			"-device", fmt.Sprintf("pcie-root-port,id=hot%d,chassis=%d,slot=%d", n, n+1, n+1))
	}
	forward := ""
	for guest, host := range vm.ports {
		forward += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", host, guest)
	}
	args = append(args,
		// When Kill cuts the power, flushed data must be in the file, and all else may be
		// lost: writeback with qcow2 has this effect.
		"-drive", "if=none,id=root,format=qcow2,cache=writeback,file="+vm.file("root.qcow2"),
		"-device", "virtio-blk-pci,drive=root",
		"-drive", "if=none,id=virtio,format=raw,file="+vm.file("virtio.raw"),
		"-device", "virtio-blk-pci,drive=virtio,serial=virtio0",
		"-drive", "if=none,id=nvme,format=raw,file="+vm.file("nvme.raw"),
		"-device", "nvme,drive=nvme,serial=nvme0",
		"-device", "virtio-scsi-pci,id=scsi0",
		"-drive", "if=none,id=scsi,format=raw,file="+vm.file("scsi.raw"),
		"-device", "scsi-hd,drive=scsi,bus=scsi0.0,serial=scsi0",
		// With restrict the guest has no network; only the forwarded ports reach it.
		"-netdev", "user,id=user0,restrict=on"+forward,
		"-device", "virtio-net-pci,id=net0,netdev=user0,mac=52:54:00:00:00:01",
		"-netdev", "user,id=user1,restrict=on,net=192.168.77.0/24",
		"-device", "e1000e,id=net1,netdev=user1,mac=52:54:00:00:00:02",
		"-fsdev", "local,id=share,security_model=none,path="+vm.share,
		"-device", "virtio-9p-pci,fsdev=share,mount_tag=test",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,server=on,wait=off,path="+vm.file("agent"),
		"-device", "virtserialport,chardev=agent,name="+Port,
	)
	if vm.o.ATA {
		args = append(args,
			"-drive", "if=none,id=ata,format=raw,file="+vm.file("ata.raw"),
			"-device", "ide-hd,drive=ata,bus=ide.0,serial=ata0")
	}
	if vm.o.Peripherals {
		args = append(args,
			"-device", "qemu-xhci,id=usb0", "-device", "usb-tablet,bus=usb0.0",
			"-audiodev", "none,id=sound0", "-device", "intel-hda", "-device", "hda-output,audiodev=sound0")
	}
	if vm.o.Queues {
		args = append(args,
			"-device", "pxb-pcie,id=node1,bus_nr=128,numa_node=1",
			"-device", "pcie-root-port,id=queues0,bus=node1,chassis=9,slot=9",
			"-netdev", "tap,id=tap0,queues=4,script=no,downscript=no,vhost=off,ifname="+vm.Tap(),
			"-device", "virtio-net-pci,bus=queues0,netdev=tap0,mq=on,vectors=10,mac=52:54:00:00:00:03")
	}
	for _, d := range vm.added {
		args = append(args,
			"-blockdev", fmt.Sprintf("driver=raw,node-name=%s,file.driver=file,file.filename=%s", d.name, vm.file(d.name+".raw")),
			"-device", fmt.Sprintf("%s,id=%s-dev,drive=%s,serial=%s,bus=%s", d.driver, d.name, d.name, d.name, d.bus))
	}
	return args
}

// Tap returns the name of the network device of this machine at the other end of Options.Queues.
func (vm *VM) Tap() string { return fmt.Sprintf("ftl%d", os.Getpid()) }

// audit returns the argument that leaves out the kernel's audit system, unless the test wants it: once
// off, it stays off.
func (vm *VM) audit() string {
	if strings.Contains(vm.o.Append, "audit=1") {
		return ""
	}
	return "audit=0 "
}
