package root

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

var ports sync.Map // returned by Port

// Port returns a free port of 127.0.0.1 for a server that needs a number and listens later. It
// is below the ephemeral ports (ip(7), ip_local_port_range), because a connection of a test in
// another package could take one of those meanwhile. No port is returned twice.
func Port(t testing.TB) int {
	t.Helper()
	const lowest = 10_000
	first, last := 32768, 0
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
			t.Fatal(err)
		}
	}
	if first <= lowest {
		t.Fatalf("the kernel gives ports from %d on away: tests want those from %d to it", first, lowest)
	}
	for range 1000 {
		port := lowest + rand.IntN(first-lowest)
		if _, given := ports.LoadOrStore(port, true); given {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Unheard returns an address of this machine, HOST:PORT, on which nothing can listen until the
// test ends. A released port could be reused by another test immediately.
func Unheard(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}
