// Init is the first program of the virtual machine: it loads the kernel modules for the root
// disk, mounts the disk and executes its init. A distribution's initrd does the same, but takes
// five times as long on an emulated CPU.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	err := start()
	fmt.Fprintln(os.Stderr, "init:", err)
	time.Sleep(time.Second) // let the serial line take the message
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func start() error {
	modules, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	sort.Strings(modules) // numbered: dependencies first
	for _, m := range modules {
		f, err := os.Open(m)
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
			return fmt.Errorf("%s: %w", m, err)
		}
		f.Close()
	}
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat("/dev/vda"); err == nil {
			break
		} else if time.Since(start) > time.Minute {
			return err
		}
	}
	if err := unix.Mount("/dev/vda", "/root", "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount the root disk: %w", err)
	}
	if err := unix.Mount("/dev", "/root/dev", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move /dev: %w", err)
	}
	if err := unix.Chdir("/root"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("switch to the root disk: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Exec("/sbin/init", []string{"/sbin/init"}, os.Environ())
}
