package host

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EachProcess calls do for every process with the start of its file /proc/PID/NAME, up to 4 KiB; nil if
// that cannot be read. text is valid only during the call.
func (h *Host) EachProcess(name string, do func(pid int, text []byte)) error {
	if _, live := h.Files.(liveFiles); live {
		return eachLiveProcess(name, do)
	}
	pids, err := h.PIDs()
	for _, pid := range pids {
		text, _ := h.Files.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
		do(pid, text)
	}
	return err
}

// eachLiveProcess reads with the same buffers for all processes, and one read(2) for each. /proc
// does not block, so it makes raw system calls: others wake the runtime's monitor thread, which
// then polls every 20 µs. This reduced the context switches of one scan of 2,000 processes from 120
// to 15.
func eachLiveProcess(name string, do func(pid int, text []byte)) error {
	proc := openRaw(unix.AT_FDCWD, []byte("/proc\x00"), unix.O_DIRECTORY)
	if proc < 0 {
		return os.ErrNotExist
	}
	defer unix.RawSyscall(unix.SYS_CLOSE, uintptr(proc), 0, 0) //nolint:errcheck // read only
	entries, text, path := make([]byte, 8<<10), make([]byte, 4<<10), []byte{}
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(proc), uintptr(unsafe.Pointer(&entries[0])), uintptr(len(entries)))
		if errno != 0 {
			return os.NewSyscallError("getdents64", errno)
		}
		if n == 0 {
			return nil
		}
		const atSize, atName = 16, 19 // in a linux_dirent64
		for rest := entries[:n]; len(rest) > atName; {
			size := binary.NativeEndian.Uint16(rest[atSize:])
			entry, _, _ := bytes.Cut(rest[atName:size], []byte{0})
			rest = rest[size:]
			pid, err := strconv.Atoi(string(entry))
			if err != nil {
				continue
			}
			path = append(append(append(append(path[:0], entry...), '/'), name...), 0)
			do(pid, readRaw(proc, path, text))
		}
	}
}

// openRaw opens a file for reading; -1 if that fails. path ends with a zero byte.
func openRaw(dir int, path []byte, flags uintptr) int {
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC|flags, 0, 0, 0)
	if errno != 0 {
		return -1
	}
	return int(fd)
}

// readRaw reads the start of a file into a buffer; nil if that fails. path ends with a zero byte.
func readRaw(dir int, path, buffer []byte) []byte {
	fd := openRaw(dir, path, 0)
	if fd < 0 {
		return nil
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	if errno != 0 {
		return nil
	}
	return buffer[:n]
}
